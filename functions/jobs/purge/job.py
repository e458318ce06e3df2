"""Deletes expired, forgotten, withdrawn and idle documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.jobs.purge.idle_tasks import IDLE_TASKS
from functions.jobs.purge.knowledge import DUPLICATES, FORGOTTEN, TOMBSTONES, TOPICS
from functions.jobs.purge.sweep import make_expiry_sweep
from functions.jobs.purge.withdrawn_traces import WITHDRAWN_TRACES
from shared.pipeline.expiry import EXPIRING_KINDS
from shared.pipeline.worker import run_isolated
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from functions.jobs.purge.sweep import Sweep
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

SWEEPS: Final[tuple[Sweep, ...]] = (
    FORGOTTEN,
    IDLE_TASKS,
    WITHDRAWN_TRACES,
    *map(make_expiry_sweep, EXPIRING_KINDS),
    TOMBSTONES,
    DUPLICATES,
    TOPICS,
)
"""The sweeps in the order in which they run. Deletions that people were promised come first."""


async def purge(ctx: Context, budget: Budget) -> Report:
    """Run every sweep in small commits, so that the next run continues where a run was killed.

    A sweep that fails is reported, and does not stop the other sweeps. Credentials, call records
    and limits are in a database that jobs may not open, and expire by themselves.
    """
    report = Report()
    for sweep in SWEEPS:
        await run_isolated(sweep.name, sweep.run(ctx, budget, report), ctx, report)
        if not report.finished:
            break
    return report


async def count_pending(ctx: Context) -> int:
    """Count the documents to delete. Sweeps that cannot count theirs are left out."""
    return sum([await sweep.count(ctx) for sweep in SWEEPS if sweep.count])


JOB = Job(
    name="purge",
    title="Delete expired, withdrawn and forgotten data",
    run=purge,
    total=count_pending,
    schedule="17 4 * * *",
    settings=("materials_days",),
)
