"""The parameters of OAuth requests, before the SDK's handlers read them.

Those take the last of several values, an empty value for a value, and any encoding of a form. RFC
6749 (3.1, 3.2) forbids the first and has the second mean nothing; the third has no use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.requests import Request

from shared.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.types import Message

_FORM: Final = "application/x-www-form-urlencoded"


async def parameters_of(request: Request) -> dict[str, str]:
    """The parameters of a request that have a value: from the query of a GET, or from a form.

    Raises:
        InvalidInput: One is there twice, or the body is no form.
    """
    pairs = request.query_params.multi_items()
    if request.method != "GET":
        pairs = [(name, str(value)) for name, value in await _form_of(request)]
    told = [(name, value) for name, value in pairs if value]
    names = {name for name, _ in told}
    if len(names) < len(told):
        raise InvalidInput("A parameter is there more than once.")
    return dict(told)


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


async def _form_of(request: Request) -> list[tuple[str, object]]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise InvalidInput(f"Send the parameters as {_FORM}.")
    form = await request.form()
    return list(form.multi_items())
