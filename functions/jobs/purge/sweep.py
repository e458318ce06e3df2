"""The steps of the purge job, called sweeps. Each deletes the obsolete documents of one kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.pipeline.expiry import ExpiredDocuments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.pipeline.expiry import ExpiringKind
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


@dataclass(frozen=True, slots=True)
class Sweep:
    """A step of the purge job, which deletes the obsolete documents of one kind.

    Attributes:
        run: Deletes in small commits until nothing is left or the budget is spent.
        count: Counts the documents to delete; None if finding them costs as much as deleting them.
    """

    name: str
    run: Callable[[Context, Budget, Report], Awaitable[None]]
    count: Callable[[Context], Awaitable[int]] | None = None


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
