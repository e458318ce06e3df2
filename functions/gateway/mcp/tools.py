"""MCP tools: which are listed, and which may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

from functions.gateway.auth.visitor import visitor_of
from functions.gateway.mcp.results import to_result
from shared.core.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from functions.gateway.auth.visitor import Context, Visitor
    from functions.gateway.calls.pipeline import Calls
    from functions.gateway.catalog import Catalog, Declaration
    from shared.core.errors import CarrelError

KNOWS_LINKS: Final = "2025-06-18"
"""The first revision with resource links; clients of older ones refuse a block they don't know."""


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
        return types.ListToolsResult(tools=[tool.to_mcp() for tool in declarations])

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
            return _closed(tool, visitor)
        names = ", ".join(tool.name for tool in self._catalog.open_to(visitor.caller))
        message = f"There is no tool {name[:80]!r}. The tools are: {names}."
        return MCPError(types.INVALID_PARAMS, message)


def _closed(tool: Declaration, visitor: Visitor) -> MCPError:
    """The refusal of a tool that is closed to a visitor; the HTTP answer says how to open it."""
    if not visitor.caller.has_tier(tool.tier):
        visitor.ask_to_sign_in(tool.effect.scope)
        return _error(Unauthorized(f"Sign in to call {tool.name}."))
    scopes = " ".join(sorted(visitor.ask_for_scope(tool.effect.scope)))
    return _error(Forbidden(f"{tool.name} needs a credential with the scopes {scopes}."))


def _error(error: CarrelError) -> MCPError:
    return MCPError(types.INVALID_REQUEST, error.message, data=error.to_wire())
