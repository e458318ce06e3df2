"""HTTP error responses that MCP clients understand, for requests that do not reach the protocol."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mcp_types as types
from starlette.responses import JSONResponse

from shared.core.errors import INTERNAL_ERROR_MESSAGE, PlatformFault, ToolFailure
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from shared.core.errors import CarrelError


def accepts_page(request: Request) -> bool:
    """Return whether the client is a browser that shows the answer to a person."""
    return "text/html" in request.headers.get("accept", "")


def make_json_rpc_error(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    code: int = types.INVALID_REQUEST,
) -> JSONResponse:
    """Make a JSON-RPC error response without a request id."""
    error = {"code": code, "message": message}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=status, headers=headers)


def make_error_response(error: CarrelError, headers: dict[str, str] | None = None) -> JSONResponse:
    """Make the response for one of Carrel's errors."""
    response = make_json_rpc_error(error.status, error.message, headers)
    if error.retry_after is not None:
        response.headers["retry-after"] = format_retry_after(error.retry_after)
    return response


def format_retry_after(seconds: float) -> str:
    """Format a `Retry-After` header: whole seconds, rounded up."""
    return str(math.ceil(seconds))


class ErrorMiddleware:
    """Middleware that answers errors, because the framework would log the path and the message.

    An error that the caller can act on is answered with its message. Any other error is logged and
    answered without its message, which may quote the request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer an error that the app raises."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_and_remember(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_remember)
        except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
            response = _log_and_answer(error)
            if not has_started:
                await response(scope, receive, send)


def _log_and_answer(error: Exception) -> JSONResponse:
    if isinstance(error, ToolFailure):
        log.warning("refused", code=error.code, **error_fields(error))
        return make_error_response(error)
    log.error("fault", **error_fields(error))
    return make_error_response(PlatformFault(INTERNAL_ERROR_MESSAGE))
