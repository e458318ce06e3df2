"""Delete what nobody uses any more: the materials of idle tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.errors import PlatformFault
from shared.job import Failure, Job, Report
from shared.logs import describe, log
from shared.store.materials import TOUCHED_EVERY

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from shared.deps import Deps
    from shared.job import Budget
    from shared.store.materials import Materials

PAGE: Final = 20
"""Tasks that are read at once."""


async def purge(deps: Deps, budget: Budget) -> Report:
    """Erase the materials of tasks that were not used for `MATERIALS_DAYS`, leaves before parents.

    A task that is used in the same moment stays. Killed anywhere, the next run finds what is half
    erased first, and goes on.
    """
    report, before, failed = Report(), _idle_before(deps), set[str]()
    while idle := await _idle(before, failed, deps):
        for materials in idle:
            try:
                await _erase(materials, before, deps, budget, report)
            except PlatformFault as error:  # of one task, which must not keep the others
                log.error("purge_failed", **describe(error))
                failed.add(materials.path)
                report.failures.append(Failure(materials.name, error.message))
            if budget.spent:
                report.finished = False
                return report
    return report


async def _idle(before: datetime, failed: Collection[str], deps: Deps) -> list[Materials]:
    found = await deps.store.material_queues.idle(before, PAGE + len(failed))
    return [each for each in found if each.path not in failed]


async def _erase(
    materials: Materials, before: datetime, deps: Deps, budget: Budget, report: Report
) -> None:
    erasure = deps.store.material_erasure(materials)
    if not await erasure.begin(idle_since=before):
        return
    async for deleted in erasure.pages():
        report.counts += deleted
        if budget.spent:
            return
    budget.progress(1)


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
