"""The ASGI app: routes, middleware and health, and the lifespan that nobody else starts."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import functions_framework.aio
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from functions.gateway.access import Access
from functions.gateway.auth.middleware import Authentication
from functions.gateway.auth.public_url import RESOURCE_PATH, hosts_of, origins_of
from functions.gateway.auth.visitor import visitor_in
from functions.gateway.body_limits import BodyLimit, json_problem
from functions.gateway.http_errors import ErrorMiddleware, json_rpc_error
from functions.gateway.mcp.messages import CheckedMessages
from functions.gateway.mcp.server import mcp_server
from functions.gateway.oauth.routes import sign_in_routes
from functions.gateway.rate_limits import AddressRateLimit
from shared.core.http import media_type
from shared.core.log import bind_trace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.lowlevel import Server
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.gateway.calls.dispatch import Dispatcher
    from functions.gateway.catalog import Catalog
    from shared.core.settings import Settings

    Handler = Callable[[Request], Awaitable[ASGIApp]]

MAX_ANONYMOUS_BYTES: Final = 64 * 1024
"""Bytes of a body that somebody sends without signing in."""
GOOD_SECONDS: Final = 30.0
"""How long all parts, once seen to be well, are taken to be so: a look wakes every function."""
BAD_SECONDS: Final = 1.0
"""How long they are taken not to be, once one was seen to be ill."""
_SEND_LESS: Final = (
    "Send less at once: bring long materials in several calls with one task_id, and ask with the"
    ' scope "task". Whoever runs this server sets the limit by MAX_REQUEST_BYTES, up to the'
    " 33,554,432 that Cloud Run takes."
)


# The SDK quotes the Host and Origin that it refuses: what strangers send does not go into the log.
logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)


def gateway(settings: Settings, dispatcher: Dispatcher, catalog: Catalog) -> Handler:
    """Make the Cloud Function, which offers what the catalogue holds."""
    access = Access(settings)
    server = mcp_server(catalog, access.calls(dispatcher))
    return as_function(mcp_app(access, dispatcher, server))


def as_function(app: Starlette) -> Handler:
    """Make an ASGI app a Cloud Function: every request is answered by handing it to the app."""
    lifespan = Lifespan(app)

    async def handle(_request: Request) -> ASGIApp:
        await lifespan.started()
        return app

    # The framework's types know responses only, but what it awaits may be any ASGI app.
    return cast("Handler", functions_framework.aio.http(cast("Any", handle)))


def mcp_app(access: Access, dispatcher: Dispatcher, server: Server[Any]) -> Starlette:
    """The ASGI app: `/mcp`, without sessions and with JSON answers, sign-in, and `/health`."""
    settings, health = access.settings, Health(dispatcher)

    app = server.streamable_http_app(
        streamable_http_path=RESOURCE_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_request_bytes,
        transport_security=_security(settings),
        custom_starlette_routes=[
            Route("/health", health.answer, methods=["GET"]),
            *([] if settings.local_user else sign_in_routes(access)),
        ],
    )
    app.add_exception_handler(404, partial(_not_found, needs_sign_in=not settings.local_user))
    # A redirect would quote a Host that nobody has checked.
    app.router.redirect_slashes = False
    # At the route itself: whatever address leads there, `/mcp%0A` too, passes the guards.
    [endpoint] = [
        route for route in app.routes if isinstance(route, Route) and route.path == RESOURCE_PATH
    ]
    endpoint.app = _guarded(endpoint.app, access)
    if not settings.local_user:
        app.add_middleware(
            AddressRateLimit, a_minute=settings.requests_per_minute, proxies=settings.proxy_count
        )
    app.add_middleware(ErrorMiddleware)
    app.add_middleware(Tracing, project=settings.google_cloud_project)
    return app


def _guarded(endpoint: ASGIApp, access: Access) -> ASGIApp:
    """Let web pages of allowed origins ask, then posts through, then whom the gateway knows."""
    limit = access.settings.max_request_bytes
    sign_in = f"Sign in to send up to {limit:,}."

    def knows(scope: Scope) -> bool:
        return visitor_in(scope).caller.user_id is not None

    body = BodyLimit(
        CheckedMessages(endpoint),
        max_bytes=lambda scope: limit if knows(scope) else MAX_ANONYMOUS_BYTES,
        advice=lambda scope: _SEND_LESS if knows(scope) else sign_in,
        problem_in=json_problem,
    )
    return CORSMiddleware(
        OnlyPosts(Authentication(body, access.settings, access.callers)),
        allow_origins=access.settings.allowed_origins,
        allow_methods=["POST"],
        allow_headers=["*"],
        expose_headers=["www-authenticate", "retry-after"],
    )


def _not_found(_request: Request, _error: Exception, *, needs_sign_in: bool) -> JSONResponse:
    """Clients that look for a sign-in where there is none come here, and go on without one."""
    message = "There is nothing at this address. The URL for MCP clients ends with /mcp."
    return json_rpc_error(404, message if needs_sign_in else f"{message} It needs no sign-in.")


class Lifespan:
    """Runs an ASGI app's lifespan beside its requests.

    The functions framework offers no lifespan hook, but the MCP app must be started before its
    first request. It is entered and left in a task of its own, as its task group demands.
    """

    def __init__(self, app: Starlette) -> None:
        """Start nothing yet: there is no event loop before the first request."""
        self._app = app
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def started(self) -> None:
        """Return once the app has started; raise what kept it from starting."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="lifespan")
        if not self._ready.is_set():
            ready = asyncio.create_task(self._ready.wait())
            await asyncio.wait({ready, self._running}, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
        if self._running.done():
            self._running.result()

    async def _run(self) -> None:
        async with self._app.router.lifespan_context(self._app):
            self._ready.set()
            await asyncio.Event().wait()


class OnlyPosts:
    """Answers what no MCP client means before it reaches the protocol, in words.

    Without sessions there is no stream to open with `GET` and nothing to end with `DELETE`; a
    stream would keep an instance busy for nothing.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Guard this app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say what to send instead."""
        await (_refusal(scope) or self._app)(scope, receive, send)


def _refusal(scope: Scope) -> JSONResponse | None:
    if scope["method"] != "POST":
        message = "This is an MCP endpoint: add its URL to an MCP client. It takes POST only."
        return json_rpc_error(405, message, {"allow": "POST"})
    if media_type(Headers(scope=scope).get("content-type")) != "application/json":
        return json_rpc_error(415, "Send the JSON-RPC message with Content-Type: application/json.")
    return None


def _security(settings: Settings) -> TransportSecuritySettings:
    """Answer to the public address only: another Host or Origin is a rebinding attack."""
    return TransportSecuritySettings(
        allowed_hosts=hosts_of(settings),
        allowed_origins=[*origins_of(settings), *settings.allowed_origins],
    )


class Health:
    """What `/health` answers. Anybody may ask and a look costs calls: news is kept for a while."""

    def __init__(
        self, dispatcher: Dispatcher, *, good: float = GOOD_SECONDS, bad: float = BAD_SECONDS
    ) -> None:
        """Look through this dispatcher, and keep good and bad news for so many seconds."""
        self._dispatcher = dispatcher
        self._lifetimes = {True: good, False: bad}
        self._fresh_until = -math.inf
        self._parts: dict[str, str] = {}
        self._one_look = asyncio.Lock()

    async def answer(self, _request: Request) -> JSONResponse:
        """200 if all parts are well, else 503, and what each says of itself."""
        async with self._one_look:
            if time.monotonic() > self._fresh_until:
                self._parts = await self._dispatcher.health()
                self._fresh_until = time.monotonic() + self._lifetimes[self._is_well()]
            well = self._is_well()
        body = {"status": "ok" if well else "degraded", "parts": self._parts}
        return JSONResponse(body, status_code=200 if well else 503)

    def _is_well(self) -> bool:
        return all(state == "ok" for state in self._parts.values())


class Tracing:
    """Binds an app's requests to their traces. It goes around all other middleware."""

    def __init__(self, app: ASGIApp, project: str) -> None:
        """Show traces as those of this Google Cloud project."""
        self._app = app
        self._project = project

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; what is started for it inherits its trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with bind_trace(Headers(scope=scope), self._project):
            await self._app(scope, receive, send)
