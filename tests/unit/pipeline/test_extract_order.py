"""Passages that are read at once: each decides in its turn, and nobody waits for one that left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.jobs.extract.reader import ReadingOrder
from shared.knowledge.queue import PendingChunk

pytestmark = pytest.mark.anyio


def chunk(name: str) -> PendingChunk:
    return PendingChunk(name, "s", "T", "C", "h", 0, None)


async def test_turns_come_in_order_whoever_is_ready_first() -> None:
    line, order = ReadingOrder(), list[str]()
    ready = asyncio.Event()

    async def read(name: str, until: asyncio.Event | None) -> None:
        async with line.stand(chunk(name)) as turn:
            if until:
                await until.wait()
            else:
                ready.set()
            await turn()
            order.append(name)

    await asyncio.gather(read("slow", ready), read("quick", None))
    assert ["slow", "quick"] == order


async def test_a_cancelled_run_ends_though_one_before_it_failed() -> None:
    line, never = ReadingOrder(), asyncio.Event()

    async def reads() -> None:
        async with line.stand(chunk("first")):
            await never.wait()

    async def fails() -> None:
        async with line.stand(chunk("second")):
            raise RuntimeError

    async def waits() -> None:
        async with line.stand(chunk("third")) as turn:
            await turn()

    standing: list[asyncio.Task[Any]] = [
        asyncio.create_task(each()) for each in (reads, fails, waits)
    ]
    await asyncio.sleep(0)
    for each in standing:
        each.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait(standing)
    assert all(each.done() for each in standing)
