"""The routes of the web console, whose code is imported with the first page that is requested.

A gateway that only answers programs never imports it, so its cold start stays the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.gateway.access import Access
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog

SECTIONS: Final = (
    *("sources", "passages", "clusters", "map", "forgotten"),
    *("session", "static", "you"),
)
"""The first part of each path below `/` that is the console's."""


def console_routes(access: Access, catalog: Catalog, pipeline: CallPipeline) -> list[Route]:
    """Make the routes of the console."""
    console = LazyConsole(access, catalog, pipeline)
    paths = ["/", *(f"/{section}{{rest:path}}" for section in SECTIONS)]
    return [Route(path, console) for path in paths]


class LazyConsole:
    """The console as an ASGI app that is imported and made for its first request."""

    def __init__(self, access: Access, catalog: Catalog, pipeline: CallPipeline) -> None:
        """Store what the console is made of."""
        self._access = access
        self._catalog = catalog
        self._pipeline = pipeline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        # A program that posts to the first page lacks the path of MCP, as the gateway's 404 says.
        if scope["path"] == "/" and scope["method"] not in {"GET", "HEAD"}:
            raise HTTPException(404)
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> ASGIApp:
        from functions.gateway.console.app import console_app

        return console_app(self._access, self._catalog, self._pipeline)
