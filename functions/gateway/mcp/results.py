"""Conversion of a call's answer to MCP: a tool result, a resource's text or a JSON-RPC error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
import pydantic_core
from mcp.shared.exceptions import MCPError

from functions.gateway.mcp.resource_links import build_link_blocks
from shared.core.errors import PlatformFault

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer
    from shared.runtime.tool import Links

RECEIPT: Final = "carrel/receipt"
"""The key in a result's `_meta` under which clients find the call's receipt: what it cost."""
TOOL_FAILURE: Final = -32010
"""The JSON-RPC code of a tool's error, where only a JSON-RPC error can report it.

The code is from the range that JSON-RPC reserves for servers. The error's `data` has the details.
"""
MAX_QUOTED_LENGTH: Final = 100
"""An error quotes at most this many characters of a name or URI that a client sent."""
REPLAY_REMARK: Final = (
    "A call with the same idempotency_key succeeded before, so nothing was done now. This is the"
    " earlier answer; the data may have changed since."
)
"""A text that is added to a replayed answer, because models do not see `_meta`."""


def to_result(
    answer: CallAnswer, tool: Declaration, *, links: Links | None = None
) -> types.CallToolResult:
    """Convert an answer to a tool result with links to the resources that it names.

    An error has no structured content unless the tool's output schema includes errors, because some
    clients validate the content against the schema even then, and would hide the error's message.
    """
    structured_content = _make_structured_content(answer, tool)
    error = answer.error and {"error": answer.error.model_dump(exclude_none=True)}
    text = answer.text or to_compact_json(structured_content or error or {})
    texts = [text, REPLAY_REMARK] if answer.receipt.replayed else [text]
    return types.CallToolResult(
        content=[
            *(types.TextContent(type="text", text=text) for text in texts),
            *(build_link_blocks(answer.result or {}, links) if links else []),
        ],
        structured_content=structured_content,
        is_error=answer.error is not None,
        _meta=make_meta(answer),
    )


def _make_structured_content(answer: CallAnswer, tool: Declaration) -> dict[str, Any] | None:
    if tool.envelope is None:
        return answer.result
    if answer.error:
        return tool.envelope.wrap_error(answer.error)
    return tool.envelope.wrap_result(answer.result or {})


def require_result(answer: CallAnswer) -> dict[str, Any]:
    """Return the result of a call, for methods whose results cannot express a tool error.

    Raises:
        MCPError: The call failed. The error has the tool's message.
    """
    if answer.error:
        is_fault = answer.error.code == PlatformFault.code
        code = types.INTERNAL_ERROR if is_fault else TOOL_FAILURE
        data = answer.error.model_dump(exclude_none=True)
        raise MCPError(code, answer.error.message, data=data)
    return answer.result or {}


def make_meta(answer: CallAnswer) -> dict[str, Any]:
    """Make a result's `_meta`, which contains the call's receipt."""
    return {RECEIPT: answer.receipt.cost()}


def quote(text: str) -> str:
    """Quote the beginning of a client's text for an error."""
    return repr(text[:MAX_QUOTED_LENGTH])


def to_compact_json(value: dict[str, Any]) -> str:
    """Serialize to JSON without whitespace."""
    return pydantic_core.to_json(value).decode()
