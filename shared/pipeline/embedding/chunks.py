"""Embeds all pending passages: in bulk if there are many, otherwise online."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.knowledge.queue import ChunkQueue
from shared.pipeline.embedding.bulk import BulkRun, make_bulk_services
from shared.pipeline.embedding.online import PAGE, STEP, embed_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.queue import PendingChunk
    from shared.pipeline.embedding.bulk import BulkServices
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def embed_chunks(ctx: Context, budget: Budget, report: Report) -> None:
    """Embed pending passages, in bulk if that is configured.

    Raises:
        CarrelError: The provider or the database is down, or misconfigured.
    """
    services = make_bulk_services(ctx.settings)
    if services is None:
        await embed_online(ctx, budget, report)
        return
    try:
        await embed_in_bulk(services, ctx, budget, report)
    finally:
        await services.aclose()


async def embed_in_bulk(
    services: BulkServices, ctx: Context, budget: Budget, report: Report
) -> None:
    """Embed pending passages in bulk while there are enough of them, and the rest online.

    Raises:
        CarrelError: The provider, Cloud Storage or the database is down, or misconfigured.
    """
    run = BulkRun(services, ctx, budget, report)
    while await run.process_task():
        pass
    if report.finished:
        await embed_online(ctx, budget, report)


async def embed_online(ctx: Context, budget: Budget, report: Report) -> None:
    """Embed pending passages with online requests.

    Raises:
        CarrelError: The provider or the database is down, or misconfigured.
    """

    async def load_page() -> Sequence[PendingChunk]:
        return await ChunkQueue(ctx.database).load_pending(STEP, ctx.clock(), PAGE)

    await embed_pages(load_page, ctx, budget, report)
