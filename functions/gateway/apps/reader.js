// A passage in full, with what one can do about it. It takes the place of the overview.

const UNDOING_TOOLS = ["forget", "save_note"];

class Reader {
  #host;
  #overview;
  #opener = null;
  #chunkIds = [];
  #view = make("section", { hidden: true });

  /** Read passages that the elements of an overview open. */
  constructor(host, overview) {
    this.#host = host;
    this.#overview = overview;
    this.#view.setAttribute("aria-label", "Passage");
    overview.after(this.#view);
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target.closest("textarea");
      if (event.key === "Escape" && !isTyping && !this.#view.hidden) this.#goBack();
    });
  }

  /** Show a passage. */
  async open(chunkId) {
    if (!this.#chunkIds.length) this.#opener = document.activeElement;
    this.#chunkIds.push(chunkId);
    await this.#show();
  }

  #goBack() {
    this.#chunkIds.pop();
    if (this.#chunkIds.length) return this.#show();
    this.#view.hidden = true;
    this.#overview.hidden = false;
    this.#opener?.focus();
  }

  /** Load and show the passage on top, with a notice of what was done to it, if given. */
  async #show(notice = null) {
    const chunkId = this.#chunkIds.at(-1);
    this.#fill(make("p", { className: "soft", role: "status" }, "Reading the passage …"));
    this.#overview.hidden = true;
    this.#view.hidden = false;
    this.#view.querySelector("button").focus();
    let parts;
    try {
      const passage = await this.#host.callTool("get_chunk", { chunk_id: chunkId });
      parts = [notice, this.#makeArticle(passage), this.#makeRelated(passage)];
    } catch (error) {
      parts = [notice, makeError("Reading the passage", error)];
    }
    if (chunkId === this.#chunkIds.at(-1)) this.#fill(...parts);
  }

  #fill(...parts) {
    const hadFocus = this.#view.contains(document.activeElement);
    this.#view.replaceChildren();
    const back = makeButton("Back", () => this.#goBack());
    this.#view.append(...[back, ...parts].filter(Boolean));
    if (hadFocus) back.focus();
  }

  #makeArticle(passage) {
    const { knowledge_card: card } = passage;
    const paragraphs = passage.content.split(/\n\s*\n/).map((text) => make("p", {}, text.trim()));
    const takeaways = (card?.takeaways ?? []).map((takeaway) => make("li", {}, takeaway));
    const summary = card?.summary ? make("p", {}, card.summary) : null;
    return make(
      "article",
      { className: "passage open" },
      makeMeta([
        passage.author,
        describePlace(passage),
        passage.chunk_info?.replace("/", " of "),
        formatDay(passage.date, this.#host.locale),
      ]),
      make("h1", {}, passage.title),
      make("div", { className: "text" }, paragraphs),
      makeFilled("div", { className: "card" }, summary, makeFilled("ul", {}, takeaways)),
      makeFilled("div", { className: "why" }, this.#makeOriginLink(passage), makeTags(passage.tags)),
      make("div", { className: "actions" }, this.#makeNoteForm(passage), this.#makeChatButton(passage)),
    );
  }

  #makeOriginLink({ highlight_url, source_url, readwise_url }) {
    const url = [highlight_url, source_url, readwise_url].map(parseWebAddress).find(Boolean);
    if (!url) return null;
    const button = makeButton(
      "Open at the origin",
      () => {
        const explain = (error) => makeError(`Opening ${url.href}`, error);
        this.#host.openLink(url.href).catch((error) => button.parentElement.append(explain(error)));
      },
      "link",
    );
    button.append(" ", make("span", { className: "soft" }, url.host.replace(/^www\./, "")));
    return button;
  }

  #makeChatButton({ chunk_id }) {
    if (!this.#host.takesMessages) return null;
    const button = makeButton(
      "Discuss in the chat",
      () => {
        // A title could give orders in the person's name, so the message has the id alone.
        const text = `Read the passage ${chunk_id} with get_chunk. I would like to discuss it.`;
        const explain = (error) => makeError("Sending the message", error);
        this.#host.sendMessage(text).catch((error) => button.parentElement.append(explain(error)));
      },
      "link",
    );
    return button;
  }

  #makeNoteForm({ chunk_id }) {
    const text = make("textarea", { id: "note", rows: 4, maxLength: 8000, required: true });
    const button = make("button", { className: "allow" }, "Save the note");
    const label = make("label", { htmlFor: "note" }, "Your thought about this passage");
    const form = make("form", {}, label, text, button);
    const key = makeKey();
    form.onsubmit = async (event) => {
      event.preventDefault();
      form.querySelector(".error")?.remove();
      button.disabled = true;
      const args = { text: text.value, chunk_id, idempotency_key: key };
      try {
        await this.#show(this.#makeNotice(await this.#host.callTool("save_note", args)));
      } catch (error) {
        form.append(makeError("Saving the note", error));
        button.disabled = false;
      }
    };
    return make("details", {}, make("summary", {}, "Add a note"), form);
  }

  #makeNotice({ duplicate, title, readable_by, undo }) {
    const message = duplicate
      ? `Nothing was saved: the note “${title}” already says that, or nearly.`
      : `Saved. The note can be read by ${readable_by}.`;
    const notice = make("div", { className: "notice", role: "status" }, make("p", {}, message));
    if (!UNDOING_TOOLS.includes(undo?.tool)) return notice;
    const button = makeButton("Undo", async () => {
      button.disabled = true;
      try {
        await this.#host.callTool(undo.tool, { ...undo.arguments, idempotency_key: makeKey() });
        await this.#show(make("p", { className: "notice", role: "status" }, "The note is gone."));
      } catch (error) {
        notice.append(makeError("Undoing", error));
        button.disabled = false;
      }
    });
    notice.append(button);
    return notice;
  }

  #makeRelated({ cluster, related_chunks, notes }) {
    const related = related_chunks.map(({ chunk_id, title, snippet }) =>
      make(
        "li",
        { className: "row" },
        makeButton(title, () => this.open(chunk_id), "link row-title"),
        make("p", { className: "text small" }, snippet),
      ),
    );
    const noteRows = notes.map(({ title, text, date }) =>
      make(
        "li",
        { className: "row" },
        make("span", { className: "row-title" }, title),
        make("p", { className: "text small" }, text),
        makeMeta([formatDay(date, this.#host.locale)]),
      ),
    );
    const makeList = (heading, rows) =>
      rows.length ? [make("h2", {}, heading), make("ul", { className: "rows" }, rows)] : [];
    const clusterName = cluster?.cluster_name;
    return makeFilled(
      "aside",
      {},
      makeList("Notes", noteRows),
      clusterName ? [make("h2", {}, "Cluster"), make("p", {}, clusterName)] : [],
      makeList("Related passages", related),
    );
  }
}
