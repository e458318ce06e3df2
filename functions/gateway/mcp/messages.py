"""Validation of JSON-RPC messages in the revisions with a handshake, before the SDK reads them.

In those, the SDK drops a request whose id has the wrong type as if it were a notification, and
answers an invalid message with pydantic's own text, which quotes the message at length. From
2026-07-28 on, the SDK validates messages itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pydantic_core
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import PARSE_ERROR, JSONRPCNotification, jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request

from functions.gateway.calls.arguments import MAX_DEPTH
from functions.gateway.http_errors import json_rpc_error

if TYPE_CHECKING:
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class CheckedMessages:
    """Middleware that answers 400 with an explanation if the body is not a JSON-RPC message."""

    def __init__(self, app: ASGIApp) -> None:
        """Store the app to protect, which receives whole bodies."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a message on, or answer with its problem."""
        version = Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        # The empty part is sent last, because the SDK copies the parts and keeps the last.
        parts = [b"", await Request(scope, receive).body()]
        app = _rejection(parts[-1]) or self._app

        async def replay() -> Message:
            if not parts:
                return await receive()
            part = parts.pop()
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        await app(scope, replay, send)


def _rejection(body: bytes) -> JSONResponse | None:
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
    return None
