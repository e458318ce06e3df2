// The app of search_kb: the passages that were found, and a reader for them.

const FOUND_BY = {
  "lexical semantic": "Found by meaning and words",
  lexical: "Found by words",
  semantic: "Found by meaning",
};

const status = makeStatus("Searching …");
const list = make("ol", { className: "hits" });
const overview = makeOverview("Passages", status, list);

let args = {};
let isAnswered = false;
const host = new Host({
  onInput(input) {
    args = input;
    if (args.query) status.textContent = `Searching for “${args.query}” …`;
  },
  onResult(result) {
    // Some clients also report the results of the calls that this page makes.
    if (isAnswered) return;
    isAnswered = true;
    try {
      showHits(readResult(result));
    } catch (error) {
      status.replaceWith(makeError("The search", error));
    }
  },
  onCancelled(reason) {
    status.textContent = reason ? `The search was cancelled: ${reason}` : "The search was cancelled.";
  },
});
const reader = new Reader(host, overview);

function showHits({ query, matches, results, next_cursor, message }) {
  const weak = "Nothing here is likely to answer this. These are the nearest passages.";
  const title = query ? `Passages for “${query}”` : "Passages, newest first";
  status.textContent = message || (matches ? title : weak);
  list.append(...results.map(makeHit));
  const pager = makePager("More passages", next_cursor, async (cursor) => {
    const page = await host.callTool("search_kb", { ...args, cursor });
    appendAndFocus(list, page.results.map(makeHit));
    return page.next_cursor;
  });
  overview.append(pager);
}

function makeHit(hit) {
  const { chunk_id, title, author, snippet, matched_terms, found_by, cluster, tags } = hit;
  const open = makeButton(highlight(title, matched_terms), () => reader.open(chunk_id), "title");
  const reason = FOUND_BY[[...(found_by ?? [])].sort().join(" ")];
  return make(
    "li",
    { className: "hit" },
    makeMeta([author, describePlace(hit), formatDay(hit.date, host.locale)]),
    make("h2", {}, open),
    make("p", { className: "text" }, highlight(snippet, matched_terms)),
    makeFilled(
      "div",
      { className: "why" },
      reason ? make("span", { className: "soft" }, reason) : null,
      cluster?.name ? make("span", {}, cluster.name) : null,
      makeTags(tags),
    ),
  );
}

list.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const titles = [...list.querySelectorAll(".title")];
  const next = titles[titles.indexOf(document.activeElement) + step];
  if (step && next) {
    event.preventDefault();
    next.focus();
  }
});

await host.connect("carrel-hits");
