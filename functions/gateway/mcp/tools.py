"""MCP tools: what is listed, and how a call becomes an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

from functions.gateway.auth.refusing import closed
from functions.gateway.auth.visitor import visitor_of
from functions.gateway.calls.pipeline import compact, meta
from functions.gateway.mcp.resource_links import blocks

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Context, Visitor
    from functions.gateway.calls.pipeline import Calls
    from functions.gateway.catalog import Catalog, Declaration
    from shared.runtime.messages import CallAnswer
    from shared.runtime.tool import Links

KNOWS_LINKS: Final = "2025-06-18"
"""The first revision with resource links; clients of older ones refuse a block they don't know."""


REPLAYED: Final = (
    "This call was done before, with the same idempotency_key: nothing was done now. This is the"
    " answer of that time, and what it tells of may have changed since."
)
"""What is said beside such an answer: a model sees no `_meta`."""


class Tools:
    """Answers `tools/list` and `tools/call`."""

    def __init__(self, catalog: Catalog, calls: Calls) -> None:
        """Offer what the catalogue holds."""
        self._catalog = catalog
        self._calls = calls

    async def show(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools that the caller may call."""
        declarations = self._catalog.open_to(visitor_of(context).caller)
        return types.ListToolsResult(tools=[each.to_mcp() for each in declarations])

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call one of them."""
        visitor = visitor_of(context)
        tool = self._catalog.get(params.name, visitor.caller)
        if tool is None:
            raise self._refusal(params.name, visitor)
        answer = await self._calls.call(tool, params.arguments or {}, visitor)
        knows_links = is_version_at_least(context.protocol_version, KNOWS_LINKS)
        return to_result(answer, tool, links=tool.links if knows_links else None)

    def _refusal(self, name: str, visitor: Visitor) -> MCPError:
        if tool := self._catalog.closed_to(name, visitor.caller):
            return closed(tool, visitor)
        names = ", ".join(each.name for each in self._catalog.open_to(visitor.caller))
        message = f"There is no tool {name[:80]!r}. The tools are: {names}."
        return MCPError(types.INVALID_PARAMS, message)


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
            *(blocks(answer.result or {}, links) if links else []),
        ],
        structured_content=structured,
        is_error=answer.error is not None,
        _meta=meta(answer),
    )


def _structured(answer: CallAnswer, tool: Declaration) -> dict[str, Any] | None:
    if tool.envelope is None:
        return answer.result
    if answer.error:
        return tool.envelope.refusal(answer.error)
    return tool.envelope.answer(answer.result or {})
