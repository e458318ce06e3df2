"""What came of a call as MCP has it: a tool's result, a resource's text, or a JSON-RPC error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.mcp.resource_links import link_blocks
from shared.core.errors import PlatformFault

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer
    from shared.runtime.tool import Links

RECEIPT: Final = "carrel/receipt"
"""The key of a call's receipt in `_meta`."""
TOOL_FAILURE: Final = -32010
"""JSON-RPC's code for what a caller can act on, of those left to servers; `data` says the rest."""
REPLAYED: Final = (
    "This call was done before, with the same idempotency_key: nothing was done now. This is the"
    " answer of that time, and what it tells of may have changed since."
)
"""What is said beside such an answer: a model sees no `_meta`."""


def to_result(
    answer: CallAnswer, tool: Declaration, *, links: Links | None = None
) -> types.CallToolResult:
    """A tool's answer as MCP has it, with links to the resources that it names.

    An error carries no structured content, unless the tool's own schema has room for it: some
    clients check that against the schema even then, and would hide the message.
    """
    structured = _structured(answer, tool)
    error = answer.error and {"error": answer.error.model_dump(exclude_none=True)}
    words = answer.text or compact(structured or error or {})
    texts = [words, *([REPLAYED] if answer.receipt.replayed else [])]
    return types.CallToolResult(
        content=[
            *(types.TextContent(type="text", text=text) for text in texts),
            *(link_blocks(answer.result or {}, links) if links else []),
        ],
        structured_content=structured,
        is_error=answer.error is not None,
        _meta=meta(answer),
    )


def _structured(answer: CallAnswer, tool: Declaration) -> dict[str, Any] | None:
    if tool.envelope is None:
        return answer.result
    if answer.error:
        return tool.envelope.failure(answer.error)
    return tool.envelope.success(answer.result or {})


def result_of(answer: CallAnswer) -> dict[str, Any]:
    """The result of a call, where the protocol has no room for a tool's error.

    Raises:
        MCPError: The call failed; the error says so in the tool's words.
    """
    if answer.error:
        is_fault = answer.error.code == PlatformFault.code
        code = types.INTERNAL_ERROR if is_fault else TOOL_FAILURE
        data = answer.error.model_dump(exclude_none=True)
        raise MCPError(code, answer.error.message, data=data)
    return answer.result or {}


def meta(answer: CallAnswer) -> dict[str, Any]:
    """What a call cost, where MCP has room for it."""
    return {RECEIPT: answer.receipt.cost()}


def compact(value: dict[str, Any]) -> str:
    """JSON without a wasted character."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
