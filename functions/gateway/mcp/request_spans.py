"""The spans of MCP requests, with the attributes of OpenTelemetry's conventions.

https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/

The SDK has middleware that makes such spans, too. It is not used, because its spans contain texts
that the client chose: ids of requests, names of tools that do not exist, and messages of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp.shared.exceptions import MCPError
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from starlette.datastructures import Headers

from shared.core.log import parse_trace
from shared.core.telemetry import SpanKind, span

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from mcp.server.context import CallNext, HandlerResult

    from functions.gateway.auth.visitor import RequestContext
    from shared.core.log import TraceContext

_METHODS: Final = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS
"""The methods that spans may name. All others are named `unknown`."""
_TOOL_ERROR: Final = "tool_error"
"""The type that the conventions give to an error in a tool's result, as opposed to JSON-RPC's."""


class RequestSpans:
    """Middleware of the server that makes a span of every request and notification."""

    def __init__(self, tools: Collection[str], prompts: Collection[str]) -> None:
        self._names = {"tools/call": tools, "prompts/get": prompts}

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answer a request within a span, whose parent may be in the request's `_meta`."""
        method = ctx.method if ctx.method in _METHODS else "unknown"
        name = (ctx.params or {}).get("name")
        if not isinstance(name, str) or name not in self._names.get(method, ()):
            name = None
        with span(
            f"{method} {name}" if name else method,
            {
                "mcp.method.name": method,
                "mcp.protocol.version": ctx.protocol_version,
                "gen_ai.operation.name": "execute_tool" if method == "tools/call" else None,
                "gen_ai.tool.name": name if method == "tools/call" else None,
                "gen_ai.prompt.name": name if method == "prompts/get" else None,
            },
            kind=SpanKind.SERVER,
            parent=_parse_parent(ctx.meta),
        ) as request_span:
            try:
                result = await call_next(ctx)
            except MCPError as error:
                request_span.set({"rpc.response.status_code": str(error.error.code)})
                request_span.fail(str(error.error.code))
                raise
            if isinstance(result, dict) and result.get("isError"):
                request_span.fail(_TOOL_ERROR)
            return result


def _parse_parent(meta: Mapping[str, Any] | None) -> TraceContext | None:
    """Return the trace in a request's `_meta`, where protocol version 2026-07-28 puts it."""
    traceparent = (meta or {}).get("traceparent")
    if not isinstance(traceparent, str) or not traceparent.isascii():
        return None
    return parse_trace(Headers({"traceparent": traceparent}))
