"""Passages of a batch are stored in order, and a cancelled one does not block the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.jobs.extract.reader import ReadingOrder
from shared.knowledge.queue import PendingChunk

pytestmark = pytest.mark.anyio


def make_chunk(name: str) -> PendingChunk:
    return PendingChunk(name, "s", "T", "C", "h", 0, None)


async def test_turns_are_in_order_whichever_is_ready_first() -> None:
    turns, order = ReadingOrder(), list[str]()
    ready = asyncio.Event()

    async def read(name: str, until: asyncio.Event | None) -> None:
        async with turns.join(make_chunk(name)) as turn:
            if until:
                await until.wait()
            else:
                ready.set()
            await turn()
            order.append(name)

    await asyncio.gather(read("slow", ready), read("quick", None))
    assert order == ["slow", "quick"]


async def test_a_cancelled_run_ends_after_an_earlier_failure() -> None:
    turns, never = ReadingOrder(), asyncio.Event()

    async def reads() -> None:
        async with turns.join(make_chunk("first")):
            await never.wait()

    async def fails() -> None:
        async with turns.join(make_chunk("second")):
            raise RuntimeError

    async def waits() -> None:
        async with turns.join(make_chunk("third")) as turn:
            await turn()

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(read()) for read in (reads, fails, waits)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait(tasks)
    assert all(task.done() for task in tasks)
