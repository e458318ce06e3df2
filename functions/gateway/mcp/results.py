"""Conversion of a call's answer to MCP: a tool result, a resource's text or a JSON-RPC error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
import pydantic_core
from mcp.shared.exceptions import MCPError

from shared.core.errors import PlatformFault

if TYPE_CHECKING:
    from collections.abc import Collection

    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer

RECEIPT: Final = "carrel/receipt"
"""The key in a result's `_meta` under which clients find the call's receipt: what it cost."""
APP_FIELDS: Final = "carrel/app"
"""The key in a result's `_meta` under which apps find the fields that models do not get. They have
the shape of the result: an item of a list is at the same place, without its other fields."""
TOOL_FAILURE: Final = -32010
"""The JSON-RPC code of a tool's error, where only a JSON-RPC error can report it.

The code is from the range that JSON-RPC reserves for servers. The error's `data` has the details.
"""
MAX_QUOTED_LENGTH: Final = 100
"""An error quotes at most this many characters of a name or URI that a client sent."""
REMARK: Final = "remark"
"""The field of a replayed result that says so, because models do not see `_meta`."""
REPLAY_REMARK: Final = (
    "A call with the same idempotency_key succeeded before, so nothing was done now. This is the"
    " earlier answer; the data may have changed since."
)


def to_result(
    answer: CallAnswer, tool: Declaration, *, with_apps: bool = False
) -> types.CallToolResult:
    """Convert an answer to a tool result, as text and as JSON, of which clients show models one.

    An error has no structured content unless the tool's output schema includes errors, because some
    clients validate the content against the schema even then, and would hide the error's message.
    """
    result, app_fields = divide_fields(answer.result or {}, tool.for_apps)
    content = _make_structured_content(answer, result, tool)
    remark = REPLAY_REMARK if answer.receipt.replayed else None
    if content and remark:
        content |= {REMARK: remark}
    error = answer.error and {"error": answer.error.model_dump(exclude_none=True)}
    if answer.text:
        text = "\n\n".join(filter(None, [answer.text, remark]))
    else:
        text = to_compact_json(content or error or {})
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=content,
        is_error=answer.error is not None,
        _meta=make_meta(answer) | ({APP_FIELDS: app_fields} if with_apps and app_fields else {}),
    )


def _make_structured_content(
    answer: CallAnswer, result: dict[str, Any], tool: Declaration
) -> dict[str, Any] | None:
    if tool.envelope and answer.error:
        return tool.envelope.wrap_error(answer.error)
    if answer.error:
        return None
    return tool.envelope.wrap_result(result) if tool.envelope else result


def divide_fields(
    result: dict[str, Any], for_apps: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide a result into what models get and what only apps get.

    Models do not get the empty lists of items, either.

    Args:
        for_apps: The paths of the fields for apps, such as `results.rank`.
    """
    return _divide_object(result, for_apps, "", in_list=False)


def _divide_object(
    fields: dict[str, Any], for_apps: Collection[str], path: str, *, in_list: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    for_models: dict[str, Any] = {}
    taken: dict[str, Any] = {}
    for name, value in fields.items():
        if path + name in for_apps:
            taken[name] = value
        elif not (in_list and value == []):
            for_models[name], part = _divide(value, for_apps, f"{path}{name}.", in_list=in_list)
            if part:
                taken[name] = part
    return for_models, taken


def _divide(value: Any, for_apps: Collection[str], path: str, *, in_list: bool) -> tuple[Any, Any]:
    if isinstance(value, dict):
        return _divide_object(value, for_apps, path, in_list=in_list)
    if not isinstance(value, list):
        return value, None
    parts = [_divide(item, for_apps, path, in_list=True) for item in value]
    taken = [part for _, part in parts]
    return [item for item, _ in parts], taken if any(taken) else None


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


def to_compact_json(value: object) -> str:
    """Serialize to JSON without whitespace."""
    return pydantic_core.to_json(value).decode()
