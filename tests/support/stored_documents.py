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
    """Return every document of a collection by its id, with the time of its last write."""
    results = ctx.database.client.collection(collection).stream()
    return {snapshot.id: snapshot async for snapshot in results}


async def documents(ctx: Context, collection: str) -> dict[str, dict[str, Any]]:
    """Return the fields of every document of a collection, by its id."""
    results = await snapshots(ctx, collection)
    return {name: snapshot.to_dict() or {} for name, snapshot in results.items()}


async def chunks(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every chunk that is not deleted, by id."""
    results = await documents(ctx, "chunks")
    return {name: data for name, data in results.items() if "content" in data}


async def tombstones(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the remains of deleted chunks, by id."""
    results = await documents(ctx, "chunks")
    return {name: data for name, data in results.items() if "deleted_at" in data}


async def chunks_by_content(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the fields of every chunk that is not deleted, by its text."""
    return {data["content"]: data for data in (await chunks(ctx)).values()}


async def leases(ctx: Context) -> set[str]:
    """Return the jobs whose lease is held."""
    return set(await documents(ctx, "leases"))


def ample_budget() -> Budget:
    """Return a budget with more time than a test needs."""
    return Budget(time.monotonic() + 3600)


def spent_budget() -> Budget:
    """Return a budget that is spent already."""
    return Budget(-math.inf)


def one_step(progress: Callable[[int], None] = lambda _: None) -> Budget:
    """Return a budget that is spent after the first item."""
    done: list[int] = []

    def deal(count: int) -> None:
        done.append(count)
        progress(count)

    class OneStep(Budget):
        @property
        def spent(self) -> bool:
            return bool(done)

    return OneStep(math.inf, deal)
