"""The gateway's ASGI app: routes, middleware and health."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final, cast

import functions_framework.aio
import httpx2
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from functions.gateway.access import Access
from functions.gateway.auth.middleware import Authentication
from functions.gateway.auth.public_url import RESOURCE_PATH, list_mcp_hosts, list_own_origins
from functions.gateway.auth.visitor import get_attached_visitor
from functions.gateway.body_limits import BodyLimit, find_json_problem
from functions.gateway.console.routes import LazyConsole
from functions.gateway.http_errors import ErrorMiddleware, accepts_page, make_json_rpc_error
from functions.gateway.mcp.endpoint import SECURITY_MESSAGES, McpEndpoint
from functions.gateway.mcp.selection import SelectedServers
from functions.gateway.oauth.consent_page import make_message_page
from functions.gateway.oauth.routes import make_sign_in_routes
from functions.gateway.rate_limits import AddressRateLimit
from shared.core import telemetry
from shared.core.errors import InvalidInput, NotFound
from shared.core.http import parse_media_type
from shared.core.log import bind_trace
from shared.core.telemetry import SpanKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from functions.gateway.calls.dispatch import Dispatcher
    from functions.gateway.catalog import Catalog
    from functions.gateway.console.local_services import LocalServices
    from functions.gateway.mcp.endpoint import FindServer
    from shared.core.settings import Settings
    from shared.core.telemetry import TraceSpan

    Handler = Callable[[Request], Awaitable[ASGIApp]]

MAX_ANONYMOUS_BYTES: Final = 64 * 1024
"""The maximum size of a request's body without sign-in, in bytes."""
HEALTHY_TTL_SECONDS: Final = 30.0
"""How long a healthy state is cached, because a check starts an instance of every function."""
UNHEALTHY_TTL_SECONDS: Final = 1.0
"""How long an unhealthy state is cached. It is short, so that a recovery shows soon."""
_HTTP_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""The methods that spans name. Others are recorded as `_OTHER`, because they may be any text."""
MAX_REQUEST_BYTES: Final = 8 * 1024 * 1024
"""The largest request body of a signed-in caller. 2,000,000 characters of 4 bytes each fit."""
_SEND_LESS_ADVICE: Final = (
    "Send less in one request: provide long materials in several calls with the same task_id, then"
    ' ask with the scope "task".'
)


# The SDK logs the Host and Origin that it rejects, which are untrusted text.
logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)


def make_gateway(
    settings: Settings,
    dispatcher: Dispatcher,
    catalog: Catalog,
    local: LocalServices | None = None,
) -> Handler:
    """Make the Cloud Function that serves the tools of this catalogue.

    Args:
        local: What the console can do on a machine with the files and the database.
    """
    telemetry.start(settings, "gateway")
    access = Access(settings)
    pipeline = access.make_pipeline(dispatcher)
    servers = SelectedServers(catalog, pipeline, catalog.list_default_groups(settings))
    console = LazyConsole(access, catalog, pipeline, local) if settings.console else None
    return wrap_as_function(make_mcp_app(access, dispatcher, servers.find, console))


def wrap_as_function(app: Starlette) -> Handler:
    """Wrap an ASGI app as a Cloud Function that passes every request to the app.

    To be called last at the start of a process: it exempts all existing objects from garbage
    collection.
    """
    # The garbage collector need not traverse objects that live as long as the process.
    gc.freeze()

    async def handle(request: Request) -> ASGIApp:
        # White space around a header's value is not a part of it, but httptools leaves it there. A
        # host's case means nothing (RFC 9110, 5.5 and 4.2.3).
        request.scope["headers"] = [
            (name, value.strip().lower() if name == b"host" else value.strip())
            for name, value in request.scope["headers"]
        ]
        return app

    # The framework's types allow only responses, but it accepts any ASGI app.
    return cast("Handler", functions_framework.aio.http(cast("Any", handle)))


def make_mcp_app(
    access: Access,
    dispatcher: Dispatcher,
    find_server: FindServer,
    console: LazyConsole | None = None,
) -> Starlette:
    """Make the ASGI app: a stateless `/mcp` with JSON responses, sign-in, `/health`, and pages."""
    settings = access.settings
    security = TransportSecuritySettings(  # others are DNS rebinding attacks
        allowed_hosts=list_mcp_hosts(settings),
        allowed_origins=[*list_own_origins(settings), *settings.allowed_origins],
    )
    endpoint = McpEndpoint(find_server, security)
    guarded_endpoint = _guard_endpoint(endpoint, access)
    health = HealthEndpoint(dispatcher, embedding=settings.embedding_provider)
    needs_sign_in = not settings.local_user
    app = Starlette(
        routes=[
            Route(RESOURCE_PATH, guarded_endpoint),
            # A redirect would repeat an unverified Host.
            Route(f"{RESOURCE_PATH}/", guarded_endpoint),
            Route("/health", health.answer, methods=["GET"]),
            *(_make_proof_route(name, text) for name, text in settings.proof_files.items()),
            *(make_sign_in_routes(access) if needs_sign_in else []),
            *(console.make_routes() if console else []),
        ],
        exception_handlers={404: _make_not_found_handler(console, needs_sign_in=needs_sign_in)},
    )
    # A redirect would repeat an unverified Host.
    app.router.redirect_slashes = False
    if needs_sign_in:
        app.add_middleware(
            AddressRateLimit, per_minute=settings.requests_per_minute, proxies=settings.proxy_count
        )
    app.add_middleware(ErrorMiddleware)
    # The middleware that is added last is the outermost.
    app.add_middleware(Tracing, project=settings.google_cloud_project)
    return app


def _make_proof_route(name: str, text: str) -> Route:
    """Make the route of a file by which the operator proves that they own this address."""
    response = PlainTextResponse(text, headers={"x-content-type-options": "nosniff"})
    return Route(f"/.well-known/{name}", lambda _: response, methods=["GET"])


def _guard_endpoint(endpoint: ASGIApp, access: Access) -> ASGIApp:
    """Wrap the endpoint in checks, from CORS and the kind of request to sign-in and body."""
    sign_in_advice = f"Sign in to send up to {MAX_REQUEST_BYTES:,} bytes."

    def is_signed_in(scope: Scope) -> bool:
        return get_attached_visitor(scope).caller.user_id is not None

    body = BodyLimit(
        endpoint,
        max_bytes=lambda scope: MAX_REQUEST_BYTES if is_signed_in(scope) else MAX_ANONYMOUS_BYTES,
        advice=lambda scope: _SEND_LESS_ADVICE if is_signed_in(scope) else sign_in_advice,
        find_problem=find_json_problem,
    )
    return CrossOrigin(
        JsonPostOnly(Authentication(body, access.settings, access.callers)),
        allow_origins=access.settings.allowed_origins,
        # A page is to read the answer to the methods that are refused: a preflight that fails looks
        # like a broken network, a status of 405 like an endpoint without streams and sessions.
        allow_methods=["POST", "GET", "DELETE"],
        allow_headers=["*"],
        expose_headers=["www-authenticate", "retry-after", "mcp-session-id"],
    )


def _make_not_found_handler(
    console: LazyConsole | None, *, needs_sign_in: bool
) -> Callable[[Request, Exception], Response]:
    """Make the handler of unknown addresses: a page for browsers, otherwise an error in JSON.

    Clients that look for metadata take it as a sign that no sign-in is needed.
    """
    message = "This address does not exist. The URL for MCP clients ends with /mcp."
    if not needs_sign_in:
        message += " It needs no sign-in."

    def answer(request: Request, _error: Exception) -> Response:
        if not _is_from_browser(request):
            return make_json_rpc_error(404, message)
        if console is None:
            return make_message_page("There is nothing here", NotFound(message))
        return cast("Response", console)  # Starlette awaits it like any other ASGI app

    return answer


def _is_from_browser(request: Request) -> bool:
    """Return whether a person has opened the address, and not a program called it."""
    return request.method == "GET" and accepts_page(request)


class CrossOrigin(CORSMiddleware):
    """CORS for web pages. Other clients send no `Origin`, and get no CORS headers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with CORS if it comes from a web page."""
        app = super().__call__ if "origin" in Headers(scope=scope) else self.app
        await app(scope, receive, send)

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight request. If the origin is not allowed, say what allows it."""
        if not self.is_allowed_origin(request_headers["origin"]):
            return make_json_rpc_error(400, SECURITY_MESSAGES[403])
        return super().preflight_response(request_headers)


class JsonPostOnly:
    """Middleware that rejects requests that are not JSON posts, with an explanation.

    A stateless endpoint has no stream to open with `GET` and no session to end with `DELETE`; a
    stream would occupy an instance for nothing.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with an explanation."""
        app = _reject_unless_json_post(scope) or self._app
        await app(scope, receive, send)


def _reject_unless_json_post(scope: Scope) -> Response | None:
    """Return the error response to a request that is not a JSON post, otherwise None."""
    if scope["method"] != "POST":
        message = "This is an MCP endpoint: add its URL to an MCP client. It accepts only POST."
        response: Response = make_json_rpc_error(405, message, {"allow": "POST"})
        if _is_from_browser(Request(scope)):
            response = make_message_page("This address is for programs", InvalidInput(message))
            response.status_code = 405
            response.headers["allow"] = "POST"
        return response
    if parse_media_type(Headers(scope=scope).get("content-type")) != "application/json":
        return make_json_rpc_error(
            415, "Send the JSON-RPC message with Content-Type: application/json."
        )
    return None


class HealthEndpoint:
    """`/health`, which is cached because it is public and each check calls every function."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        embedding: str,
        healthy_ttl: float = HEALTHY_TTL_SECONDS,
        unhealthy_ttl: float = UNHEALTHY_TTL_SECONDS,
    ) -> None:
        self._dispatcher = dispatcher
        self._about = {"service": "carrel", "embedding": embedding}
        self._healthy_ttl = healthy_ttl
        self._unhealthy_ttl = unhealthy_ttl
        self._fresh_until = -math.inf
        self._parts: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def answer(self, _request: Request) -> JSONResponse:
        """Answer 200 if all parts are healthy, else 503, with the state of each part.

        The name of the service and of its embedding provider let programs recognize it.
        """
        async with self._lock:
            if time.monotonic() > self._fresh_until:
                self._parts = await self._dispatcher.health()
                ttl = self._healthy_ttl if self._is_healthy() else self._unhealthy_ttl
                self._fresh_until = time.monotonic() + ttl
            is_healthy = self._is_healthy()
        status = "ok" if is_healthy else "degraded"
        body = {"status": status, **self._about, "parts": self._parts}
        return JSONResponse(body, status_code=200 if is_healthy else 503)

    def _is_healthy(self) -> bool:
        return all(state == "ok" for state in self._parts.values())


class Tracing:
    """The outermost middleware, which binds each request to its trace, and records its span."""

    def __init__(self, app: ASGIApp, project: str) -> None:
        """Attribute traces to this Google Cloud project."""
        self._app = app
        self._project = project

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. Tasks that start while it is handled inherit its trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _HTTP_METHODS else "_OTHER"
        with (
            bind_trace(Headers(scope=scope), self._project),
            telemetry.span(method, {"http.request.method": method}, kind=SpanKind.SERVER) as span,
        ):

            async def export_and_send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _end_span(span, scope, method, message["status"])
                    # After the response, Cloud Run may take the CPU from this instance.
                    await telemetry.flush()
                await send(message)

            await self._app(scope, receive, export_and_send if telemetry.is_on() else send)


def _end_span(span: TraceSpan, scope: Scope, method: str, status: int) -> None:
    """End the span of a request, by OpenTelemetry's conventions for HTTP servers.

    The route is recorded, not the path, which may be any text.
    """
    route = scope.get("route")
    if isinstance(route, Route):
        span.rename(f"{method} {route.path_format}")
        span.set({"http.route": route.path_format})
    span.set({"http.response.status_code": status})
    if httpx2.codes.is_server_error(status):
        span.fail(str(status))
    span.end()
