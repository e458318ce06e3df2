"""The official SDK on the functions framework, with a tool that returns its argument."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import functions_framework.aio
from mcp.server.mcpserver import MCPServer

if TYPE_CHECKING:
    from starlette.requests import Request


async def echo_text(text: str) -> dict[str, str]:
    """Return the text."""
    return {"text": text}


_server = MCPServer("echo")
_server.add_tool(echo_text)
_app = _server.streamable_http_app(json_response=True, stateless_http=True)
_started = asyncio.Event()
_lifespan_tasks: list[asyncio.Task[None]] = []
"""The task that runs the app's lifespan, once the first request has started it."""


async def _run_lifespan() -> None:
    """Run the app's lifespan, for which the functions framework has no hook."""
    async with _app.router.lifespan_context(_app):
        _started.set()
        await asyncio.Event().wait()


@functions_framework.aio.http
async def handle(_request: Request) -> Any:
    """Return the app, once it has started."""
    if not _lifespan_tasks:
        _lifespan_tasks.append(asyncio.create_task(_run_lifespan()))
    await _started.wait()
    return _app
