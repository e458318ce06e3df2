// The app of search_kb: shows the passages that were found, and opens them in a reader.
//
// `pages.py` joins this script with host.js, elements.js and reader.js, whose names it uses.

const SEARCH_REASONS = {
  "lexical semantic": "Found by meaning and words",
  lexical: "Found by words",
  semantic: "Found by meaning",
};

const statusLine = makeStatus("Searching…");
const list = make("ol", { className: "hits" });
const overview = makeOverview("Passages", statusLine, list);

let searchArguments = null; // those of the call that this page belongs to; null if not received
let isAnswered = false;
const host = new Host({
  onInput(input) {
    searchArguments = input;
    if (input.query && !isAnswered) statusLine.textContent = `Searching for “${input.query}”…`;
  },
  onResult(result) {
    // Some clients also report the results of the calls that this page makes.
    if (isAnswered) return;
    isAnswered = true;
    try {
      showHits(readResult(result));
    } catch (error) {
      statusLine.replaceWith(makeError("The search", error));
    }
  },
  onCancelled(reason) {
    if (isAnswered) return;
    const why = reason ? `: ${reason}` : ".";
    statusLine.textContent = `The search was cancelled${why}`;
  },
});
const reader = new Reader(host, overview);

function showHits({ query, matches, results, clusters, next_cursor, message }) {
  statusLine.textContent = message || describeHits(query, matches, results);
  list.append(...results.map((hit) => makeHit(hit, clusters)));
  const pager = makePager("More passages", next_cursor, async (cursor) => {
    // A cursor continues only the search that it came from, so the arguments must be repeated.
    const original = searchArguments ?? (query ? { query } : {});
    const page = await host.callTool("search_kb", { ...original, cursor });
    appendAndFocus(list, page.results.map((hit) => makeHit(hit, page.clusters)));
    return page.next_cursor;
  });
  overview.append(pager);
}

/** Describe the results in one sentence, if the answer has no message. */
function describeHits(query, matches, results) {
  if (!results.length) return "No passages were found.";
  if (!matches) return "No passage is likely to answer this. These are the nearest ones.";
  return query ? `Passages for “${query}”` : "Passages, newest first";
}

function makeHit(hit, clusters) {
  const { chunk_id, title, author, snippet, matched_terms, found_by, cluster, tags, also_in } = hit;
  const open = makeButton(highlight(title, matched_terms), () => reader.open(chunk_id), "title");
  const reason = SEARCH_REASONS[[...(found_by ?? [])].sort().join(" ")]; // keys are sorted
  return make(
    "li",
    { className: "hit" },
    makeMeta([author, describePlace(hit), formatDay(hit.date, host.locale)]),
    make("h2", {}, open),
    make("p", { className: "text" }, highlight(snippet, matched_terms)),
    makeIfNotEmpty(
      "div",
      { className: "why" },
      reason ? make("span", { className: "soft" }, reason) : null,
      clusters?.[cluster] ? make("span", {}, clusters[cluster]) : null,
      also_in ? make("span", { className: "soft" }, describeCopies(also_in)) : null,
      makeTags(tags),
    ),
  );
}

function describeCopies(copies) {
  return `Also in ${copies.map((copy) => copy.title).join(", ")}`;
}

// The arrow keys move the focus between the titles.
list.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const titles = [...list.querySelectorAll(".title")];
  const next = titles[titles.indexOf(document.activeElement) + step];
  if (step && next) {
    event.preventDefault();
    next.focus();
  }
});

await host.connect("carrel-hits"); // Only now does the client send the call's input and result.
