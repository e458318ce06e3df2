"""Delete what says itself when it may go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.expiry import Expiry

if TYPE_CHECKING:
    from shared.pipeline.expiry import Expiring
    from shared.runtime.context import Deps
    from shared.runtime.job import Budget, Report


def expired(kind: Expiring) -> Sweep:
    """The sweep that deletes what has expired of a kind."""

    async def run(deps: Deps, budget: Budget, report: Report) -> None:
        expiry = Expiry(deps.database, kind)
        while found := await expiry.page(deps.clock()):
            deleted = await expiry.delete(found)
            report.counts += Counter({kind.name: deleted})
            budget.progress(deleted)
            if budget.spent:
                report.finished = False
                return

    async def waiting(deps: Deps) -> int:
        return await Expiry(deps.database, kind).count(deps.clock())

    return Sweep(kind.name, run, waiting)
