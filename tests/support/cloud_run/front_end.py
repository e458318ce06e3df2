"""A fake of Cloud Run's front end, which checks IAM before it forwards requests to functions.

It follows Google's documents:

- https://cloud.google.com/run/docs/authenticating/service-to-service: the audience of a token is
  the service's URL, and the function gets the token without its signature.
- https://cloud.google.com/run/docs/troubleshooting: the status is 401 for an invalid token, 403 for
  no token or an account without the role, and 503 for a broken connection to an instance.
- https://cloud.google.com/run/docs/configuring/request-timeout: the status is 504 on a timeout.
"""

import asyncio
from collections.abc import Mapping
from html import escape
from typing import Final

import httpx2
import jwt
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from tests.support.cloud_run.google_accounts import Accounts, format_email

REMOVED_SIGNATURE: Final = "SIGNATURE_REMOVED_BY_GOOGLE"
"""The text that replaces the signature of a token."""
_HOP_BY_HOP_HEADERS: Final = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade".split()
)
"""The headers that are about one connection, and are not forwarded (RFC 9110, section 7.6.1)."""
_PAGE: Final = """\
<html><head>
<meta http-equiv="content-type" content="text/html;charset=utf-8">
<title>{status} {reason}</title>
</head>
<body text=#000000 bgcolor=#ffffff>
<h1>Error: {reason}</h1>
<h2>{text}</h2>
<h2></h2>
</body></html>
"""
"""The page with which Google's front end reports an error."""


class Service(BaseModel):
    """A Cloud Run service of a function.

    Attributes:
        url: The public URL.
        function: The local URL of the function.
        invokers: The service accounts that may invoke the service.
        seconds: The timeout of a request.
    """

    url: str
    function: str
    invokers: tuple[str, ...]
    seconds: float


class FrontEnd:
    """Forwards requests to functions. Each service has its own port."""

    def __init__(self, services: Mapping[int, Service], accounts: Accounts) -> None:
        """Serve these services by port, and accept tokens of these accounts."""
        self._services = services
        self._accounts = accounts
        limits = httpx2.Limits(max_connections=None)
        self._functions = httpx2.AsyncHTTPTransport(limits=limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        service = self._services[scope["server"][1]]
        response = await self._answer(Request(scope, receive), service)
        await response(scope, receive, send)

    async def aclose(self) -> None:
        """Close the connections to functions."""
        await self._functions.aclose()

    async def _answer(self, request: Request, service: Service) -> Response:
        """Check the caller's token and role, and forward the request."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not token:
            return _answer_forbidden(request)
        try:
            caller = self._accounts.verify_token(token, service.url)
        except jwt.InvalidTokenError:
            return _answer_unauthorized(request)
        if scheme.lower() != "bearer":
            return _answer_unauthorized(request)
        if caller not in map(format_email, service.invokers):
            return _answer_forbidden(request)
        unsigned_authorization = f"{scheme} {token.rpartition('.')[0]}.{REMOVED_SIGNATURE}"
        return await self._forward(request, service, {"authorization": unsigned_authorization})

    async def _forward(
        self, request: Request, service: Service, replacements: Mapping[str, str]
    ) -> Response:
        """Forward a request with replaced headers, and return the function's response."""
        try:
            forwarded_request = httpx2.Request(
                request.method,
                service.function + _get_target(request),
                headers=_forward_headers(request, replacements),
                content=await request.body(),
            )
            async with asyncio.timeout(service.seconds):
                return await self._send(forwarded_request)
        except TimeoutError:
            return _render_page(504, "Gateway Timeout", "The request timed out.")
        except (httpx2.TransportError, ClientDisconnect):
            return _render_page(503, "Service Unavailable", "The connection to the instance broke.")

    async def _send(self, request: httpx2.Request) -> Response:
        answer = await self._functions.handle_async_request(request)
        try:
            content = b"".join([piece async for piece in answer.aiter_raw()])
        finally:
            await answer.aclose()
        response = Response(content, answer.status_code)
        response.raw_headers = [
            (name.lower(), value)
            for name, value in answer.headers.raw
            if name.lower() not in _HOP_BY_HOP_HEADERS
        ]
        return response


def _get_target(request: Request) -> str:
    query = request.scope["query_string"]
    path: bytes = request.scope["raw_path"]
    return (path + b"?" + query if query else path).decode("ascii")


def _forward_headers(
    request: Request, replacements: Mapping[str, str]
) -> list[tuple[bytes, bytes]]:
    """Return the received headers with replacements and the caller's address."""
    caller = request.client.host if request.client else ""
    forwarded_for = ", ".join([*request.headers.getlist("x-forwarded-for"), caller])
    new_headers = [
        (name.encode(), value.encode())
        for name, value in {
            **replacements,
            "x-forwarded-for": forwarded_for,
            "x-forwarded-proto": "https",
        }.items()
    ]
    omitted_names = _HOP_BY_HOP_HEADERS | {name for name, _ in new_headers}
    received_headers = [
        (name, value) for name, value in request.headers.raw if name not in omitted_names
    ]
    return [*received_headers, *new_headers]


def _answer_forbidden(request: Request) -> Response:
    address = f"URL <code>{escape(request.url.path)}</code> from this server."
    return _render_page(403, "Forbidden", f"Your client does not have permission to get {address}")


def _answer_unauthorized(request: Request) -> Response:
    address = f"URL <code>{escape(request.url.path)}</code>."
    page = _render_page(
        401, "Unauthorized", f"Your client does not have permission to the requested {address}"
    )
    message = "The access token could not be verified"
    page.headers["WWW-Authenticate"] = f'Bearer error="invalid_token" error_description="{message}"'
    return page


def _render_page(status: int, reason: str, text: str) -> Response:
    return HTMLResponse(_PAGE.format(status=status, reason=reason, text=text), status)
