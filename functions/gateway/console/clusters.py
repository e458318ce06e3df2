"""The page of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit

PASSAGES_PER_PAGE: Final = 20


async def show(visit: Visit) -> Response:
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
