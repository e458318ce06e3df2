"""Authentication of requests to the MCP endpoint: a 401 is HTTP, not MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from functions.gateway.auth.callers import credential_in
from functions.gateway.auth.client_address import client_address
from functions.gateway.auth.public_url import challenge
from functions.gateway.http_errors import error_response, retry_after_header
from shared.core.caller import FULL_ACCESS
from shared.core.errors import CarrelError, Forbidden, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.gateway.auth.callers import Callers
    from functions.gateway.auth.visitor import Reply
    from shared.core.caller import Scope as CallerScope
    from shared.core.settings import Settings


_OF_PROXIES: Final = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)
_NOT_FROM_HERE: Final = (
    "Without signing in this server answers its own machine only, and a proxy sent this request."
    " Start it with `make run ARGS=--sign-in`."
)
_NO_CREDENTIAL: Final = "Or send none: this server needs no sign-in."


class Authentication:
    """Lets nobody through whom the gateway does not know."""

    def __init__(self, app: ASGIApp, settings: Settings, callers: Callers) -> None:
        """Let in whom `callers` knows."""
        self._app = app
        self._settings = settings
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its visitor, or say how to sign in."""
        headers = Headers(scope=scope)
        try:
            credential = credential_in(headers)
            if credential is None and self._settings.local_user and _is_forwarded(headers):
                raise Unauthorized(_NOT_FROM_HERE)
            address = client_address(scope, self._settings.proxy_count)
            visitor = await self._callers.identify(credential, address)
        except CarrelError as error:
            await self._refusal(error, headers)(scope, receive, send)
            return
        visitor.enter(scope)
        await self._app(scope, receive, self._with_reply(visitor.reply, send))

    def _refusal(self, error: CarrelError, headers: Headers) -> JSONResponse:
        if not isinstance(error, Unauthorized):
            return error_response(error)
        sent = "authorization" in headers or "x-api-key" in headers
        if self._settings.local_user:
            # 401 would have clients look for a sign-in, and open a browser for nothing.
            message = f"{error.message} {_NO_CREDENTIAL}" if sent else error.message
            return error_response(Forbidden(message))
        return error_response(
            error, self._challenge(FULL_ACCESS, "invalid_token" if sent else None)
        )

    def _challenge(self, scopes: Iterable[CallerScope], code: str | None) -> dict[str, str]:
        """The header that says how to sign in; none on a laptop, where nobody can."""
        if self._settings.local_user:
            return {}
        return {"www-authenticate": challenge(self._settings, scopes, code)}

    def _with_reply(self, reply: Reply, send: Send) -> Send:
        """Send an answer with what its handler wants of HTTP."""

        async def send_with_reply(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if reply.challenge:
                    message["status"], code, scopes = reply.challenge
                    headers.update(self._challenge(scopes, code))
                if reply.retry_after is not None:
                    headers["retry-after"] = retry_after_header(reply.retry_after)
            await send(message)

        return send_with_reply


def _is_forwarded(headers: Headers) -> bool:
    return any(name in headers for name in _OF_PROXIES)
