"""Passages that are read at the same time are stored in the order in which they were queued."""

import asyncio

from functions.jobs.extract.reader import ReadingOrder
from shared.knowledge.queue import PendingChunk


def make_chunk(name: str) -> PendingChunk:
    """Return a chunk that waits to be read, with this id."""
    return PendingChunk(name, "s", "T", "C", "h", 0, None)


async def test_passages_are_stored_in_order_whichever_is_ready_first() -> None:
    reading_order, stored = ReadingOrder(), list[str]()
    quick_one_was_read = asyncio.Event()

    async def read_slowly() -> None:
        async with reading_order.join(make_chunk("slow")) as wait_for_turn:
            await quick_one_was_read.wait()
            await wait_for_turn()
            stored.append("slow")

    async def read_quickly() -> None:
        async with reading_order.join(make_chunk("quick")) as wait_for_turn:
            quick_one_was_read.set()
            await wait_for_turn()
            stored.append("quick")

    await asyncio.gather(read_slowly(), read_quickly())
    assert stored == ["slow", "quick"]


async def test_a_cancelled_run_ends_although_one_reading_failed() -> None:
    reading_order = ReadingOrder()

    async def read_forever() -> None:
        async with reading_order.join(make_chunk("first")):
            await asyncio.Event().wait()

    async def fail() -> None:
        async with reading_order.join(make_chunk("second")):
            raise RuntimeError

    async def wait_for_the_first_two() -> None:
        async with reading_order.join(make_chunk("third")) as wait_for_turn:
            await wait_for_turn()

    readings = (read_forever, fail, wait_for_the_first_two)
    tasks = [asyncio.create_task(read()) for read in readings]
    await asyncio.sleep(0)  # lets each task begin, and the second one fail
    for task in tasks:
        task.cancel()

    async with asyncio.timeout(60):
        await asyncio.wait(tasks)
    assert all(task.done() for task in tasks)
