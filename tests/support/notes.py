"""Calls `save_note` as the gateway does, and searches for notes."""

from typing import Any, Final

from shared.core.caller import Caller, Role
from shared.runtime.context import App
from tests.support.tool_calls import call_result

EDITOR: Final = Caller.of("anna", role=Role.EDITOR)
OTHER_EDITOR: Final = Caller.of("ben", role=Role.EDITOR)
OWNER: Final = Caller.of("olga", role=Role.OWNER)
NOTE_TEXT: Final = "Rye bread keeps for a week if it is wrapped in linen."


async def save_note(
    app: App, text: str = NOTE_TEXT, caller: Caller = EDITOR, **more: Any
) -> dict[str, Any]:
    """Save a note as an editor, and return the result of the call."""
    return await call_result(app, "save_note", caller, text=text, **more)


async def change_note(app: App, note: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Change a note as `EDITOR`. `note` is the result of the call that saved it."""
    base = {"source_id": note["source_id"], "revision": note["revision"]}
    return await call_result(app, "save_note", EDITOR, **base, **changes)


async def search_source_ids(app: App, query: str, mode: str = "hybrid") -> list[str]:
    """Return the source id of each passage that `search_kb` finds, best first."""
    answer = await call_result(app, "search_kb", query=query, mode=mode)
    return [hit["source_id"] for hit in answer["results"]]
