"""Erases workspaces that have not been used for a long time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.worker import run_isolated
from shared.workspaces.erasure import WorkspaceErasure
from shared.workspaces.queue import WorkspaceQueue
from shared.workspaces.repository import TOUCH_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report
    from shared.workspaces.repository import Workspace

PAGE_SIZE: Final = 20
"""The number of workspaces that one query reads."""


async def erase_idle(ctx: Context, budget: Budget, report: Report) -> None:
    """Erase idle workspaces. Documents inside a workspace are deleted before the workspace.

    A workspace that is used during the run stays. If a run is killed, the next run begins with the
    workspaces that are only partly erased.
    """
    cutoff = _compute_idle_cutoff(ctx)
    failed_paths = set[str]()
    while workspaces := await _load_idle_workspaces(cutoff, failed_paths, ctx):
        for workspace in workspaces:
            work = _erase(workspace, cutoff, ctx, budget, report)
            if not await run_isolated(workspace.name, work, ctx, report):
                failed_paths.add(workspace.path)
            if budget.spent:
                report.finished = False
                return


async def _load_idle_workspaces(
    cutoff: datetime, failed_paths: Collection[str], ctx: Context
) -> list[Workspace]:
    # The query lists failed workspaces first, again and again. It must reach the others.
    page = await WorkspaceQueue(ctx.database).list_idle(cutoff, PAGE_SIZE + len(failed_paths))
    return [workspace for workspace in page if workspace.path not in failed_paths]


async def _erase(
    workspace: Workspace, cutoff: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    erasure = WorkspaceErasure(ctx.database, workspace)
    if not await erasure.begin(idle_since=cutoff):
        return
    async for deleted in erasure.delete_pages():
        report.counts += deleted
        if budget.spent:
            return
    budget.progress(1)


def _compute_idle_cutoff(ctx: Context) -> datetime:
    """Return the time before which the stored last use of an idle workspace is."""
    # The stored time may be older than the last use, by up to TOUCH_INTERVAL.
    return ctx.clock() - timedelta(days=ctx.settings.materials_days) - TOUCH_INTERVAL


async def _count_idle(ctx: Context) -> int:
    return await WorkspaceQueue(ctx.database).count_idle(_compute_idle_cutoff(ctx))


IDLE_TASKS: Final = Sweep("rag_tasks", erase_idle, _count_idle)
