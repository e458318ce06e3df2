"""Web sites on this machine, for a browser to go to."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from infra.local.processes import is_listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response


@asynccontextmanager
async def serving(
    app_at: Callable[[str], Starlette], *, certificate: Path | None = None
) -> AsyncIterator[str]:
    """Serve the app that `app_at` makes for its own address; yields that address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        url = f"{'https' if certificate else 'http'}://{host}"
        config = uvicorn.Config(
            app_at(url), log_level="critical", ssl_certfile=certificate, lifespan="off"
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve([listening]))
        assert await asyncio.to_thread(is_listening, host)
        yield url
        server.should_exit = True
        await running


def page(html: str) -> Starlette:
    """A site that answers everything with one page."""

    async def answer(_request: Request) -> Response:
        return HTMLResponse(f"<!doctype html><title>A site</title>{html}")

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


def way_to(address: str) -> Starlette:
    """A site that sends everybody on."""

    async def answer(_request: Request) -> Response:
        return RedirectResponse(address)

    return Starlette(routes=[Route("/{path:path}", answer)])
