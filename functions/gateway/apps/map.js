// The app of list_clusters: the map of the passages, and the clusters as a list.

/** The maximum number of points. More would be some megabytes, which not every client passes on. */
const MAX_POINTS = 5_000;
const MAX_DESCRIPTION = 300; // of the text on the card of a point, in characters

const element = document.querySelector(".map");
const status = makeStatus("Loading the map …");
const list = make("ul", { className: "rows clusters" });
list.setAttribute("aria-label", "Clusters");
const overview = makeOverview("Map", status, element, list);

let map = null;
let isAnswered = false;
const host = new Host({
  onInput() {},
  onResult(result) {
    // Some clients also report the results of the calls that this page makes.
    if (isAnswered) return;
    isAnswered = true;
    showMap(result);
  },
  onCancelled() {
    if (isAnswered) return;
    status.textContent = "The list of clusters was cancelled.";
  },
  onThemeChange() {
    map?.refreshColours();
  },
});
const reader = new Reader(host, overview);

/** Show the clusters of the tool's result, and load the map above them. */
async function showMap(result) {
  try {
    const { clusters, next_cursor, message } = readResult(result);
    list.append(...clusters.map(makeClusterRow));
    list.after(makePager("More clusters", next_cursor, loadClusters));
    const data = await host.callTool("get_map", { limit: MAX_POINTS });
    if (data.chunk_ids.length) drawMap(data);
    else status.textContent = data.message ?? message ?? "The map is empty.";
  } catch (error) {
    status.replaceWith(makeError("Loading the map", error));
  }
}

async function loadClusters(cursor) {
  const page = await host.callTool("list_clusters", { cursor });
  appendAndFocus(list, page.clusters.map(makeClusterRow));
  return page.next_cursor;
}

function drawMap(data) {
  map = new PassageMap(element, data, {
    async describe(chunkId) {
      const args = { chunk_id: chunkId, include_related: false };
      const { title, content } = await host.callTool("get_chunk", args);
      return { title, text: content.slice(0, MAX_DESCRIPTION) };
    },
    open: (chunkId) => reader.open(chunkId),
    openCluster: (clusterId) => reader.openCluster(clusterId),
  });
  const [count, total] = [data.chunk_ids.length, data.total].map((n) => n.toLocaleString(host.locale));
  const share = count === total ? total : `${count} of ${total}`;
  status.textContent = `${share} passages. The closer in meaning, the closer on the map.`;
  for (const row of list.children) colorRow(row);
}

function makeClusterRow({ cluster_id, name, keywords, size }) {
  const row = make(
    "li",
    { className: "row" },
    make("span", { className: "swatch" }),
    makeButton(name, () => reader.openCluster(cluster_id), "row-title"),
    makeMeta([`${size.toLocaleString(host.locale)} passages`, (keywords ?? []).slice(0, 4).join(", ")]),
  );
  row.dataset.cluster = cluster_id;
  for (const type of ["pointerenter", "focusin"]) {
    row.addEventListener(type, () => map?.highlight(cluster_id));
  }
  for (const type of ["pointerleave", "focusout"]) {
    row.addEventListener(type, () => map?.highlight(null));
  }
  if (map) colorRow(row);
  return row;
}

/** Give a row the color that its cluster has on the map. */
function colorRow(row) {
  row.querySelector(".swatch").style.background = map.colourOf(row.dataset.cluster) ?? "none";
}

await host.connect("carrel-map");
