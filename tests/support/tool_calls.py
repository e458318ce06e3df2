"""Calls tools in the test's own process, with the requests that the gateway would send."""

import time
from functools import cache
from typing import Any

from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls.pipeline import make_call_id
from functions.gateway.catalog import Declaration
from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.runtime import invocation
from shared.runtime.context import App
from shared.runtime.messages import CallAnswer, CallRequest, WireError
from shared.runtime.tool import Tool

ANNA = "anna.lovelace@example.com"
"""The default caller."""
ANONYMOUS = None
"""The user of an anonymous call."""
MAX_PAGES = 200
"""The number of pages after which a tool is considered to repeat itself."""


@cache
def find_tool(name: str) -> Tool[Any, Any]:
    """Return the tool with this name."""
    return next(tool for tool in tools() if tool.name == name)


def make_call_request(
    tool: Tool[Any, Any], caller: Caller, arguments: dict[str, Any], *, seconds: float = 30
) -> CallRequest:
    """Make a request with a deadline in `seconds`.

    Requests of one caller with the same idempotency key have the same call id.
    """
    return CallRequest(
        call_id=make_call_id(_get_declaration(tool), arguments, Visitor(caller, None)),
        arguments=arguments,
        caller=caller,
        deadline=time.time() + seconds,
    )


async def call(
    app: App,
    name: str,
    user: str | Caller | None = ANNA,
    /,
    *,
    seconds: float = 30,
    **arguments: Any,
) -> CallAnswer:
    """Call a tool, and return its answer: a result or an error.

    Args:
        app: The app in which the tool runs.
        name: The name of the tool.
        user: The id of the user or the caller; None for an anonymous call.
        seconds: The time until the call's deadline.
        arguments: The arguments of the tool.
    """
    caller = user if isinstance(user, Caller) else Caller.of(user) if user else Caller()
    tool = find_tool(name)
    return await invocation.invoke(
        tool, make_call_request(tool, caller, arguments, seconds=seconds), app
    )


async def call_result(
    app: App, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> dict[str, Any]:
    """Assert that a call succeeds; return its result."""
    answer = await call(app, name, user, **arguments)
    assert answer.error is None, answer.error
    assert answer.result is not None
    return answer.result


async def call_error(
    app: App, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> WireError:
    """Assert that a call fails and writes nothing; return its error."""
    answer = await call(app, name, user, **arguments)
    assert answer.error is not None, answer.result
    assert answer.receipt.documents_written == 0
    return answer.error


async def call_all_pages(
    app: App, name: str, user: str | Caller | None = ANONYMOUS, /, **arguments: Any
) -> list[dict[str, Any]]:
    """Call a tool until its result has no cursor; return all results.

    Raises:
        RuntimeError: There are more than `MAX_PAGES`, so a cursor probably leads to its own page.
    """
    pages: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while len(pages) < MAX_PAGES:
        pages.append(await call_result(app, name, user, **arguments, **cursor))
        next_cursor = pages[-1].get("metadata", pages[-1]).get("next_cursor")
        if next_cursor is None:
            return pages
        cursor = {"cursor": next_cursor}
    raise RuntimeError(f"{name} returned {MAX_PAGES} pages and another cursor.")


async def call_text(
    app: App, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> str:
    """Assert that a call succeeds; return its text for people."""
    answer = await call(app, name, user, **arguments)
    assert answer.error is None, answer.error
    assert answer.text is not None
    return answer.text


async def call_message(
    app: App, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> str:
    """Assert that a call succeeds; return its message, which may be missing."""
    return str((await call_result(app, name, user, **arguments)).get("message", ""))


_declarations: dict[int, tuple[Tool[Any, Any], Declaration]] = {}
"""The declarations by the `id` of their tool. The tool is stored too, so its id is not reused."""


def _get_declaration(tool: Tool[Any, Any]) -> Declaration:
    """Return the declaration of a tool, which is cached because its schemas take 5 ms."""
    if id(tool) not in _declarations:
        _declarations[id(tool)] = tool, Declaration.model_validate(tool.declaration())
    return _declarations[id(tool)][1]
