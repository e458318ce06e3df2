"""The steps of the purge job, called sweeps. Each deletes the obsolete documents of one kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.pipeline.expiry import ExpiredDocuments
from shared.pipeline.round_progress import RoundProgress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    ProcessPage = Callable[[str], Awaitable[str | None]]
    """Processes the page after a position. Returns the last position of that page, or None at the
    end."""
    from shared.pipeline.expiry import ExpiringKind


@dataclass(frozen=True, slots=True)
class Sweep:
    """A step of the purge job, which deletes the obsolete documents of one kind.

    Attributes:
        name: The kind of documents.
        run: Deletes in small commits until nothing is left or the budget is spent.
        count: Counts the documents to delete; None if that would require reading every document.
    """

    name: str
    run: Callable[[Context, Budget, Report], Awaitable[None]]
    count: Callable[[Context], Awaitable[int]] | None = None


ROUND_INTERVAL: Final = timedelta(days=6, hours=12)
"""The minimum time between two rounds of the same sweep. It is less than seven days, so that a
round begins every seventh night even if a run starts a little early."""


async def continue_round(
    name: str, process: ProcessPage, ctx: Context, budget: Budget, report: Report
) -> None:
    """Continue a sweep's round through a whole collection, or begin a round if one is due.

    Args:
        name: The name of the round.
        process: Processes a page.
        ctx: The context of the run.
        budget: The time of the run.
        report: Becomes unfinished if the time is up before the end of the round.
    """
    progress = RoundProgress(ctx.database, "purge")
    position = await progress.load_position(name, ctx.clock(), ROUND_INTERVAL)
    while position is not None:
        end = await process(position)
        if end is None:
            if position:
                await progress.complete(name, ctx.clock())
            return
        await progress.save_position(name, end)
        position = end
        if budget.spent:
            report.finished = False
            return


def make_expiry_sweep(kind: ExpiringKind) -> Sweep:
    """Make the sweep that deletes the expired documents of a kind."""

    async def run(ctx: Context, budget: Budget, report: Report) -> None:
        documents = ExpiredDocuments(ctx.database, kind)
        while page := await documents.load_page(ctx.clock()):
            deleted = await documents.delete(page)
            report.counts += Counter({kind.name: deleted})
            budget.progress(deleted)
            if budget.spent:
                report.finished = False
                return

    async def count(ctx: Context) -> int:
        return await ExpiredDocuments(ctx.database, kind).count(ctx.clock())

    return Sweep(kind.name, run, count)
