"""The MCP server with the handlers of all methods, which all transports share."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from functions.gateway.mcp.apps import advertise_apps
from functions.gateway.mcp.completion import Completions
from functions.gateway.mcp.instructions import CurrentFacts, build_instructions
from functions.gateway.mcp.prompt_texts import PROMPTS
from functions.gateway.mcp.prompts import Prompts
from functions.gateway.mcp.request_spans import RequestSpans
from functions.gateway.mcp.resources import Resources
from functions.gateway.mcp.tools import Tools
from shared.core import telemetry
from shared.core.errors import INTERNAL_ERROR_MESSAGE
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from functions.gateway.auth.visitor import RequestContext, Visitor
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog
    from functions.gateway.mcp.prompts import Prompt

ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")

_CACHE_HINT: Final = CacheHint(ttl_ms=5 * 60 * 1000, scope="private")
"""Clients may reuse a list for five minutes, but only for the same user, whose tools it lists."""


def build_server(
    catalog: Catalog,
    pipeline: CallPipeline,
    prompts: Sequence[Prompt] = PROMPTS,
    *,
    tools: Tools | None = None,
    local_visitor: Visitor | None = None,
) -> Server[Any]:
    """Build the server.

    Args:
        prompts: The prompts to offer. Those that name a tool outside the catalog are left out.
        tools: Replaces the handlers of `tools/list` and `tools/call`.
        local_visitor: The sender of all requests over stdio.
    """
    tools = tools or Tools(catalog, pipeline)
    resources = Resources(catalog, pipeline)
    prompt_handlers = Prompts(_select_prompts(prompts, catalog))
    server: Server[Any] = Server(
        "carrel",
        version=version("carrel"),
        title="Carrel",
        instructions=build_instructions(catalog),
        cache_hints={
            "tools/list": _CACHE_HINT,
            "prompts/list": _CACHE_HINT,
            "resources/list": _CACHE_HINT,
            "resources/templates/list": _CACHE_HINT,
            "resources/read": _CACHE_HINT,
            "server/discover": _CACHE_HINT,
        },
        # Handlers read the local visitor from the lifespan context.
        lifespan=lambda _: nullcontext(local_visitor),
        on_list_tools=_log_faults(tools.list_tools),
        on_call_tool=_log_faults(tools.call_tool),
        on_list_resources=_log_faults(resources.list_resources),
        on_list_resource_templates=_log_faults(resources.list_templates),
        on_read_resource=_log_faults(resources.read),
        on_list_prompts=_log_faults(prompt_handlers.list_prompts),
        on_get_prompt=_log_faults(prompt_handlers.get_prompt),
        on_completion=_log_faults(Completions(catalog, pipeline, prompt_handlers).complete),
    )
    spans = RequestSpans(tools.names, [prompt.name for prompt in prompts])
    server.middleware[:] = [
        *([spans] if telemetry.is_on() else []),
        *([advertise_apps] if catalog.has_apps else []),
        CurrentFacts(catalog, pipeline).add,
    ]
    return server


def _select_prompts(prompts: Sequence[Prompt], catalog: Catalog) -> Sequence[Prompt]:
    """Return the prompts whose texts, as their examples show, name only tools that are offered."""
    if not catalog.removed_names:
        return prompts
    return [prompt for prompt in prompts if catalog.offers_all_in(prompt.example)]


def _log_faults(
    handler: Callable[[RequestContext, ParamsT], Awaitable[ResultT]],
) -> Callable[[RequestContext, ParamsT], Awaitable[ResultT]]:
    """Wrap a handler so that it raises only MCPError. Any other error is logged as internal.

    Otherwise, the SDK would blame the client for a ValidationError that our own code raised.
    """

    async def handle(context: RequestContext, params: ParamsT) -> ResultT:
        try:
            return await handler(context, params)
        except MCPError:
            raise
        except Exception as error:
            log.error("fault", method=context.method, **error_fields(error))
            raise MCPError(types.INTERNAL_ERROR, INTERNAL_ERROR_MESSAGE) from error

    return handle
