"""Calls of tools for tests, as the gateway makes them."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls import call_id
from functions.gateway.catalog import Declaration
from infra.deploy.discovery import tools
from shared.core.caller import Caller
from shared.runtime import invocation
from shared.runtime.messages import CallRequest

if TYPE_CHECKING:
    from shared.runtime.context import Backend
    from shared.runtime.messages import CallAnswer, WireError
    from shared.runtime.tool import Tool

ANNA = "anna.lovelace@example.com"
"""Who calls where nobody else is named."""
STRANGER = None
"""Somebody whom the gateway does not know."""


@cache
def tool_named(name: str) -> Tool[Any, Any]:
    """A tool of the catalogue."""
    return next(tool for tool in tools() if tool.name == name)


def request_of(
    tool: Tool[Any, Any], caller: Caller, arguments: dict[str, Any], *, seconds: float = 30
) -> CallRequest:
    """A call that ends within so many seconds; with the same idempotency key it is the same one."""
    return CallRequest(
        call_id=call_id(_declaration(tool), arguments, Visitor(caller, None)),
        arguments=arguments,
        caller=caller,
        deadline=time.time() + seconds,
    )


async def call(
    backend: Backend,
    name: str,
    user: str | Caller | None = ANNA,
    /,
    *,
    seconds: float = 30,
    **arguments: Any,
) -> CallAnswer:
    """Call a tool as a user, or as a stranger."""
    caller = user if isinstance(user, Caller) else Caller.of(user) if user else Caller()
    tool = tool_named(name)
    return await invocation.call(
        tool, request_of(tool, caller, arguments, seconds=seconds), backend
    )


async def call_result(
    backend: Backend, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> dict[str, Any]:
    """The result of a call that succeeds."""
    answer = await call(backend, name, user, **arguments)
    assert answer.error is None, answer.error
    assert answer.result is not None
    return answer.result


async def call_error(
    backend: Backend, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> WireError:
    """The error of a call that fails and writes nothing."""
    answer = await call(backend, name, user, **arguments)
    assert answer.error is not None, answer.result
    assert answer.receipt.documents_written == 0
    return answer.error


async def call_text(
    backend: Backend, name: str, user: str | Caller | None = ANNA, /, **arguments: Any
) -> str:
    """What a call that succeeds says to who reads."""
    answer = await call(backend, name, user, **arguments)
    assert answer.error is None, answer.error
    assert answer.text is not None
    return answer.text


def _declaration(tool: Tool[Any, Any]) -> Declaration:
    """What the gateway knows of a tool. Making its schemas takes 5 ms, so it is done once."""
    if id(tool) not in _declared:
        _declared[id(tool)] = tool, Declaration.model_validate(tool.declaration())
    return _declared[id(tool)][1]


_declared: dict[int, tuple[Tool[Any, Any], Declaration]] = {}
