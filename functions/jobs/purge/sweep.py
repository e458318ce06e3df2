"""A sweep deletes one kind of document: what has expired, or what a weekly round finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.pipeline.expiry import Expiry
from shared.pipeline.sweep_progress import SweepProgress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    Look = Callable[[str], Awaitable[str | None]]
    """Looks at the page after a place; returns where it ends, or None where nothing is left."""
    from shared.pipeline.expiry import ExpiringKind


@dataclass(frozen=True, slots=True)
class Sweep:
    """A part of the job.

    Attributes:
        name: What it deletes.
        run: Deletes in small commits until nothing is left or the budget is spent; says the latter
            in the report.
        waiting: How many items it would deal with now; None of one that has to look for them.
    """

    name: str
    run: Callable[[Context, Budget, Report], Awaitable[None]]
    waiting: Callable[[Context], Awaitable[int]] | None = None


EVERY: Final = timedelta(days=6, hours=12)
"""Between two rounds: every seventh night, even if one is a little early."""


async def go_round(name: str, look: Look, ctx: Context, budget: Budget, report: Report) -> None:
    """Go on with a round, or begin one if it is time, page by page."""
    rounds = SweepProgress(ctx.database, "purge")
    place = await rounds.due(name, ctx.clock(), EVERY)
    while place is not None:
        reached = await look(place)
        if reached is None:
            if place:
                await rounds.ended(name, ctx.clock())
            return
        await rounds.reached(name, reached)
        place = reached
        if budget.spent:
            report.finished = False
            return


def expired(kind: ExpiringKind) -> Sweep:
    """The sweep that deletes what has expired of a kind."""

    async def run(ctx: Context, budget: Budget, report: Report) -> None:
        expiry = Expiry(ctx.database, kind)
        while found := await expiry.page(ctx.clock()):
            deleted = await expiry.delete(found)
            report.counts += Counter({kind.name: deleted})
            budget.progress(deleted)
            if budget.spent:
                report.finished = False
                return

    async def waiting(ctx: Context) -> int:
        return await Expiry(ctx.database, kind).count(ctx.clock())

    return Sweep(kind.name, run, waiting)
