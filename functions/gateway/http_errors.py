"""Errors as HTTP answers that MCP clients can read, for requests that never reach the protocol."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mcp_types as types
from starlette.responses import JSONResponse

from shared.core.errors import PlatformFault, ToolFailure
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from shared.core.errors import CarrelError


def json_rpc_error(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    code: int = types.INVALID_REQUEST,
) -> JSONResponse:
    """A JSON-RPC error that answers no request in particular."""
    error = {"code": code, "message": message}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": error}
    return JSONResponse(body, status_code=status, headers=headers)


def error_response(error: CarrelError, headers: dict[str, str] | None = None) -> JSONResponse:
    """What a client learns of an error of ours."""
    response = json_rpc_error(error.status, error.message, headers)
    if error.retry_after is not None:
        response.headers["retry-after"] = retry_after_header(error.retry_after)
    return response


def retry_after_header(seconds: float) -> str:
    """A wait as `Retry-After` has it: whole seconds, rounded up."""
    return str(math.ceil(seconds))


class ErrorMiddleware:
    """Answers what an app raises. The framework would log the request's path and the error's words.

    An error that the caller can act on keeps its message; any other is logged without its words,
    and answered without them.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Catch what this app raises."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def watch(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:  # noqa: BLE001 - the boundary: every error becomes an answer
            response = _logged_response(error)
            if not began:
                await response(scope, receive, send)


def _logged_response(error: Exception) -> JSONResponse:
    if isinstance(error, ToolFailure):
        log.warning("refused", code=error.code, **error_fields(error))
        return error_response(error)
    log.error("fault", **error_fields(error))
    return error_response(PlatformFault("Carrel failed on its side. Try again later."))
