"""The parameters of requests, from programs and from people: each once, or not at all.

The SDK's handlers take the last of several values, an empty value for a value, and any encoding of
a form. RFC 6749 (3.1, 3.2) forbids the first and has the second mean nothing; the third has no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

from functions.gateway.body_limits import BodyLimit
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

MOST_BYTES: Final = 64 * 1024
"""Of a request's body."""
_MOST_PARAMETERS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"


def bounded(app: ASGIApp) -> BodyLimit:
    """The same app, which takes small bodies only."""
    return BodyLimit(app, lambda _: MOST_BYTES)


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
