"""The documents of a database, and budgets for jobs."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from shared.runtime.job import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.cloud.firestore import DocumentSnapshot

    from shared.runtime.context import Context


async def snapshots(ctx: Context, collection: str) -> dict[str, DocumentSnapshot[Any]]:
    """Return the snapshots of a collection's documents, by id."""
    stream = ctx.database.client.collection(collection).stream()
    return {snapshot.id: snapshot async for snapshot in stream}


async def documents(ctx: Context, collection: str) -> dict[str, dict[str, Any]]:
    """Return the fields of a collection's documents, by id."""
    by_id = await snapshots(ctx, collection)
    return {name: snapshot.to_dict() or {} for name, snapshot in by_id.items()}


async def chunks(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every chunk that is not deleted, by id."""
    by_id = await documents(ctx, "chunks")
    return {chunk_id: data for chunk_id, data in by_id.items() if "content" in data}


async def tombstones(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every deleted chunk whose document still exists, by id."""
    by_id = await documents(ctx, "chunks")
    return {chunk_id: data for chunk_id, data in by_id.items() if "deleted_at" in data}


async def chunks_by_content(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every chunk that is not deleted, by its text."""
    return {data["content"]: data for data in (await chunks(ctx)).values()}


async def leases(ctx: Context) -> set[str]:
    """Return the names of the jobs that have a lease."""
    return set(await documents(ctx, "leases"))


def ample_budget() -> Budget:
    """Return a budget with more time than a test needs."""
    return Budget(time.monotonic() + 3600)


def spent_budget() -> Budget:
    """Return a budget that is already spent."""
    return Budget(-math.inf)


def one_step(progress: Callable[[int], None] = lambda _: None) -> Budget:
    """Return a budget that is spent when the job reports its first progress."""
    reports: list[int] = []

    def record_progress(count: int) -> None:
        reports.append(count)
        progress(count)

    class OneStep(Budget):
        @property
        def spent(self) -> bool:
            return bool(reports)

    return OneStep(math.inf, record_progress)
