"""One call of a tool, for whichever MCP method needs it, and what its answer becomes."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from shared.call import CallRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from functions.gateway.catalog import Declaration
    from functions.gateway.dispatch import Dispatcher
    from shared.call import CallAnswer
    from shared.caller import Caller

    Context = ServerRequestContext[Any, Any]

RECEIPT: Final = "carrel/receipt"
"""The key of a call's receipt in `_meta`."""


async def call(
    dispatcher: Dispatcher, tool: Declaration, arguments: dict[str, Any], caller: Caller
) -> CallAnswer:
    """Call a tool that the caller may use."""
    request = CallRequest(
        call_id=uuid.uuid4().hex,
        arguments=arguments,
        caller=caller,
        deadline=time.time() + tool.timeout,
    )
    return await dispatcher.call(tool, request)


def result_of(answer: CallAnswer) -> dict[str, Any]:
    """The result of a call, where the protocol has no room for a tool's error.

    Raises:
        MCPError: The call failed; the error says so in the tool's words.
    """
    if answer.error:
        told = answer.error.model_dump(exclude_none=True)
        raise MCPError(types.INTERNAL_ERROR, answer.error.message, data=told)
    return answer.result or {}


def meta(answer: CallAnswer) -> dict[str, Any]:
    """What a call cost, where MCP has room for it."""
    return {RECEIPT: answer.receipt.model_dump()}


def compact(value: dict[str, Any]) -> str:
    """JSON without a wasted character."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
