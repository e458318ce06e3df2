"""Authentication of requests to the MCP endpoint, in HTTP, before the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from functions.gateway.auth.callers import read_credential
from functions.gateway.auth.client_address import get_client_address
from functions.gateway.auth.public_url import make_challenge
from functions.gateway.http_errors import format_retry_after, make_error_response
from shared.core.caller import FULL_ACCESS
from shared.core.errors import CarrelError, Forbidden, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.gateway.auth.callers import Callers
    from functions.gateway.auth.visitor import ResponseChanges
    from shared.core.caller import Scope as CallerScope
    from shared.core.settings import Settings


_PROXY_HEADERS: Final = frozenset(
    {
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
    }
)
_FORWARDED_MESSAGE: Final = (
    "Without sign-in, this server answers only its own machine, but this request came through a"
    " proxy. Start the server with `make run ARGS=--sign-in`."
)
_NOT_NEEDED_HINT: Final = "You can leave the credential out: this server needs no sign-in."


class Authentication:
    """Middleware that attaches the visitor to a request, or answers 401."""

    def __init__(self, app: ASGIApp, settings: Settings, callers: Callers) -> None:
        self._app = app
        self._settings = settings
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its visitor, or answer with an error."""
        headers = Headers(scope=scope)
        try:
            credential = read_credential(headers)
            if credential is None:
                require_direct(headers, self._settings)
            address = get_client_address(scope, self._settings.proxy_count)
            visitor = await self._callers.identify(credential, address)
        except CarrelError as error:
            await self._make_error_response(error, headers)(scope, receive, send)
            return
        visitor.attach(scope)
        await self._app(scope, receive, self._wrap_send(visitor.response, send))

    def _make_error_response(self, error: CarrelError, headers: Headers) -> JSONResponse:
        if not isinstance(error, Unauthorized):
            return make_error_response(error)
        has_credential = "authorization" in headers or "x-api-key" in headers
        if self._settings.local_user:
            # After a 401, clients would look for a sign-in and open a browser for nothing.
            message = f"{error.message} {_NOT_NEEDED_HINT}" if has_credential else error.message
            return make_error_response(Forbidden(message))
        code = "invalid_token" if has_credential else None
        return make_error_response(error, self._make_challenge_header(FULL_ACCESS, code))

    def _make_challenge_header(
        self, scopes: Iterable[CallerScope], code: str | None
    ) -> dict[str, str]:
        """Return the header that says how to sign in, or none on a laptop without sign-in."""
        if self._settings.local_user:
            return {}
        return {"www-authenticate": make_challenge(self._settings, scopes, code)}

    def _wrap_send(self, changes: ResponseChanges, send: Send) -> Send:
        """Wrap `send` so that it applies the handler's changes to the response."""

        async def send_with_changes(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if changes.challenge:
                    message["status"] = changes.challenge.status
                    headers.update(
                        self._make_challenge_header(
                            changes.challenge.scopes, changes.challenge.error
                        )
                    )
                if changes.retry_after is not None:
                    headers["retry-after"] = format_retry_after(changes.retry_after)
            await send(message)

        return send_with_changes


def require_direct(headers: Headers, settings: Settings) -> None:
    """Check that a request without a credential did not come through a proxy to a laptop.

    A laptop's server requires no sign-in, so only its own machine may use it.

    Raises:
        Unauthorized: This server requires no sign-in, and the request came through a proxy.
    """
    if settings.local_user and not _PROXY_HEADERS.isdisjoint(headers.keys()):
        raise Unauthorized(_FORWARDED_MESSAGE)
