"""Calls the tools for tasks as the gateway does, at a given time. A task is a to-do of a user."""

from datetime import UTC, datetime
from typing import Any, Final

from shared.runtime.context import App
from shared.runtime.messages import CallAnswer
from shared.tasks.schemas import ENVELOPE
from tests.support.tool_calls import call, call_all_pages, call_error, call_result

NOON: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)
"""The default time of calls, on a Tuesday."""


async def call_at(
    app: App, name: str, user: str = "anna", /, *, now: datetime = NOON, **arguments: Any
) -> CallAnswer:
    """Call a tool at a given time, and return the answer."""
    app.clock = lambda: now
    return await call(app, name, user, **arguments)


async def call_for_result(
    app: App, name: str, user: str = "anna", /, *, now: datetime = NOON, **arguments: Any
) -> dict[str, Any]:
    """Call a tool that must succeed, and return its result."""
    app.clock = lambda: now
    return await call_result(app, name, user, **arguments)


async def call_for_error(
    app: App, name: str, user: str = "anna", /, *, now: datetime = NOON, **arguments: Any
) -> dict[str, Any]:
    """Call a tool that must fail; return its error in the format of the task tools' results."""
    app.clock = lambda: now
    return ENVELOPE.translate_error(await call_error(app, name, user, **arguments))


async def add_tasks(app: App, *titles: str, user: str = "anna", **arguments: Any) -> list[str]:
    """Add tasks one after the other, and return their ids."""
    results = [
        await call_for_result(app, "add_task", user, title=title, **arguments) for title in titles
    ]
    return [result["task"]["task_id"] for result in results]


async def list_all(
    app: App, user: str = "anna", *, now: datetime = NOON, **arguments: Any
) -> list[dict[str, Any]]:
    """Return the tasks of all pages. By default, a page has at most three tasks."""
    app.clock = lambda: now
    pages = await call_all_pages(app, "list_tasks", user, **{"limit": 3} | arguments)
    return [task for page in pages for task in page["tasks"]]


async def list_ids(app: App, user: str = "anna", **arguments: Any) -> list[str]:
    """Return the ids of the tasks of all pages."""
    return [task["task_id"] for task in await list_all(app, user, **arguments)]
