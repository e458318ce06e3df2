// The connection to the client that shows this page: JSON-RPC 2.0 over postMessage, as MCP Apps define.

const PROTOCOL_VERSION = "2026-01-26";
const METHOD_NOT_FOUND = -32601;
/** The console's variables for colors, and the standard ones with which a client replaces them. */
const CLIENT_COLORS = {
  "--paper": "--color-background-primary",
  "--sheet": "--color-background-secondary",
  "--ink": "--color-text-primary",
  "--soft": "--color-text-secondary",
  "--line": "--color-border-primary",
};
const darkRules = [...document.styleSheets[0].cssRules].filter(
  (rule) => rule instanceof CSSMediaRule && rule.media.mediaText.includes("prefers-color-scheme"),
);

/**
 * The connection. It calls the listeners `onInput`, `onResult` and `onCancelled` for the tool call that
 * the page belongs to, and `onThemeChange`, if there is one, for a new theme.
 */
class Host {
  #listeners;
  #capabilities = {};
  #context = {};
  #requests = new Map(); // the `resolve` and `reject` of open requests, by id
  #nextId = 1;
  #observer = new ResizeObserver(() => this.#reportSize());

  constructor(listeners) {
    this.#listeners = listeners;
    window.addEventListener("message", (event) => {
      if (event.source === window.parent && event.data?.jsonrpc === "2.0") this.#receive(event.data);
    });
  }

  /** Introduce this page to the client, which then starts to send what the listeners wait for. */
  async connect(name) {
    const result = await this.#request("ui/initialize", {
      appInfo: { name, version: "1.0.0" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: PROTOCOL_VERSION,
    });
    this.#capabilities = result.hostCapabilities ?? {};
    this.#applyContext(result.hostContext ?? {});
    this.#notify("ui/notifications/initialized", {});
    this.#observer.observe(document.documentElement);
  }

  /** Call a tool of the server, and return its structured content. */
  async callTool(name, args) {
    return readResult(await this.#request("tools/call", { name, arguments: args }));
  }

  /** Ask the client to open an address in the browser. */
  async openLink(url) {
    const result = await this.#request("ui/open-link", { url });
    if (result.isError) throw new Error("It was refused.");
  }

  /** Whether texts can be sent to the chat. */
  get takesMessages() {
    return this.#capabilities.message !== undefined;
  }

  /** Send a text to the chat, as if the person had written it. */
  async sendMessage(text) {
    const content = [{ type: "text", text }];
    const result = await this.#request("ui/message", { role: "user", content });
    if (result.isError) throw new Error("It was refused.");
  }

  /** The language of numbers and dates; undefined for that of the browser. */
  get locale() {
    try {
      return Intl.getCanonicalLocales(this.#context.locale)[0];
    } catch {
      return undefined;
    }
  }

  #request(method, params) {
    const id = this.#nextId++;
    this.#post({ id, method, params });
    return new Promise((resolve, reject) => this.#requests.set(id, { resolve, reject }));
  }

  #notify(method, params) {
    this.#post({ method, params });
  }

  #post(message) {
    // The client's origin is unknown here, and no message contains what the client may not read.
    window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  }

  #receive({ id, method, params, result, error }) {
    if (method === undefined) {
      const request = this.#requests.get(id);
      this.#requests.delete(id);
      if (error) request?.reject(new Error(error.message || "It was refused."));
      else request?.resolve(result ?? {});
    } else if (id === undefined) {
      this.#handleNotification(method, params ?? {});
    } else {
      this.#answerRequest(id, method);
    }
  }

  #handleNotification(method, params) {
    switch (method) {
      case "ui/notifications/tool-input":
        return this.#listeners.onInput(params.arguments ?? {});
      case "ui/notifications/tool-result":
        return this.#listeners.onResult(params);
      case "ui/notifications/tool-cancelled":
        return this.#listeners.onCancelled(params.reason);
      case "ui/notifications/host-context-changed":
        return this.#applyContext(params);
    }
  }

  #answerRequest(id, method) {
    if (method === "ui/resource-teardown") this.#observer.disconnect();
    if (["ui/resource-teardown", "ping"].includes(method)) this.#post({ id, result: {} });
    else this.#post({ id, error: { code: METHOD_NOT_FOUND, message: "Method not found" } });
  }

  #applyContext(changes) {
    this.#context = { ...this.#context, ...changes };
    const { theme, styles, safeAreaInsets } = this.#context;
    const { style } = document.documentElement;
    if (theme === "light" || theme === "dark") {
      style.colorScheme = theme;
      for (const rule of darkRules) rule.media.mediaText = theme === "dark" ? "all" : "not all";
    }
    const variables = styles?.variables ?? {};
    // Some of the client's colors beside some of our own could not be read.
    if (Object.values(CLIENT_COLORS).every((name) => variables[name])) {
      for (const [own, name] of Object.entries(CLIENT_COLORS)) style.setProperty(own, variables[name]);
    }
    document.body.style.fontFamily = variables["--font-sans"] ?? "";
    const { top = 0, right = 0, bottom = 0, left = 0 } = safeAreaInsets ?? {};
    document.body.style.padding = `${top}px ${right}px ${bottom}px ${left}px`;
    this.#listeners.onThemeChange?.();
  }

  #reportSize() {
    const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
    this.#notify("ui/notifications/size-changed", { width: window.innerWidth, height });
  }
}

/**
 * Return the structured content of a tool's result with the fields for apps, which a client may drop.
 * Throw an error with its message.
 */
function readResult({ isError, content, structuredContent, _meta }) {
  if (!isError && structuredContent) return merge(structuredContent, _meta?.["carrel/app"]);
  const text = content?.find((block) => block.type === "text")?.text ?? "";
  throw new Error(parseError(text) || text || "The answer is empty.");
}

/** Add fields to an object, at any level. The items of a list get those at the same place. */
function merge(value, fields) {
  if (typeof value !== "object" || typeof fields !== "object" || !value || !fields) return fields ?? value;
  if (Array.isArray(value)) return value.map((item, index) => merge(item, fields[index]));
  const merged = Object.keys(fields).map((name) => [name, merge(value[name], fields[name])]);
  return { ...value, ...Object.fromEntries(merged) };
}

function parseError(text) {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return undefined;
  }
}
