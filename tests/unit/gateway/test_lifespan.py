"""The MCP app's lifespan, which the first request has to start."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette

from functions.gateway.app import Lifespan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


async def test_concurrent_requests_start_the_app_once_and_wait() -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        happened.append("starting")
        await asyncio.sleep(0)
        happened.append("started")
        yield

    async def request(running: Lifespan) -> None:
        await running.ensure_started()
        happened.append("answered")

    running = Lifespan(Starlette(lifespan=lifespan))
    await asyncio.gather(*(request(running) for _ in range(3)))
    await request(running)
    assert happened == ["starting", "started", *["answered"] * 4]


async def test_an_error_at_startup_is_raised_to_every_request() -> None:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        raise LookupError("no catalogue")
        yield

    running = Lifespan(Starlette(lifespan=lifespan))
    for _ in range(2):
        with pytest.raises(LookupError, match="no catalogue"):
            await running.ensure_started()


async def test_a_cancelled_first_request_does_not_stop_the_app() -> None:
    open_door = asyncio.Event()

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await open_door.wait()
        yield

    running = Lifespan(Starlette(lifespan=lifespan))
    first = asyncio.create_task(running.ensure_started())
    await asyncio.sleep(0)
    first.cancel()
    open_door.set()
    await asyncio.wait_for(running.ensure_started(), timeout=60)
