// The script of the map's page: it fetches points and hits, and opens passages and clusters.
"use strict";

{
  const element = document.querySelector(".map");
  const form = document.querySelector("form.search");
  const status = document.getElementById("map-status");
  const listLink = document.getElementById("map-list");
  const formatCount = (count, noun) => `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;

  async function fetchJson(path) {
    let response;
    try {
      response = await fetch(path);
    } catch {
      throw new Error("Carrel cannot be reached. Check the connection, then reload the page.");
    }
    const answer = await response.json().catch(() => ({}));
    if (response.ok) return answer;
    throw new Error(answer.message ?? "Carrel did not answer. Reload the page to try again.");
  }

  function openPage(path, inNewTab) {
    if (inNewTab) {
      window.open(path, "_blank", "noopener");
    } else {
      history.replaceState(element.map.view.position, ""); // restored when the visitor comes back
      location.assign(path);
    }
  }

  const host = {
    describe: (chunkId) => fetchJson(`/map/passages/${encodeURIComponent(chunkId)}`),
    open: (chunkId, inNewTab) => openPage(`/passages/${encodeURIComponent(chunkId)}`, inNewTab),
    openCluster: (clusterId, inNewTab) =>
      openPage(`/clusters/${encodeURIComponent(clusterId)}`, inNewTab),
  };

  function describeMap({ chunk_ids: chunkIds, total, made_at: madeAt }) {
    const count = chunkIds.length < total
      ? `${chunkIds.length.toLocaleString()} of ${formatCount(total, "passage")}`
      : formatCount(total, "passage");
    const day = madeAt && new Date(madeAt).toLocaleDateString(undefined, { dateStyle: "medium" });
    const placed = day ? ` Placed on ${day}.` : "";
    return `${count}. The closer in meaning, the closer on the map.${placed}`;
  }

  function describeHits(hits, litCount, isRanked) {
    const { chunk_ids: chunkIds, matches, has_more: hasMore, message } = hits;
    if (!chunkIds.length) return message ?? "No passage passes this. Try other words.";
    const missing = chunkIds.length - litCount;
    const verb = litCount === 1 ? "stands" : "stand";
    const best = isRanked && litCount > 1 ? ", the best as the largest points" : "";
    return [
      matches ? "" : "Nothing here is likely to answer this. The nearest:",
      `${formatCount(litCount, "passage")} ${verb} out${best}.${hasMore ? " There are more." : ""}`,
      missing ? `${missing.toLocaleString()} more ${missing === 1 ? "is" : "are"} not on the map yet.` : "",
    ].join(" ");
  }

  let latestSearch = 0;

  /** Light the hits of a search, and say how many there are. A later search replaces this one. */
  async function lightHits(map, data, parameters) {
    const search = ++latestSearch;
    const filters = [...parameters].filter(([, value]) => value.trim());
    const query = new URLSearchParams(filters);
    listLink.href = `/?${query}`;
    listLink.hidden = !filters.length;
    map.light(null);
    if (!filters.length) {
      status.textContent = describeMap(data);
      return;
    }
    status.textContent = "Searching…";
    try {
      const hits = filters.length === 1 && filters[0][0] === "cluster"
        ? { chunk_ids: map.passagesOf(filters[0][1]), matches: true, has_more: false }
        : await fetchJson(`/map/hits?${query}`);
      if (search !== latestSearch) return;
      map.light(hits.chunk_ids, { ranked: query.has("q") });
      status.textContent = describeHits(hits, map.litCount, query.has("q"));
    } catch (error) {
      if (search === latestSearch) status.textContent = error.message;
    }
  }

  function connectRows(map) {
    for (const row of document.querySelectorAll("[data-cluster]")) {
      const clusterId = row.dataset.cluster;
      row.querySelector(".swatch").style.background = map.colourOf(clusterId) ?? "none";
      for (const type of ["pointerenter", "focusin"]) {
        row.addEventListener(type, () => map.highlight(clusterId));
      }
      for (const type of ["pointerleave", "focusout"]) {
        row.addEventListener(type, () => map.highlight(null));
      }
    }
  }

  function connectForm(map, data) {
    const search = () => {
      const parameters = new URLSearchParams(new FormData(form));
      history.replaceState(map.view.position, "", `/map?${parameters}`);
      lightHits(map, data, parameters);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      search();
    });
    form.elements.q.addEventListener("input", () => form.elements.q.value || search());
    lightHits(map, data, new URLSearchParams(new FormData(form)));
  }

  async function start() {
    status.textContent = "Loading the map…";
    let data;
    try {
      data = await fetchJson("/map/points");
    } catch (error) {
      status.textContent = error.message;
      return;
    }
    if (!data.chunk_ids.length) {
      status.textContent = data.message ?? "The map is empty.";
      return;
    }
    const map = new PassageMap(element, data, host);
    if (history.state?.zoom) map.view.position = history.state;
    connectRows(map);
    connectForm(map, data);
  }

  start();
}
