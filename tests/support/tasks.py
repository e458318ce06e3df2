"""To-do lists for tests: calls as the gateway makes them, at whatever time it is to be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from shared.tasks.schemas import ENVELOPE
from tests.support.tool_calls import call, call_error, call_result

if TYPE_CHECKING:
    from shared.runtime.context import App
    from shared.runtime.messages import CallAnswer

NOON: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)
"""A Tuesday."""


async def ask(
    app: App, name: str, user: str = "anna", /, *, now: datetime = NOON, **arguments: Any
) -> CallAnswer:
    """Call a tool at a moment."""
    app.clock = lambda: now
    return await call(app, name, user, **arguments)


async def did(
    app: App, name: str, user: str = "anna", /, *, now: datetime = NOON, **arguments: Any
) -> dict[str, Any]:
    """The data of a call that succeeds."""
    app.clock = lambda: now
    return await call_result(app, name, user, **arguments)


async def refused(
    app: App, name: str, user: str = "anna", /, *, now: datetime = NOON, **arguments: Any
) -> dict[str, Any]:
    """The error of a call that fails, as the family tells it."""
    app.clock = lambda: now
    return ENVELOPE.error(await call_error(app, name, user, **arguments))


async def add(app: App, *titles: str, user: str = "anna", **more: Any) -> list[str]:
    """Add tasks one by one; return their ids."""
    added = [await did(app, "add_task", user, title=title, **more) for title in titles]
    return [each["task"]["task_id"] for each in added]


async def listed(app: App, user: str = "anna", **arguments: Any) -> list[dict[str, Any]]:
    """All pages of a list, each of at most three tasks unless a limit is given."""
    tasks: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    while not tasks or "next_cursor" in page:
        more = {"cursor": page["next_cursor"]} if page else {}
        page = await did(app, "list_tasks", user, **({"limit": 3} | arguments | more))
        tasks += page["tasks"]
        if "next_cursor" not in page:
            break
    return tasks


async def ids(app: App, user: str = "anna", **arguments: Any) -> list[str]:
    """The ids of all tasks in a list."""
    return [each["task_id"] for each in await listed(app, user, **arguments)]


async def taken_back(app: App, outcome: dict[str, Any], user: str = "anna") -> Any:
    """Make the call that takes back what another did."""
    return await did(app, outcome["undo"]["tool"], user, **outcome["undo"]["arguments"])
