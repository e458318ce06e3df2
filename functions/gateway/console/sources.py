"""The list of sources, and the reader of one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from functions.gateway.console.rendering import redirect, source_path

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit
    from shared.runtime.messages import CallAnswer

SOURCES_PER_PAGE: Final = 30
PASSAGES_PER_PAGE: Final = 20
_FILTERS: Final = ("tag", "author", "category")
_ORDERS: Final = {"recent": "Last changed", "title": "By title"}


async def show_list(visit: Visit) -> Response:
    """List the sources, last changed first or by title."""
    parameters = visit.request.query_params
    order = parameters.get("order", "recent")
    filters = {name: parameters[name] for name in _FILTERS if name in parameters}
    answer = await visit.call(
        "list_sources",
        **filters,
        order=order,
        limit=SOURCES_PER_PAGE,
        cursor=parameters.get("cursor"),
    )
    if answer.error:
        return visit.error_page(answer.error)
    result = answer.result or {}

    def make_path(**changes: str) -> str:
        return f"/sources?{urlencode({**filters, 'order': order, **changes})}"

    next_cursor = result.get("next_cursor")
    return visit.page(
        "sources.html",
        result=result,
        filters=filters,
        order=order,
        orders=[(label, name, make_path(order=name)) for name, label in _ORDERS.items()],
        next_path=make_path(cursor=next_cursor) if next_cursor else None,
    )


async def show(visit: Visit) -> Response:
    """Show a source with a page of its passages, opened at one of them if the address names it."""
    source_id = visit.request.path_params["source_id"]
    parameters = visit.request.query_params
    chunk_id = parameters.get("passage")
    answer, opened = await asyncio.gather(
        visit.call(
            "get_source",
            source_id=source_id,
            detail="full",
            limit=PASSAGES_PER_PAGE,
            cursor=parameters.get("cursor"),
        ),
        _open_passage(visit, chunk_id),
    )
    if answer.error:
        return visit.error_page(answer.error)
    source = answer.result or {}
    next_cursor = source.get("next_cursor")
    passage = (opened.result if opened else None) or {}
    return visit.page(
        "source.html",
        source=source,
        passage=passage,
        passage_error=opened.error if opened else None,
        is_elsewhere=bool(passage)
        and chunk_id not in [chunk["chunk_id"] for chunk in source["chunks"]],
        next_path=f"{source_path(source_id)}?{urlencode({'cursor': next_cursor})}"
        if next_cursor
        else None,
    )


async def show_passage(visit: Visit) -> Response:
    """Redirect to the source of a passage, opened there."""
    chunk_id = visit.request.path_params["chunk_id"]
    answer = await visit.call("get_chunk", chunk_id=chunk_id, include_related=False)
    if answer.error:
        return visit.error_page(answer.error)
    source_id = (answer.result or {})["source_id"]
    return redirect(source_path(source_id, chunk_id))


async def _open_passage(visit: Visit, chunk_id: str | None) -> CallAnswer | None:
    """Read a passage with what is related to it."""
    return await visit.call("get_chunk", chunk_id=chunk_id) if chunk_id else None
