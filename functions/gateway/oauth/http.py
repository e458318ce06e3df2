"""How OAuth speaks HTTP: the parameters of requests, and errors as its RFCs have them.

Each parameter is there once, or not at all. The SDK's handlers take the last of several values, an
empty value for a value, and any encoding of a form. RFC 6749 (3.1, 3.2) forbids the first and has
the second mean nothing; the third has no use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse

from functions.gateway.body_limits import BodyLimit
from functions.gateway.http_errors import retry_after_header
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, RateLimited, Unavailable
from shared.core.http import media_type
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message

    Handler = Callable[[Request], Awaitable[Response]]
    ErrorHandler = Callable[[Request, CarrelError], Response]

RESPONSE_SECONDS: Final = 10.0
"""How long a request may wait for the database, whose client alone would wait for minutes."""
MAX_BYTES: Final = 64 * 1024
"""Of a request's body."""
NO_STORE: Final = {"cache-control": "no-store", "pragma": "no-cache"}
_MAX_PARAMETERS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"
_CODES: Final[dict[type[CarrelError], str]] = {
    InvalidInput: "invalid_request",
    RateLimited: "temporarily_unavailable",
    Unavailable: "temporarily_unavailable",
}


def bounded(app: ASGIApp) -> BodyLimit:
    """The same app, which takes small bodies only."""
    return BodyLimit(app, lambda _: MAX_BYTES)


async def parameters_of(request: Request) -> dict[str, str]:
    """The parameters of a request that have a value: from the query of a GET, or from a form.

    Raises:
        InvalidInput: One is there twice, or the body is no form.
    """
    encoded = request.scope["query_string"] if request.method == "GET" else await _form_of(request)
    try:
        pairs = parse_qsl(encoded.decode(), max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise InvalidInput("The parameters cannot be read.") from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise InvalidInput("A parameter is there more than once.")
    return parameters


def with_query(request: Request, parameters: dict[str, str]) -> Request:
    """The same request, as a GET with these parameters."""
    query = urlencode(parameters).encode()
    return Request({**request.scope, "method": "GET", "query_string": query})


def with_form(request: Request, parameters: dict[str, str]) -> Request:
    """The same request, with these parameters as its form."""
    body = urlencode(parameters).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def oauth_error(status: int, code: str, description: str) -> JSONResponse:
    """An error as RFC 6749 (5.2), RFC 7009 and RFC 7591 have it."""
    body = {"error": code, "error_description": description}
    return JSONResponse(body, status_code=status, headers=NO_STORE)


def oauth_error_response(_request: Request, error: CarrelError) -> Response:
    """What a program learns of an error of ours."""
    code = _CODES.get(type(error), "server_error")
    response = oauth_error(error.status, code, error.message)
    if error.retry_after is not None:
        response.headers["retry-after"] = retry_after_header(error.retry_after)
    return response


def guarded(
    handler: Handler, seconds: float, error_handler: ErrorHandler = oauth_error_response
) -> Handler:
    """The same handler, which answers in time, and whose errors are answers."""

    async def guarding(request: Request) -> Response:
        try:
            async with asyncio.timeout(seconds):
                return await handler(request)
        except Exception as error:  # noqa: BLE001 - the boundary: no error's words reach the log
            return error_handler(request, _publishable(error))

    return guarding


async def _form_of(request: Request) -> bytes:
    if media_type(request.headers.get("content-type")) != _FORM:
        raise InvalidInput(f"Send the parameters as {_FORM}.")
    return await request.body()


def _publishable(error: Exception) -> CarrelError:
    """What may be said of an error; of one that is a bug of ours the log learns where it is."""
    if isinstance(error, CarrelError):
        return error
    if isinstance(error, TimeoutError):
        return Unavailable("The database does not answer right now.", retry_after=5)
    log.error("sign_in_failed", **error_fields(error))
    return PlatformFault("Something went wrong here. Try again later.")
