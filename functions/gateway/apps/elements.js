// Elements with untrusted texts: a text becomes a text node, whatever it contains.

const MAX_HIGHLIGHTED_TERMS = 50;

/** Make an element. Children are elements and texts; null and undefined are left out. */
function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** Make an element, unless it would be empty. */
function makeIfNotEmpty(tag, properties, ...children) {
  const element = make(tag, properties, ...children);
  return element.hasChildNodes() ? element : null;
}

/** Make the overview, which an app shows first, and put it on the page. */
function makeOverview(title, ...children) {
  const overview = make("section", {}, make("h1", { className: "hidden" }, title), children);
  overview.setAttribute("aria-label", title);
  document.querySelector("main").append(overview);
  return overview;
}

function makeButton(label, onclick, className = "small") {
  return make("button", { type: "button", className, onclick }, label);
}

/** Make a line of facts. Empty ones are left out. */
function makeMeta(facts) {
  const spans = facts.filter(Boolean).map((fact) => make("span", {}, fact));
  return makeIfNotEmpty("p", { className: "soft meta" }, spans);
}

function makeTags(names) {
  const items = (names ?? []).map((name) => make("li", {}, make("span", { className: "tag" }, name)));
  const list = makeIfNotEmpty("ul", { className: "tags" }, items);
  list?.setAttribute("aria-label", "Tags");
  return list;
}

/** Make the message that an action failed. */
function makeError(action, error) {
  const message = `${action} did not work: ${error.message}`;
  return make("p", { className: "error", role: "alert" }, message);
}

function makeStatus(text) {
  return make("p", { className: "soft", role: "status" }, text);
}

/**
 * Make the button below a list that loads its next page. `load` gets a cursor, adds the page there to
 * the list, and returns the next cursor.
 */
function makePager(label, firstCursor, load) {
  const pager = make("div", { className: "more" });
  const offer = (cursor, ...messages) => {
    const button = cursor ? [makeButton(label, () => loadNext(cursor))] : [];
    pager.replaceChildren(...messages, ...button);
  };
  const loadNext = async (cursor) => {
    pager.replaceChildren(makeStatus("Loading …"));
    try {
      offer(await load(cursor));
    } catch (error) {
      offer(cursor, makeError("Loading more", error));
    }
  };
  offer(firstCursor);
  return pager;
}

/** Add items to a list, and move the focus to the first of them. */
function appendAndFocus(list, items) {
  list.append(...items);
  items[0]?.querySelector("button")?.focus();
}

/**
 * Split a text into strings, and `mark` elements with the words that match a query.
 *
 * @param {string} text
 * @param {string[]} terms The words, as the passage spells them.
 */
function highlight(text, terms) {
  const words = (terms ?? []).filter(Boolean).sort((a, b) => b.length - a.length);
  if (!words.length) return [text];
  const escaped = words.slice(0, MAX_HIGHLIGHTED_TERMS).map((word) => word.replace(/\W/gu, escapeCharacter));
  const pattern = `(?<![\\p{L}\\p{N}_])(${escaped.join("|")})(?![\\p{L}\\p{N}_])`;
  const parts = text.split(new RegExp(pattern, "giu"));
  return parts.map((part, index) => (index % 2 ? make("mark", {}, part) : part));
}

/** Write a character as an escape sequence of regular expressions. */
function escapeCharacter(character) {
  return `\\u{${character.codePointAt(0).toString(16)}}`;
}

/** Parse a web address. Return null for any other text. */
function parseWebAddress(text) {
  const url = URL.canParse(text ?? "") ? new URL(text) : null;
  return ["http:", "https:"].includes(url?.protocol) ? url : null;
}

/** Say where in its source a passage is: the chapter, and the page or the location. */
function describePlace({ chapter, page, location }) {
  const position = page ? `page ${page}` : location ? `location ${location}` : null;
  return [chapter, position].filter(Boolean).join(", ");
}

function formatDay(date, locale) {
  const day = new Date(date?.slice(-10) ?? NaN);
  if (Number.isNaN(day.valueOf())) return null;
  return new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" }).format(day);
}

/** Make an idempotency key: a call that is repeated with it takes effect once. */
function makeKey() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join("-");
}
