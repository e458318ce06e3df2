"""Runs the scheduler of a laptop in the test's process, and waits for what it does."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from functions.jobs.ingest.folder import ingest_confirmed, set_watched
from infra.local import folder_watch, local_database, scheduler
from infra.local.scheduler import Scheduler
from shared.knowledge.followed_folders import Root, load_folders
from shared.runtime.context import App, Context
from tests.support.jobs import make_ample_budget
from tests.support.stored_documents import read_chunk_texts, read_documents

DEADLINE_SECONDS: Final = 60
"""What takes this long does not happen, even on a busy machine."""


def hurry(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    """Use an own state folder, and wait only for moments."""
    state.mkdir(exist_ok=True)
    monkeypatch.setattr(local_database, "STATE", state)
    monkeypatch.setattr(scheduler, "_START_SECONDS", 0)
    monkeypatch.setattr(scheduler, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(scheduler, "_ERROR_SECONDS", 0.02)
    monkeypatch.setattr(folder_watch, "SETTLE_SECONDS", 0.2)


@asynccontextmanager
async def run_scheduler(app: App) -> AsyncIterator[Scheduler]:
    """Run a scheduler while the block runs."""
    running = Scheduler(app)
    running.start()
    try:
        yield running
    finally:
        await running.aclose()


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await condition():  # noqa: ASYNC110 - other processes may fulfil it
            await asyncio.sleep(0.02)


async def wait_for_texts(ctx: Context, *texts: str) -> None:
    """Wait until these are the texts of all passages, and all of them are searchable."""

    async def are_stored() -> bool:
        if await read_chunk_texts(ctx) != sorted(texts):
            return False
        chunks = await read_documents(ctx, "chunks")
        return not any("index" in chunk.get("pending", {}) for chunk in chunks.values())

    await wait_until(are_stored)


async def follow(ctx: Context, folder: Path) -> None:
    """Ingest a folder, as the command does."""
    await set_watched(folder, ctx.database, watched=True)
    await ingest_confirmed(str(folder), frozenset(), ctx, make_ample_budget())


async def load_folder(ctx: Context) -> Root:
    """Return what is registered of the only folder."""
    [root] = await load_folders(ctx.database)
    return root


async def count_runs(ctx: Context) -> Counter[str]:
    """Count the runs that have ended, by job."""
    runs = (await read_documents(ctx, "runs")).values()
    return Counter(run["job"] for run in runs if run["state"] != "running")


async def count_reads(ctx: Context) -> int:
    """Count the runs of `ingest` that have read texts."""
    runs = (await read_documents(ctx, "runs")).values()
    return sum(run["job"] == "ingest" and "read" in run["counts"] for run in runs)
