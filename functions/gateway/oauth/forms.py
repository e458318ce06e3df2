"""The parameters of requests, from programs and from people: each once, or not at all.

The SDK's handlers take the last of several values, an empty value for a value, and any encoding of
a form. RFC 6749 (3.1, 3.2) forbids the first and has the second mean nothing; the third has no use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import Response

from shared.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES: Final = 64 * 1024
"""Of a request's body."""
REQUEST_SECONDS: Final = 20.0
"""How long a request may take, its body included: whoever drips one keeps an instance waiting."""
_MOST_PARAMETERS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"


class Bounded:
    """Reads no body of an app that is too large, and waits for none that drips in."""

    def __init__(self, app: ASGIApp, seconds: float = REQUEST_SECONDS) -> None:
        """Guard this app; a request may take so many seconds, its body included."""
        self._app = RequestBodyLimitMiddleware(app, MOST_BYTES)
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        began = False

        async def watch(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            async with asyncio.timeout(self._seconds):
                await self._app(scope, receive, watch)
        except TimeoutError:
            if not began:
                late = Response("This request took too long to arrive.", status_code=408)
                await late(scope, receive, send)


async def parameters_of(request: Request) -> dict[str, str]:
    """The parameters of a request that have a value: from the query of a GET, or from a form.

    Raises:
        InvalidInput: One is there twice, or the body is no form.
    """
    encoded = request.scope["query_string"] if request.method == "GET" else await _form_of(request)
    try:
        told = parse_qsl(encoded.decode(), max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise InvalidInput("The parameters cannot be read.") from None
    parameters = dict(told)
    if len(parameters) < len(told):
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


async def _form_of(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise InvalidInput(f"Send the parameters as {_FORM}.")
    return await request.body()
