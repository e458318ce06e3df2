"""The MCP server object: what it lists, and how a call becomes an answer."""

from __future__ import annotations

import json
import time
import uuid
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from functions.gateway.auth import identify
from shared.call import CallRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from functions.gateway.catalog import Catalog
    from functions.gateway.dispatch import Dispatcher
    from shared.call import CallAnswer

    Context = ServerRequestContext[Any, Any]

RECEIPT: Final = "carrel/receipt"
"""The key of a call's receipt in `_meta`."""
INSTRUCTIONS: Final = (
    "Carrel holds its owner's reading highlights and notes. When a question may be answered by what"
    " they have read or written, search with search_kb, read promising hits whole with get_chunk,"
    " and cite title and author. Say so when nothing fits."
)
_FRESH: Final = CacheHint(ttl_ms=5 * 60 * 1000, scope="private")


def mcp_server(catalog: Catalog, dispatcher: Dispatcher) -> Server[Any]:
    """Build the server object that every transport shares."""
    handlers = _Handlers(catalog, dispatcher)
    return Server(
        "carrel",
        version=version("carrel"),
        title="Carrel",
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": _FRESH,
            "prompts/list": _FRESH,
            "resources/list": _FRESH,
            "resources/templates/list": _FRESH,
            "server/discover": _FRESH,
        },
        get_tool_input_schema=catalog.input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        # Some clients take a missing method for a broken server: an empty list is an answer.
        on_list_prompts=_no_prompts,
        on_list_resources=_no_resources,
        on_list_resource_templates=_no_resource_templates,
    )


class _Handlers:
    def __init__(self, catalog: Catalog, dispatcher: Dispatcher) -> None:
        self._catalog = catalog
        self._dispatcher = dispatcher

    async def list_tools(
        self, context: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        declarations = self._catalog.open_to(identify(context.request))
        return types.ListToolsResult(tools=[each.to_mcp() for each in declarations])

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        caller = identify(context.request)
        tool = self._catalog.get(params.name, caller)
        if tool is None:
            names = ", ".join(each.name for each in self._catalog.open_to(caller))
            message = f"There is no tool {params.name[:80]!r}. The tools are: {names}."
            raise MCPError(types.INVALID_PARAMS, message)
        request = CallRequest(
            call_id=uuid.uuid4().hex,
            arguments=params.arguments or {},
            caller=caller,
            deadline=time.time() + tool.timeout,
        )
        return to_result(await self._dispatcher.call(tool, request))


def to_result(answer: CallAnswer) -> types.CallToolResult:
    """A tool's answer as MCP has it.

    An error carries no structured content: some clients check that against the output schema even
    then, and would hide the message.
    """
    error = answer.error and answer.error.model_dump(exclude_none=True)
    body = {"error": error} if error else answer.result
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=answer.result,
        is_error=answer.error is not None,
        _meta={RECEIPT: answer.receipt.model_dump()},
    )


async def _no_prompts(
    _context: Context, _params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[])


async def _no_resources(
    _context: Context, _params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


async def _no_resource_templates(
    _context: Context, _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[])
