"""Deletes orphaned chunks and extractions, tombstones, and empty topics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep, continue_round
from shared.extractions.upkeep import ExtractionUpkeep, promote_duplicates
from shared.pipeline.orphaned_chunks import GRACE_PERIOD, PAGE, OrphanedChunks

if TYPE_CHECKING:
    from shared.firestore.database import Document
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def delete_orphaned_chunks(ctx: Context, budget: Budget, report: Report) -> None:
    """Check every chunk once a week. Costs one read for each chunk, and one for each source."""
    chunks = OrphanedChunks(ctx.database)

    async def process(position: str) -> str | None:
        page = await chunks.load_page(position)
        orphans = await chunks.find_without_source(page, ctx.clock())
        deleted = await chunks.delete(orphans, ctx.clock())
        report.counts += Counter(chunks=deleted)
        return page[-1].id if page else None

    await continue_round("chunks", process, ctx, budget, report)


async def delete_tombstones(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete chunks that were marked as deleted long ago and that the index job no longer retries.

    Chunks that are still pending stay, because the index job deletes them.
    """
    chunks = OrphanedChunks(ctx.database)
    before = ctx.clock() - GRACE_PERIOD
    last: Document | None = None
    while page := await chunks.load_tombstones(before, last):
        deleted = await chunks.delete_tombstones(page)
        report.counts += Counter(tombstones=deleted)
        if len(page) < PAGE:
            return
        last = page[-1]
        if budget.spent:
            report.finished = False
            return


async def _count_deletions(ctx: Context) -> int:
    return await ExtractionUpkeep(ctx.database).count_deletions()


async def delete_empty_topics(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete topics without extractions."""
    upkeep = ExtractionUpkeep(ctx.database)
    while deleted := await upkeep.delete_empty_topics():
        report.counts += Counter(topics=deleted)
        if budget.spent:
            report.finished = False
            return


async def delete_orphaned_extractions(ctx: Context, budget: Budget, report: Report) -> None:
    """Check every extraction once a week. Costs one read for each, and one for each chunk."""
    upkeep = ExtractionUpkeep(ctx.database)

    async def process(position: str) -> str | None:
        page = await upkeep.load_page(position)
        deleted = await upkeep.delete_orphans(await upkeep.find_orphans(page))
        report.counts += Counter(extractions=deleted)
        return page[-1].id if page else None

    await continue_round("extractions", process, ctx, budget, report)


CHUNKS: Final = Sweep("chunks", delete_orphaned_chunks)
TOMBSTONES: Final = Sweep("tombstones", delete_tombstones)
DUPLICATES: Final = Sweep("duplicates", promote_duplicates, _count_deletions)
TOPICS: Final = Sweep("topics", delete_empty_topics)
EXTRACTIONS: Final = Sweep("extractions", delete_orphaned_extractions)
