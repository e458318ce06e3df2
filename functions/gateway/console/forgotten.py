"""The list of what was forgotten, for visitors who may restore it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from functions.gateway.console.changes import apply_change

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit
    from shared.runtime.messages import WireError

ITEMS_PER_PAGE: Final = 30


async def show_list(visit: Visit) -> Response:
    """List what can be restored, most recently forgotten first."""
    return await _show(visit)


async def change(visit: Visit, fields: dict[str, str]) -> Response:
    """Restore a source or a passage, or undo a restoration, and show the list again."""
    return await _show(visit, await apply_change(visit, fields.get("source_id", ""), fields))


async def _show(visit: Visit, error: WireError | None = None) -> Response:
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call("list_forgotten", limit=ITEMS_PER_PAGE, cursor=cursor)
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
