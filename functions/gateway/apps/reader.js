// The reader, which replaces the overview of an app while it shows passages and clusters.

const UNDOING_TOOLS = ["forget", "save_note"];

class Reader {
  #host;
  #overview;
  #opener = null; // the element that had the focus when the reader opened
  #pages = []; // a stack of functions that load the elements of a page; the last one is shown
  #view = make("section", { hidden: true });

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

  /** Open a passage. */
  open(chunkId) {
    this.#push(async () => {
      const passage = await this.#host.callTool("get_chunk", { chunk_id: chunkId });
      return [this.#makeArticle(passage), this.#makeRelated(passage)];
    });
  }

  /** Open a cluster: the list of its passages. */
  openCluster(clusterId) {
    this.#push(async () => {
      const args = { cluster_id: clusterId, include_related: false };
      return this.#makeCluster(await this.#host.callTool("get_cluster", args));
    });
  }

  #push(page) {
    if (!this.#pages.length) this.#opener = document.activeElement;
    this.#pages.push(page);
    this.#show();
  }

  #goBack() {
    this.#pages.pop();
    if (this.#pages.length) {
      this.#show();
    } else {
      this.#view.hidden = true;
      this.#overview.hidden = false;
      this.#opener?.focus();
    }
  }

  /** Load and show the last page, below a notice of what was done there, if there is one. */
  async #show(notice = null) {
    const page = this.#pages.at(-1);
    this.#overview.hidden = true;
    this.#view.hidden = false;
    this.#fill(makeStatus("Reading …"));
    let parts;
    try {
      parts = await page();
    } catch (error) {
      parts = [makeError("Reading this", error), makeButton("Try again", () => this.#show(notice))];
    }
    if (page === this.#pages.at(-1)) this.#fill(notice, ...parts);
  }

  #fill(...parts) {
    const back = makeButton("Back", () => this.#goBack());
    this.#view.replaceChildren(...[back, ...parts].filter(Boolean));
    back.focus();
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
      makeIfNotEmpty("div", { className: "card" }, summary, makeIfNotEmpty("ul", {}, takeaways)),
      makeIfNotEmpty("div", { className: "why" }, this.#makeOriginLink(passage), makeTags(passage.tags)),
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
    const label = make("label", { htmlFor: "note" }, "Your thought about this passage");
    const key = makeKey();
    const save = async () => {
      if (!text.reportValidity()) return;
      form.querySelector(".error")?.remove();
      button.disabled = true;
      const args = { text: text.value, about: chunk_id, idempotency_key: key };
      try {
        this.#show(this.#makeNotice(await this.#host.callTool("save_note", args)));
      } catch (error) {
        form.append(makeError("Saving the note", error));
        button.disabled = false;
      }
    };
    // Clients need not let their frames submit forms.
    const button = makeButton("Save the note", save, "allow");
    const form = make("form", {}, label, text, button);
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
        this.#show(make("p", { className: "notice", role: "status" }, "The note is gone."));
      } catch (error) {
        notice.append(makeError("Undoing", error));
        button.disabled = false;
      }
    });
    notice.append(button);
    return notice;
  }

  #makeRelated({ cluster, related_chunks, notes }) {
    const noteRows = (notes ?? []).map(({ title, text, date }) =>
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
    return makeIfNotEmpty(
      "aside",
      {},
      makeList("Notes", noteRows),
      makeList("Cluster", this.#makeClusterRows(cluster)),
      makeList("Related passages", (related_chunks ?? []).map((chunk) => this.#makeRow(chunk))),
    );
  }

  #makeClusterRows(cluster) {
    const clusterId = cluster?.cluster_id?.[0];
    if (!clusterId) return [];
    const name = cluster.cluster_name ?? clusterId;
    const button = makeButton(name, () => this.openCluster(clusterId), "row-title");
    return [make("li", { className: "row" }, button)];
  }

  #makeRow({ chunk_id, title, snippet }) {
    return make(
      "li",
      { className: "row" },
      makeButton(title, () => this.open(chunk_id), "row-title"),
      make("p", { className: "text small" }, snippet),
    );
  }

  #makeCluster({ cluster_id, name, description, size, members, next_cursor }) {
    const list = make("ul", { className: "rows" }, members.map((chunk) => this.#makeRow(chunk)));
    const pager = makePager("More passages", next_cursor, async (cursor) => {
      const args = { cluster_id, cursor, include_related: false };
      const page = await this.#host.callTool("get_cluster", args);
      appendAndFocus(list, page.members.map((chunk) => this.#makeRow(chunk)));
      return page.next_cursor;
    });
    const count = `${size.toLocaleString(this.#host.locale)} passages, the newest first`;
    return [make("h1", {}, name), makeMeta([count]), makeIfNotEmpty("p", {}, description), list, pager];
  }
}
