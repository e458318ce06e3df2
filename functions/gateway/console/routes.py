"""The routes of the web console. The first request for a page imports the console's code.

A gateway that answers only programs never imports it, so its cold start stays the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.routing import Route

from functions.gateway.console.local_services import LocalServices

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.gateway.access import Access
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog

SECTIONS: Final = (
    "add",
    "changes",
    "sources",
    "passages",
    "clusters",
    "connect",
    "export",
    "map",
    "forgotten",
    "review",
    "save",
    "search",
    "session",
    "static",
    "you",
)
"""The first segments of the console's paths, except the home page `/`."""


class LazyConsole:
    """The console as an ASGI app that is imported and made for its first request."""

    def __init__(
        self,
        access: Access,
        catalog: Catalog,
        pipeline: CallPipeline,
        local: LocalServices | None = None,
    ) -> None:
        self._access = access
        self._catalog = catalog
        self._pipeline = pipeline
        self._local = local or LocalServices()

    def make_routes(self) -> list[Route]:
        """Make the routes of the console."""
        paths = ["/", *(f"/{section}{{rest:path}}" for section in SECTIONS)]
        return [Route(path, self) for path in paths]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # A program that posts to `/` lacks the path of MCP. The gateway's own 404 says so.
        if scope["path"] == "/" and scope["method"] not in {"GET", "HEAD"}:
            raise HTTPException(404)
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> ASGIApp:
        from functions.gateway.console.app import make_console_app

        return make_console_app(self._access, self._catalog, self._pipeline, self._local)
