"""Serves web sites on this machine, for the browser of a test to visit."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from infra.local.processes import is_listening


@asynccontextmanager
async def serve_app(
    make_app: Callable[[str], Starlette], *, certificate: Path | None = None
) -> AsyncIterator[str]:
    """Serve an app on a free port, and yield its URL.

    Args:
        make_app: A function that makes the app for its URL.
        certificate: The key and certificate of the server, as PEM; None for plain HTTP.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        url = f"{'https' if certificate else 'http'}://{host}"
        config = uvicorn.Config(
            make_app(url), log_level="critical", ssl_certfile=certificate, lifespan="off"
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        assert await asyncio.to_thread(is_listening, host)
        try:
            yield url
        finally:
            server.should_exit = True
            await task


def make_site(html: str) -> Starlette:
    """Make a site that answers every request with this page."""

    async def answer(_request: Request) -> Response:
        return HTMLResponse(f"<!doctype html><title>A site</title>{html}")

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


def make_redirecting_site(address: str) -> Starlette:
    """Make a site that redirects every request to an address."""

    async def answer(_request: Request) -> Response:
        return RedirectResponse(address)

    return Starlette(routes=[Route("/{path:path}", answer)])
