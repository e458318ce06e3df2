"""Erase the materials of tasks that were not used for long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.worker import set_apart
from shared.workspaces.erasure import MaterialErasure
from shared.workspaces.queue import MaterialQueues
from shared.workspaces.repository import TOUCHED_EVERY

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report
    from shared.workspaces.repository import Materials

PAGE: Final = 20
"""Tasks that are read at once."""


async def erase_idle(ctx: Context, budget: Budget, report: Report) -> None:
    """Erase them, leaves before parents.

    A task that is used in the same moment stays. Killed anywhere, the next run finds what is half
    erased first, and goes on.
    """
    before, failed = _idle_before(ctx), set[str]()
    while idle := await _idle(before, failed, ctx):
        for materials in idle:
            work = _erase(materials, before, ctx, budget, report)
            if not await set_apart(materials.name, work, ctx, report):
                failed.add(materials.path)
            if budget.spent:
                report.finished = False
                return


async def _idle(before: datetime, failed: Collection[str], ctx: Context) -> list[Materials]:
    found = await MaterialQueues(ctx.database).idle(before, PAGE + len(failed))
    return [each for each in found if each.path not in failed]


async def _erase(
    materials: Materials, before: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    erasure = MaterialErasure(ctx.database, materials)
    if not await erasure.begin(idle_since=before):
        return
    async for deleted in erasure.pages():
        report.counts += deleted
        if budget.spent:
            return
    budget.progress(1)


def _idle_before(ctx: Context) -> datetime:
    """Last use is known to the hour: a task may have been used that much later."""
    return ctx.clock() - timedelta(days=ctx.settings.materials_days) - TOUCHED_EVERY


async def _count(ctx: Context) -> int:
    return await MaterialQueues(ctx.database).count_idle(_idle_before(ctx))


IDLE_TASKS: Final = Sweep("rag_tasks", erase_idle, _count)
