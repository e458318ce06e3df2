"""Deletes tombstones, and clears up after deleted extractions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.extractions.upkeep import ExtractionUpkeep, promote_duplicates
from shared.pipeline.tombstones import GRACE_PERIOD, PAGE, Tombstones

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def delete_tombstones(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete chunks that were marked as deleted long ago and that the index job no longer retries.

    Chunks that are still pending stay, because the index job deletes them.
    """
    tombstones = Tombstones(ctx.database)
    async for page in tombstones.iterate(ctx.clock() - GRACE_PERIOD):
        report.counts += Counter(tombstones=await tombstones.delete(page))
        if len(page) == PAGE and budget.spent:
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


TOMBSTONES: Final = Sweep("tombstones", delete_tombstones)
DUPLICATES: Final = Sweep("duplicates", promote_duplicates, _count_deletions)
TOPICS: Final = Sweep("topics", delete_empty_topics)
