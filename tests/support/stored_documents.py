"""What stands in the database, document by document, and budgets for the jobs that put it there."""

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
    """Every document of a collection by its id, with the time of its last write."""
    found = ctx.database.client.collection(collection).stream()
    return {snapshot.id: snapshot async for snapshot in found}


async def documents(ctx: Context, collection: str) -> dict[str, dict[str, Any]]:
    """The fields of every document of a collection, by its id."""
    found = await snapshots(ctx, collection)
    return {name: snapshot.to_dict() or {} for name, snapshot in found.items()}


async def chunks(ctx: Context) -> dict[str, dict[str, Any]]:
    """The fields of every chunk that says something, by its id: those deleted say nothing."""
    found = await documents(ctx, "chunks")
    return {name: data for name, data in found.items() if "content" in data}


async def tombstones(ctx: Context) -> dict[str, dict[str, Any]]:
    """What is left of the chunks that were deleted, by their ids."""
    found = await documents(ctx, "chunks")
    return {name: data for name, data in found.items() if "deleted_at" in data}


async def chunks_by_content(ctx: Context) -> dict[str, dict[str, Any]]:
    """The fields of every chunk that says something, by what it says."""
    return {data["content"]: data for data in (await chunks(ctx)).values()}


async def leases(ctx: Context) -> set[str]:
    """The jobs whose lease is held."""
    return set(await documents(ctx, "leases"))


def ample() -> Budget:
    """More time than a test needs."""
    return Budget(time.monotonic() + 3600)


def nothing() -> Budget:
    """A budget that is spent already."""
    return Budget(-math.inf)


def one_step(progress: Callable[[int], None] = lambda _: None) -> Budget:
    """A budget that is spent as soon as something has been dealt with."""
    done: list[int] = []

    def deal(count: int) -> None:
        done.append(count)
        progress(count)

    class OneStep(Budget):
        @property
        def spent(self) -> bool:
            return bool(done)

    return OneStep(math.inf, deal)
