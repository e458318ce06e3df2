"""A block of sources into the database, with what it refuses put aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.knowledge.ingestion import Ingestion

if TYPE_CHECKING:
    from functions.jobs.ingest.batches import SourceBatch
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def save(
    block: SourceBatch, ctx: Context, budget: Budget, report: Report
) -> list[tuple[Source, str]]:
    """Write what differs, count it, and return what could not go in, each with the reason."""
    saved = await Ingestion(ctx.database).save_each(block.fit, ctx.clock())
    sources = (each.source for each in block.fit)
    refused = [
        (source, saved.refused[source.source_id])
        for source in sources
        if source.source_id in saved.refused
    ]
    report.counts += saved.counts
    report.counts["read"] += len(block.fit) - len(refused)
    budget.progress(len(block))
    return block.unfit + refused
