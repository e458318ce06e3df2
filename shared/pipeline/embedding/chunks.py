"""Giving all passages that wait for it a vector: in bulk where they are many, else text by text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.knowledge.queue import ChunkQueue
from shared.pipeline.embedding.bulk import BulkRun, bulk_of
from shared.pipeline.embedding.online import PAGE, STEP, embed_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.queue import PendingChunk
    from shared.pipeline.embedding.bulk import BulkServices
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def embed_chunks(ctx: Context, budget: Budget, report: Report) -> None:
    """Embed what waits, as the settings say.

    Raises:
        CarrelError: The provider or the database is down, or set up wrongly.
    """
    bulk = bulk_of(ctx.settings)
    if bulk is None:
        await embed_one_by_one(ctx, budget, report)
        return
    try:
        await embed_with(bulk, ctx, budget, report)
    finally:
        await bulk.aclose()


async def embed_with(bulk: BulkServices, ctx: Context, budget: Budget, report: Report) -> None:
    """Embed what waits, in bulk as long as that is worth while.

    Raises:
        CarrelError: The provider, Cloud Storage or the database is down, or set up wrongly.
    """
    run = BulkRun(bulk, ctx, budget, report)
    while await run.next_task():
        pass
    if report.finished:
        await embed_one_by_one(ctx, budget, report)


async def embed_one_by_one(ctx: Context, budget: Budget, report: Report) -> None:
    """Embed what waits, text by text.

    Raises:
        CarrelError: The provider or the database is down, or set up wrongly.
    """

    async def due() -> Sequence[PendingChunk]:
        return await ChunkQueue(ctx.database).pending(STEP, ctx.clock(), PAGE)

    await embed_pages(due, ctx, budget, report)
