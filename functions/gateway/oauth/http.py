"""HTTP for OAuth: the parameters of requests, and errors in the format of its RFCs.

RFC 6749 (3.1, 3.2) forbids repeated parameters, and treats a parameter without a value as omitted.
The SDK's handlers do neither, and they accept any encoding of a form, while one suffices here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse

from functions.gateway.body_limits import BodyLimit
from functions.gateway.http_errors import format_retry_after
from shared.core.errors import (
    INTERNAL_ERROR_MESSAGE,
    CarrelError,
    InvalidInput,
    PlatformFault,
    RateLimited,
    Unavailable,
)
from shared.core.http import parse_media_type
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message

    Handler = Callable[[Request], Awaitable[Response]]
    ErrorHandler = Callable[[Request, CarrelError], Response]

RESPONSE_TIMEOUT_SECONDS: Final = 10.0
"""The timeout of a request, in seconds. The database client would wait for minutes."""
MAX_FORM_BYTES: Final = 64 * 1024
"""The maximum size of a request's body, in bytes."""
NO_STORE_HEADERS: Final = {"cache-control": "no-store", "pragma": "no-cache"}
_MAX_PARAMETERS: Final = 100
"""The maximum number of parameters that are parsed. The longest request of OAuth has about ten."""
_FORM_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
_OAUTH_ERROR_CODES: Final[dict[type[CarrelError], str]] = {
    InvalidInput: "invalid_request",
    RateLimited: "temporarily_unavailable",
    Unavailable: "temporarily_unavailable",
}


def limit_body(app: ASGIApp) -> BodyLimit:
    """Wrap an app so that it accepts only small bodies."""
    return BodyLimit(app, lambda _: MAX_FORM_BYTES)


async def read_parameters(request: Request) -> dict[str, str]:
    """Return the non-empty parameters of a request: the query of a GET, otherwise the form.

    Raises:
        InvalidInput: A parameter is repeated, or the body is not a form.
    """
    encoded_parameters = (
        request.scope["query_string"] if request.method == "GET" else await _read_form(request)
    )
    try:
        pairs = parse_qsl(encoded_parameters.decode(), max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise InvalidInput("The parameters are not valid.") from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise InvalidInput("A parameter is repeated.")
    return parameters


def copy_as_get(request: Request, parameters: dict[str, str]) -> Request:
    """Copy a request as a GET with these parameters."""
    query = urlencode(parameters).encode()
    return Request({**request.scope, "method": "GET", "query_string": query})


def copy_with_form(request: Request, parameters: dict[str, str]) -> Request:
    """Copy a request with these parameters as its form."""
    body = urlencode(parameters).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def make_oauth_error(status: int, code: str, description: str) -> JSONResponse:
    """Make an error response in the format of RFC 6749 (5.2), RFC 7009 and RFC 7591."""
    body = {"error": code, "error_description": description}
    return JSONResponse(body, status_code=status, headers=NO_STORE_HEADERS)


def make_oauth_error_response(_request: Request, error: CarrelError) -> Response:
    """Make the response for one of Carrel's errors, in the same format."""
    code = _OAUTH_ERROR_CODES.get(type(error), "server_error")
    response = make_oauth_error(error.status, code, error.message)
    if error.retry_after is not None:
        response.headers["retry-after"] = format_retry_after(error.retry_after)
    return response


def wrap_with_errors(
    handler: Handler, timeout: float, error_handler: ErrorHandler = make_oauth_error_response
) -> Handler:
    """Wrap a handler with a timeout, and turn its errors into responses."""

    async def handle(request: Request) -> Response:
        try:
            async with asyncio.timeout(timeout):
                return await handler(request)
        except Exception as error:  # noqa: BLE001 - the boundary: no error message reaches the log
            return error_handler(request, _to_public_error(error))

    return handle


async def _read_form(request: Request) -> bytes:
    if parse_media_type(request.headers.get("content-type")) != _FORM_MEDIA_TYPE:
        raise InvalidInput(f"Send the parameters as {_FORM_MEDIA_TYPE}.")
    return await request.body()


def _to_public_error(error: Exception) -> CarrelError:
    """Return an error that is safe to publish, and log the location of an unexpected one."""
    if isinstance(error, CarrelError):
        return error
    if isinstance(error, TimeoutError):
        return Unavailable("The database does not answer right now.", retry_after=5)
    log.error("sign_in_failed", **error_fields(error))
    return PlatformFault(INTERNAL_ERROR_MESSAGE)
