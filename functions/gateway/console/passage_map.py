"""The map, the JSON endpoints that its script calls, and the page of a cluster.

A passage is a stored chunk, and a point is the position of a passage on the map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from functions.gateway.console.search import Search
from shared.text.snippets import make_snippet

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit

PATH: Final = "/map"
CLUSTERS_PER_PAGE: Final = 50
PASSAGES_PER_PAGE: Final = 20
HITS_PER_CALL: Final = 50
MAX_HITS: Final = 200
"""The maximum number of passages that a search highlights."""


async def show(visit: Visit) -> Response:
    """Show the map with the list of clusters, largest first. The script fetches the points."""
    parameters = visit.request.query_params
    search = Search.parse(parameters, PATH)
    answer = await visit.call(
        "list_clusters", limit=CLUSTERS_PER_PAGE, cursor=parameters.get("cursor")
    )
    result = answer.result or {}
    clusters = result.get("clusters", [])
    names = {cluster["cluster_id"]: cluster["name"] for cluster in clusters}
    next_cursor = result.get("next_cursor")
    return visit.render(
        "map.html",
        error=answer.error,
        search=search,
        active=search.make_active_chips(names),
        result=result,
        next_path=search.make_path(next_cursor) if next_cursor else None,
    )


async def show_cluster(visit: Visit) -> Response:
    """Show a cluster with a page of its passages, newest first."""
    cluster_id = visit.request.path_params["cluster_id"]
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call(
        "get_cluster", cluster_id=cluster_id, member_limit=PASSAGES_PER_PAGE, cursor=cursor
    )
    if answer.error:
        return visit.render_error(answer.error)
    cluster = answer.result or {}
    next_cursor = cluster.get("next_cursor")
    path = f"/clusters/{quote(cluster_id, safe='')}"
    next_path = f"{path}?{urlencode({'cursor': next_cursor})}" if next_cursor else None
    return visit.render("cluster.html", cluster=cluster, next_path=next_path)


async def get_points(visit: Visit) -> Response:
    """Return the positions of passages and clusters, as the tool `get_map` returns them."""
    answer = await visit.call("get_map")
    return visit.make_response(answer.result or {}, answer.error)


async def get_hits(visit: Visit) -> Response:
    """Return the ids of the passages that a search finds: the best, at most `MAX_HITS`."""
    arguments = Search.parse(visit.request.query_params, PATH).to_arguments()
    chunk_ids: list[str] = []
    result: dict[str, Any] = {}
    cursor = None
    while len(chunk_ids) < MAX_HITS:
        answer = await visit.call("search_kb", **arguments, limit=HITS_PER_CALL, cursor=cursor)
        if answer.error:
            return visit.make_response({}, answer.error)
        result = answer.result or {}
        chunk_ids += [hit["chunk_id"] for hit in result["results"]]
        cursor = result.get("next_cursor")
        if cursor is None:
            break
    return visit.make_response(
        {
            "chunk_ids": chunk_ids[:MAX_HITS],
            "matches": result["matches"],
            "has_more": cursor is not None or len(chunk_ids) > MAX_HITS,
            "message": result.get("message"),
        }
    )


async def get_passage(visit: Visit) -> Response:
    """Return the title and the beginning of a passage."""
    chunk_id = visit.request.path_params["chunk_id"]
    answer = await visit.call("get_chunk", chunk_id=chunk_id, include_related=False)
    passage = answer.result or {}
    return visit.make_response(
        {"title": passage.get("title"), "text": make_snippet(passage.get("content", ""))},
        answer.error,
    )
