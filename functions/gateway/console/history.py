"""The page of what assistants, and the visitor, changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from functions.gateway.console.changes import UNDOING_TOOLS, apply_change, make_undo_fields

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit
    from shared.runtime.messages import WireError

CALLS_PER_PAGE: Final = 30


async def undo(visit: Visit, fields: dict[str, str]) -> Response:
    """Undo a change, and show the list again."""
    return await show(visit, await apply_change(visit, "", fields))


async def show(visit: Visit, error: WireError | None = None) -> Response:
    """List the changes of the visitor's last calls, and why an undo failed."""
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call("get_changes", limit=CALLS_PER_PAGE, cursor=cursor)
    if answer.error:
        return visit.render_error(answer.error)
    result = answer.result or {}
    changes = result["changes"]
    next_cursor = result.get("next_cursor")
    for change in changes:
        call = change.pop("undo", None)
        if call and call["tool"] in UNDOING_TOOLS and visit.offers(call["tool"]):
            change["undo"] = make_undo_fields(call)
            change["is_readable"] = change["action"] != "forgot" and call["tool"] != "save_link"
    return visit.render(
        "changes.html",
        error=error,
        changes=changes,
        message=result.get("message"),
        next_path=f"/changes?{urlencode({'cursor': next_cursor})}" if next_cursor else None,
    )
