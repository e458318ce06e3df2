"""The revisions with a handshake, up to 2025-11-25: each message is answered on its own.

The SDK's transport for these revisions starts a session's tasks and streams for each message, drops
a request whose id has the wrong type as if it were a notification, and answers an invalid message
with pydantic's own text, which quotes the message at length. Without sessions, one call of the
SDK's server answers a message. From 2026-07-28 on, the SDK does the same by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pydantic_core
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    INVALID_PARAMS,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from functions.gateway.calls.arguments import MAX_DEPTH
from functions.gateway.http_errors import json_rpc_error

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import JSONRPCMessage, RequestId
    from starlette.types import ASGIApp, Receive, Scope, Send

_NO_JSON_MESSAGE: Final = "The body is not valid JSON in UTF-8. Correct it and send it again."
_TOO_DEEP_MESSAGE: Final = (
    "This request was not run. Its lists and objects are nested too deeply: an argument may have at"
    f" most {MAX_DEPTH} levels. Correct it and send it again."
)
_NO_RPC_MESSAGE: Final = (
    'The body is not a JSON-RPC 2.0 message. Send one object with "jsonrpc": "2.0", a "method" that'
    ' is a string, "params" that are an object or missing, and an "id" that is a string or an'
    ' integer; a notification has no "id".'
)
_NO_BACK_CHANNEL: Final = TransportContext(kind="streamable-http", can_send_request=False)


class HandshakeRevisions:
    """Middleware that answers messages of these revisions, and passes on all others."""

    def __init__(
        self, app: ASGIApp, server: Server[Any], security: TransportSecuritySettings
    ) -> None:
        """Store the app of later revisions, the server, and the allowed hosts and origins."""
        self._app = app
        self._server = server
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message, or pass it on."""
        # White space around a header's value is not a part of it (RFC 9110, 5.5), but httptools
        # leaves it there.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        version = Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        response = await self._response(Request(scope), receive, version)
        await response(scope, receive, send)

    async def _response(self, request: Request, receive: Receive, version: str) -> Response:
        if rejection := await self._security.validate_request(request, is_post=True):
            return rejection
        accepts_json, _ = check_accept_headers(request)
        if not accepts_json:
            return json_rpc_error(406, "Send the header Accept: application/json.")
        # The request of the handlers has no body, which would stay in memory during the call.
        message = _parse(await Request(request.scope, receive).body())
        if isinstance(message, Response):
            return message
        if isinstance(message, JSONRPCRequest):
            answer = await self._answer(message, request, version)
            content = answer.model_dump_json(by_alias=True, exclude_unset=True)
            return Response(content, media_type="application/json")
        return Response(status_code=202)  # nothing waits for a notification or a response

    async def _answer(
        self, message: JSONRPCRequest, request: Request, version: str
    ) -> JSONRPCResponse | JSONRPCError:
        context = _RequestContext(message.id, ServerMessageMetadata(request_context=request))
        try:
            result = await serve_one(
                self._server,
                context,
                message.method,
                message.params,
                connection=Connection.from_envelope(version, None, None),
                lifespan_state=None,
            )
        except MCPError as error:
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=error.error)
        except ValidationError:
            problem = ErrorData(code=INVALID_PARAMS, message="Invalid request parameters", data="")
            return JSONRPCError(jsonrpc="2.0", id=message.id, error=problem)
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)


@dataclass(frozen=True, slots=True)
class _RequestContext:
    """A request for the SDK's server. It has no channel on which the server could send more."""

    request_id: RequestId
    message_metadata: ServerMessageMetadata
    transport: TransportContext = _NO_BACK_CHANNEL
    can_send_request: bool = False
    cancel_requested: Any = None

    async def send_raw_request(self, method: str, *_: Any) -> dict[str, Any]:
        """Raise an error, because the client's answer could not arrive."""
        raise NoBackChannelError(method)

    async def notify(self, *_: Any) -> None:
        """Drop a notification, because the response has room for one message only."""

    async def progress(self, *_: Any) -> None:
        """Drop a progress report, for the same reason."""


def _parse(body: bytes) -> JSONRPCMessage | Response:
    """Return the message, or a response that explains the problem of the body."""
    try:
        content = pydantic_core.from_json(body)
    except ValueError as error:
        # The parser's limit is about 200 levels; only the message tells this error from others.
        if str(error).startswith("recursion limit exceeded"):
            return json_rpc_error(400, _TOO_DEEP_MESSAGE)
        return json_rpc_error(400, _NO_JSON_MESSAGE, code=PARSE_ERROR)
    try:
        message = jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        return json_rpc_error(400, _NO_RPC_MESSAGE)
    if isinstance(message, JSONRPCNotification) and "id" in content:
        return json_rpc_error(400, _NO_RPC_MESSAGE)
    return message
