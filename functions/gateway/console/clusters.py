"""The table of clusters, and the passages of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit

CLUSTERS_PER_PAGE: Final = 50
PASSAGES_PER_PAGE: Final = 20


async def show_list(visit: Visit) -> Response:
    """Show the clusters, the largest first."""
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call("list_clusters", limit=CLUSTERS_PER_PAGE, cursor=cursor)
    if answer.error:
        return visit.error_page(answer.error)
    result = answer.result or {}
    next_cursor = result.get("next_cursor")
    next_path = f"/clusters?{urlencode({'cursor': next_cursor})}" if next_cursor else None
    largest = max((cluster["size"] for cluster in result["clusters"]), default=1)
    return visit.page("clusters.html", result=result, largest=largest, next_path=next_path)


async def show(visit: Visit) -> Response:
    """Show a cluster with a page of its passages, newest first."""
    cluster_id = visit.request.path_params["cluster_id"]
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call(
        "get_cluster", cluster_id=cluster_id, member_limit=PASSAGES_PER_PAGE, cursor=cursor
    )
    if answer.error:
        return visit.error_page(answer.error)
    cluster = answer.result or {}
    next_cursor = cluster.get("next_cursor")
    path = f"/clusters/{quote(cluster_id, safe='')}"
    next_path = f"{path}?{urlencode({'cursor': next_cursor})}" if next_cursor else None
    return visit.page("cluster.html", cluster=cluster, next_path=next_path)
