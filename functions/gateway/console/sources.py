"""The list of sources, the page on which one is read and changed, and what was forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from functions.gateway.console.changes import apply_change, merge_draft
from functions.gateway.console.rendering import make_source_path, redirect
from functions.gateway.console.search import Search, make_common_chips
from shared.core.caller import Role
from shared.core.errors import NotFound

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit
    from shared.runtime.messages import CallAnswer, WireError

SOURCES_PER_PAGE: Final = 30
PASSAGES_PER_PAGE: Final = 20
FORGOTTEN_PER_PAGE: Final = 30
_FILTERS: Final = ("tag", "author", "category", "language")
_ORDERS: Final = {"recent": "Last changed", "title": "By title"}
"""The sort orders of `list_sources`, and their labels."""


async def show_list(visit: Visit) -> Response:
    """List the sources that pass the filters of the query, last changed first or by title.

    With a question, list those with a passage that answers it, best first.
    """
    parameters = visit.request.query_params
    search = Search.parse(parameters, "/sources", order=parameters.get("order", "recent"))
    page = {"limit": SOURCES_PER_PAGE, "cursor": parameters.get("cursor")}
    filters = {name: value for name, value in search.filters if name in _FILTERS}
    if not search.query:  # the list takes one tag, and fewer filters than a search
        search = replace(search, filters=tuple(filters.items()))
    listing = (
        visit.call("search_kb", **search.to_arguments(), by_source=True, **page)
        if search.query
        else visit.call("list_sources", **filters, order=search.order, **page)
    )
    answer, stats = await asyncio.gather(listing, visit.call("get_stats"))
    result = answer.result or {}
    next_cursor = result.get("next_cursor")
    return visit.render(
        "sources.html",
        error=answer.error,
        result=result,
        search=search,
        active=search.make_active_chips(result.get("clusters") or {}),
        is_first=page["cursor"] is None,
        orders=[(label, search.with_order(name)) for name, label in _ORDERS.items()],
        chip_groups=make_common_chips(search, stats.result) if stats.result else [],
        next_path=search.make_path(next_cursor) if next_cursor else None,
    )


async def change(visit: Visit, fields: dict[str, str]) -> Response:
    """Make the change that a form asks for, and show the source again with what happened.

    If the change fails, the form still shows what was typed.
    """
    error = await apply_change(visit, visit.request.path_params["source_id"], fields)
    return await show(visit, error, fields if error else None)


async def show(
    visit: Visit, error: WireError | None = None, draft: dict[str, str] | None = None
) -> Response:
    """Show a source with some of its passages, opened at that in the query string, if any.

    Args:
        error: Why the change of this visit failed, if it did.
        draft: The fields of the form that failed.
    """
    source_id = visit.request.path_params["source_id"]
    parameters = visit.request.query_params
    chunk_id = parameters.get("passage")
    answer, passage_answer, file = await asyncio.gather(
        visit.call(
            "get_source",
            source_id=source_id,
            limit=PASSAGES_PER_PAGE,
            cursor=parameters.get("cursor"),
        ),
        _get_passage(visit, chunk_id),
        _find_file(visit, source_id),
    )
    if answer.error and _was_forgotten(answer.error, visit):
        return visit.render("gone.html")
    if answer.error:
        return visit.render_error(answer.error)
    source = answer.result or {}
    next_cursor = source.get("next_cursor")
    next_query = urlencode({"cursor": next_cursor}) if next_cursor else None
    passage = (passage_answer.result if passage_answer else None) or {}
    passage_error = passage_answer.error if passage_answer else None
    has_changed_nothing = visit.notice is None and error is None
    if passage and passage["source_id"] != source["source_id"] and has_changed_nothing:
        return redirect(make_source_path(passage["source_id"], chunk_id))
    return visit.render(
        "source.html",
        error=error,
        draft=draft or {},
        edit=merge_draft(source, draft or {}),
        is_editing="edit" in parameters,
        source=source,
        passage=passage,
        file=file,
        found_terms=parameters.getlist("found"),
        passage_error=None if _was_forgotten(passage_error, visit) else passage_error,
        is_elsewhere=bool(passage)
        and chunk_id not in [chunk["chunk_id"] for chunk in source["chunks"]],
        next_path=f"{make_source_path(source_id)}?{next_query}" if next_query else None,
    )


def _was_forgotten(error: WireError | None, visit: Visit) -> bool:
    """Return whether an error says that something is missing because this visit forgot it."""
    return error is not None and error.code == NotFound.code and visit.notice is not None


async def show_passage(visit: Visit) -> Response:
    """Redirect to the page of a passage's source, at the passage, or to that of a source."""
    chunk_id = visit.request.path_params["chunk_id"]
    answer = await visit.call("get_chunk", chunk_id=chunk_id, include_related=False)
    if answer.error and answer.error.code == NotFound.code:
        return await _redirect_to_source(visit, chunk_id)
    if answer.error:
        return visit.render_error(answer.error)
    source_id = (answer.result or {})["source_id"]
    return redirect(make_source_path(source_id, chunk_id))


async def _redirect_to_source(visit: Visit, source_id: str) -> Response:
    """Redirect to the page of a source, which the id of a passage that is gone names too."""
    answer = await visit.call("get_source", source_id=source_id, limit=1)
    if answer.error:
        return visit.render_error(answer.error)
    return redirect(make_source_path((answer.result or {})["source_id"]))


async def _get_passage(visit: Visit, chunk_id: str | None) -> CallAnswer | None:
    """Read the passage with this id, if any, and what is related to it."""
    return await visit.call("get_chunk", chunk_id=chunk_id) if chunk_id else None


async def _find_file(visit: Visit, source_id: str) -> str | None:
    """Return the path of a source's file, which only an owner on the machine that has it sees."""
    if visit.find_file is None or not visit.caller.role.includes(Role.OWNER):
        return None
    return await visit.find_file(source_id)


async def change_forgotten(visit: Visit, fields: dict[str, str]) -> Response:
    """Restore a source or a passage, or undo a restoration, and show the list again."""
    return await show_forgotten(
        visit, await apply_change(visit, fields.get("source_id", ""), fields)
    )


async def show_forgotten(visit: Visit, error: WireError | None = None) -> Response:
    """List what can be restored, most recently forgotten first, and why a change failed."""
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call("list_forgotten", limit=FORGOTTEN_PER_PAGE, cursor=cursor)
    if answer.error:
        return visit.render_error(answer.error)
    result = answer.result or {}
    next_cursor = result.get("next_cursor")
    return visit.render(
        "forgotten.html",
        error=error,
        items=result["forgotten"],
        is_first=cursor is None,
        next_path=f"/forgotten?{urlencode({'cursor': next_cursor})}" if next_cursor else None,
    )
