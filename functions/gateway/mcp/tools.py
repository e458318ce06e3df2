"""MCP tools: `tools/list` and `tools/call`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import mcp_types as types
from mcp.shared.exceptions import MCPError

from functions.gateway.auth.visitor import require_visitor
from functions.gateway.mcp.apps import build_tool_meta, supports_apps
from functions.gateway.mcp.results import quote, to_result
from shared.core.errors import Forbidden, Unauthorized
from shared.core.installation import carrel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.auth.visitor import RequestContext, Visitor
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog, Declaration
    from shared.core.caller import Caller
    from shared.core.errors import CarrelError


class Tools:
    """Answers `tools/list` and `tools/call`."""

    def __init__(self, catalog: Catalog, pipeline: CallPipeline) -> None:
        self._catalog = catalog
        self._pipeline = pipeline

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return self._catalog.names

    async def list_tools(
        self, context: RequestContext, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools that the caller may call, all on one page."""
        with_apps = supports_apps(context)
        caller = require_visitor(context).caller
        declarations = self._catalog.list_tools_for(caller, with_apps=with_apps)
        tools = [tool.to_mcp(build_tool_meta(tool) if with_apps else None) for tool in declarations]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, context: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call a tool."""
        visitor = require_visitor(context).with_declared_client(context)
        with_apps = supports_apps(context)
        tool = self._catalog.get(params.name, visitor.caller, with_apps=with_apps)
        if tool is None:
            if forbidden := self._catalog.find_forbidden(params.name, visitor.caller):
                reject_forbidden_call(forbidden, visitor)
            # The list is for the model, which must not call the internal tools of apps.
            names = [offered.name for offered in self._catalog.list_tools_for(visitor.caller)]
            raise make_unknown_tool_error(params.name, names)
        answer = await self._pipeline.call(tool, params.arguments or {}, visitor)
        return to_result(answer, tool, with_apps=with_apps)


def make_unknown_tool_error(name: str, names: Sequence[str]) -> MCPError:
    """Make the error for a call of an unknown tool, which lists the names of the tools."""
    message = f"There is no tool {quote(name)}. The tools are: {', '.join(names)}."
    return MCPError(types.INVALID_PARAMS, message)


def reject_forbidden_call(tool: Declaration, visitor: Visitor) -> NoReturn:
    """Reject a call of a tool that the caller may not call.

    If a sign-in or another scope would help, the HTTP response also asks the client for it.

    Raises:
        MCPError: Always; it says what the caller lacks.
    """
    if not visitor.caller.has_tier(tool.tier):
        visitor.require_sign_in(tool.scope)
        raise _to_mcp_error(Unauthorized(f"Sign in to call {tool.name}."))
    if not visitor.caller.role.includes(tool.role):
        raise _to_mcp_error(Forbidden(_explain_missing_role(tool, visitor.caller)))
    scopes = " ".join(sorted(visitor.require_scope(tool.scope)))
    raise _to_mcp_error(Forbidden(f"{tool.name} needs a credential with the scopes {scopes}."))


def _explain_missing_role(tool: Declaration, caller: Caller) -> str:
    return (
        f"{tool.name} needs the role {tool.role}; {caller.user_id} has the role {caller.role}. The"
        " operator of this server can change it with"
        f" `{carrel(f'accounts role {caller.user_id} {tool.role}')}`."
    )


def _to_mcp_error(error: CarrelError) -> MCPError:
    return MCPError(types.INVALID_REQUEST, error.message, data=error.to_wire())
