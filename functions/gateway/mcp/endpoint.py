"""The MCP endpoint: answers each message on its own, in every revision of the protocol.

It replaces the SDK's own app, which does more than this server needs. In revisions with a
handshake, the SDK's app starts tasks and streams for each message. From 2026-07-28 on, it searches
the tool's schema at each call for arguments that headers repeat, but no tool has such arguments.
Its errors do not say what to do next.

The SDK still checks the envelope of a request (revision, method and capabilities of the client),
validates the parameters and calls the handler. A test sends the same messages to both apps and
compares the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pydantic_core
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from functions.gateway.calls.arguments import MAX_DEPTH
from functions.gateway.http_errors import make_json_rpc_error
from functions.gateway.mcp.apps import make_session_headers, recall_capabilities
from shared.core.errors import InvalidInput
from shared.runtime.invocation import MAX_REPORTED_PROBLEMS, format_field_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.lowlevel import Server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp_types import JSONRPCMessage, RequestId
    from starlette.datastructures import Headers
    from starlette.types import Receive, Scope, Send

    FindServer = Callable[[str], Server[Any]]
    """A function that returns the server for the query of an address, or raises InvalidInput."""

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
SECURITY_MESSAGES: Final = {
    421: (
        "The Host header names another server. Use the URL that this server's owner gave you. Its"
        " owner can allow further names with ALLOWED_HOSTS."
    ),
    403: (
        "Web pages of the origin in the Origin header may not call this server. Its owner can allow"
        " them with ALLOWED_ORIGINS."
    ),
}
_MODERN: Final = " or ".join(MODERN_PROTOCOL_VERSIONS)
_START_WITH_HANDSHAKE: Final = (
    f"start with initialize, and then send {MCP_PROTOCOL_VERSION_HEADER}:"
    f" {LATEST_HANDSHAKE_VERSION}"
)
_ADVICE: Final = {
    HEADER_MISMATCH: (
        "Send the headers MCP-Protocol-Version, Mcp-Method and, for a tool, a prompt or a resource,"
        " Mcp-Name once each, with the values of the message."
    ),
    INVALID_PARAMS: (
        f"Send them in each request of revision {_MODERN}. In an earlier one,"
        f" {_START_WITH_HANDSHAKE}."
    ),
    UNSUPPORTED_PROTOCOL_VERSION: f"Use {_MODERN}, or {_START_WITH_HANDSHAKE}.",
}
"""What to do about an error that the SDK finds in the envelope of a request, by JSON-RPC code."""
_NO_BACK_CHANNEL: Final = TransportContext(kind="streamable-http", can_send_request=False)
"""Tells the SDK that this server cannot send requests to the client."""


class McpEndpoint:
    """The app that answers posted messages. It stores no sessions and has no streams."""

    def __init__(self, find_server: FindServer, security: TransportSecuritySettings) -> None:
        self._find_server = find_server
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message."""
        response = await self._answer_request(Request(scope), receive)
        await response(scope, receive, send)

    async def _answer_request(self, request: Request, receive: Receive) -> Response:
        if rejection := await self._security.validate_request(request):
            return make_json_rpc_error(
                rejection.status_code, SECURITY_MESSAGES[rejection.status_code]
            )
        try:
            server = self._find_server(request.url.query)
        except InvalidInput as error:
            return make_json_rpc_error(400, error.message)
        accepts_json, _ = check_accept_headers(request)
        if not accepts_json:
            return make_json_rpc_error(406, "Send the header Accept: application/json.")
        # Handlers get the request without its body, which would stay in memory during the call.
        message = _parse(await Request(request.scope, receive).body())
        if isinstance(message, Response):
            return message
        version = _read_version(request.headers)
        if version in HANDSHAKE_PROTOCOL_VERSIONS:
            return await self._answer_handshake_message(message, request, version, server)
        return await self._answer_modern_message(message, request, version, server)

    async def _answer_handshake_message(
        self, message: JSONRPCMessage, request: Request, version: str, server: Server[Any]
    ) -> Response:
        """Answer a message of a revision up to 2025-11-25. An error has the HTTP status 200."""
        if not isinstance(message, JSONRPCRequest):
            return _accept()
        capabilities = recall_capabilities(request.headers)
        connection = Connection.from_envelope(version, None, capabilities)
        outcome = await self._run_method(message, request, connection, server)
        response = _answer(message.id, outcome)
        if message.method == "initialize" and not isinstance(outcome, ErrorData):
            response.headers.update(make_session_headers(outcome))
        return response

    async def _answer_modern_message(
        self, message: JSONRPCMessage, request: Request, version: str, server: Server[Any]
    ) -> Response:
        """Answer a message of 2026-07-28, or of an unknown revision.

        Headers repeat the revision, the method and the name of the message.
        """
        if isinstance(message, JSONRPCNotification):
            unsupported = unsupported_protocol_version_rejection(version)
            return _reject(None, unsupported) if unsupported else _accept()
        if not isinstance(message, JSONRPCRequest):
            return make_json_rpc_error(400, _NO_RPC_MESSAGE)
        if name := find_duplicated_routing_header(request.headers.items()):
            problem = f"{name} header appears more than once"
            return _reject(message.id, InboundLadderRejection(HEADER_MISMATCH, problem))
        body = {"method": message.method, "params": message.params}
        headers = {**request.headers, MCP_PROTOCOL_VERSION_HEADER: version}
        envelope = classify_inbound_request(body, headers=headers)
        if isinstance(envelope, InboundLadderRejection):
            return _reject(message.id, envelope)
        connection = Connection.from_envelope(
            version, envelope.client_info, envelope.client_capabilities
        )
        outcome = await self._run_method(message, request, connection, server)
        if isinstance(outcome, ErrorData):
            return _answer(message.id, outcome, ERROR_CODE_HTTP_STATUS.get(outcome.code, 200))
        return _answer(message.id, outcome)

    async def _run_method(
        self,
        message: JSONRPCRequest,
        request: Request,
        connection: Connection,
        server: Server[Any],
    ) -> dict[str, Any] | ErrorData:
        runner = ServerRunner(server, connection, lifespan_state=None)
        context = _RequestContext(message.id, ServerMessageMetadata(request_context=request))
        try:
            return await runner.on_request(context, message.method, message.params)
        except MCPError as error:
            return error.error
        except ValidationError as error:  # of the parameters; handlers raise only MCPError
            return _make_invalid_parameters_error(message.method, error)


@dataclass(frozen=True, slots=True)
class _RequestContext:
    """A request for the SDK's server, which can send nothing to the client but the response."""

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


def _read_version(headers: Headers) -> str:
    """Return the revision of a request. A proxy may have joined two equal headers by a comma."""
    value = headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
    versions = {version.strip() for version in value.split(",")}
    return versions.pop() if len(versions) == 1 else value


def _parse(body: bytes) -> JSONRPCMessage | Response:
    """Return the message in a body, or a response that explains what is wrong with the body."""
    try:
        content = pydantic_core.from_json(body)
    except ValueError as error:
        # The parser's limit is about 200 levels. Only its message distinguishes this error.
        if str(error).startswith("recursion limit exceeded"):
            return make_json_rpc_error(400, _TOO_DEEP_MESSAGE)
        return make_json_rpc_error(400, _NO_JSON_MESSAGE, code=PARSE_ERROR)
    try:
        if isinstance(content, dict) and "method" in content:
            kind = JSONRPCRequest if "id" in content else JSONRPCNotification
            return kind.model_validate(content)
        return jsonrpc_message_adapter.validate_python(content)
    except ValidationError:
        return make_json_rpc_error(400, _NO_RPC_MESSAGE)


def _answer(
    request_id: RequestId | None, outcome: dict[str, Any] | ErrorData, status: int = 200
) -> Response:
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
    if isinstance(outcome, ErrorData):
        answer["error"] = outcome.model_dump(by_alias=True, exclude_none=True)
    else:
        answer["result"] = outcome
    return Response(pydantic_core.to_json(answer), status, media_type="application/json")


def _reject(request_id: RequestId | None, rejection: InboundLadderRejection) -> Response:
    message = f"{rejection.message}. {_ADVICE[rejection.code]}"
    error = ErrorData(code=rejection.code, message=message, data=rejection.data)
    return _answer(request_id, error, ERROR_CODE_HTTP_STATUS[rejection.code])


def _make_invalid_parameters_error(method: str, error: ValidationError) -> ErrorData:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    fields = "; ".join(
        f"{format_field_path(problem['loc'])}: {problem['msg']}"
        for problem in problems[:MAX_REPORTED_PROBLEMS]
    )
    message = f"{method} was not run. {fields}. Correct this and send it again."
    return ErrorData(code=INVALID_PARAMS, message=message)


def _accept() -> Response:
    """Make the response to a notification, or to any other message that has no answer."""
    return Response(status_code=202)
