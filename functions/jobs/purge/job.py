"""Delete what nobody uses any more: the materials of idle tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.job import Job, Report
from shared.store.materials import TOUCHED_EVERY

if TYPE_CHECKING:
    from datetime import datetime

    from shared.deps import Deps
    from shared.job import Budget

PAGE: Final = 20
"""Tasks that are read at once."""


async def purge(deps: Deps, budget: Budget) -> Report:
    """Erase the materials of tasks that were not used for `MATERIALS_DAYS`, leaves before parents.

    A task that is used in the same moment stays. Killed anywhere, the next run finds what is half
    erased first, and goes on.
    """
    report = Report()
    before = _idle_before(deps)
    while idle := await deps.store.material_queues.idle(before, PAGE):
        for materials in idle:
            erasure = deps.store.material_erasure(materials)
            if not await erasure.begin(idle_since=before):
                continue
            async for deleted in erasure.pages():
                report.counts += deleted
                if budget.spent:
                    report.finished = False
                    return report
            budget.progress(1)
    return report


def _idle_before(deps: Deps) -> datetime:
    """Last use is known to the hour: a task may have been used that much later."""
    return deps.clock() - timedelta(days=deps.settings.materials_days) - TOUCHED_EVERY


async def idle(deps: Deps) -> int:
    """How many tasks are to be erased."""
    return await deps.store.material_queues.count_idle(_idle_before(deps))


JOB = Job(
    name="purge",
    title="Delete the materials of idle tasks",
    run=purge,
    total=idle,
    schedule="17 4 * * *",
)
