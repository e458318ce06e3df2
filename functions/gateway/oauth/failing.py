"""Answers to OAuth requests that cannot be served: JSON as its RFCs have it, and never a stack."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from functions.gateway.http_errors import retry_after_header
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, RateLimited, Unavailable
from shared.core.log import describe, log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    Handle = Callable[[Request], Awaitable[Response]]
    Refuse = Callable[[Request, CarrelError], Response]

ANSWER_SECONDS: Final = 10.0
"""How long a request may wait for the database, whose client alone would wait for minutes."""
NO_STORE: Final = {"cache-control": "no-store", "pragma": "no-cache"}
_CODES: Final[dict[type[CarrelError], str]] = {
    InvalidInput: "invalid_request",
    RateLimited: "temporarily_unavailable",
    Unavailable: "temporarily_unavailable",
}


def failure(status: int, code: str, description: str) -> JSONResponse:
    """An error as RFC 6749 (5.2), RFC 7009 and RFC 7591 have it."""
    body = {"error": code, "error_description": description}
    return JSONResponse(body, status_code=status, headers=NO_STORE)


def refuse(_request: Request, error: CarrelError) -> Response:
    """What a program learns of an error of ours."""
    answer = failure(error.status, _CODES.get(type(error), "server_error"), error.message)
    if error.retry_after is not None:
        answer.headers["retry-after"] = retry_after_header(error.retry_after)
    return answer


def guarded(handle: Handle, seconds: float, refuse: Refuse = refuse) -> Handle:
    """The same handler, which answers in time, and whose errors are answers."""

    async def guarding(request: Request) -> Response:
        try:
            async with asyncio.timeout(seconds):
                return await handle(request)
        except Exception as error:  # noqa: BLE001 - the boundary: no error's words reach the log
            return refuse(request, _told(error))

    return guarding


def _told(error: Exception) -> CarrelError:
    """What may be said of an error; of one that is a bug of ours the log learns where it is."""
    if isinstance(error, CarrelError):
        return error
    if isinstance(error, TimeoutError):
        return Unavailable("The database does not answer right now.", retry_after=5)
    log.error("sign_in_failed", **describe(error))
    return PlatformFault("Something went wrong here. Try again later.")
