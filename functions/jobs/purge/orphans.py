"""Delete orphans: chunks and extractions that hang on nothing, tombstones, empty topics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep, go_round
from shared.extractions.upkeep import ExtractionUpkeep, promote_duplicates
from shared.pipeline.orphaned_chunks import PAGE, SETTLED, OrphanedChunks

if TYPE_CHECKING:
    from shared.firestore.database import Document
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def delete_orphans(ctx: Context, budget: Budget, report: Report) -> None:
    """Look at every chunk once a week: one read for it, and one for its source."""
    leftovers = OrphanedChunks(ctx.database)

    async def look(place: str) -> str | None:
        page = await leftovers.chunks(place)
        orphans = await leftovers.without_source(page, ctx.clock())
        deleted = await leftovers.delete_chunks(orphans, ctx.clock())
        report.counts += Counter(chunks=deleted)
        return page[-1].id if page else None

    await go_round("chunks", look, ctx, budget, report)


async def forget_tombstones(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete what is left of chunks that were deleted long ago and that the index job gave up.

    Those that still wait for it stay: it takes them out as soon as it runs.
    """
    leftovers, before = OrphanedChunks(ctx.database), ctx.clock() - SETTLED
    last: Document | None = None
    while page := await leftovers.tombstones(before, last):
        forgotten = await leftovers.forget(page)
        report.counts += Counter(tombstones=forgotten)
        if len(page) < PAGE:
            return
        last = page[-1]
        if budget.spent:
            report.finished = False
            return


CHUNKS: Final = Sweep("chunks", delete_orphans)
TOMBSTONES: Final = Sweep("tombstones", forget_tombstones)


async def _count_gone(ctx: Context) -> int:
    return await ExtractionUpkeep(ctx.database).count_deletions()


async def forget_topics(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete topics of which nothing is left."""
    upkeep = ExtractionUpkeep(ctx.database)
    while forgotten := await upkeep.delete_empty_topics():
        report.counts += Counter(topics=forgotten)
        if budget.spent:
            report.finished = False
            return


async def remove_orphans(ctx: Context, budget: Budget, report: Report) -> None:
    """Look at every extraction once a week: one read for it, and one for its chunk."""
    upkeep = ExtractionUpkeep(ctx.database)

    async def look(place: str) -> str | None:
        page = await upkeep.page(place)
        removed = await upkeep.delete_orphans(await upkeep.find_orphans(page))
        report.counts += Counter(extractions=removed)
        return page[-1].id if page else None

    await go_round("extractions", look, ctx, budget, report)


DUPLICATES: Final = Sweep("duplicates", promote_duplicates, _count_gone)
TOPICS: Final = Sweep("topics", forget_topics)
EXTRACTIONS: Final = Sweep("extractions", remove_orphans)
