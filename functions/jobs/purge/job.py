"""Delete what nobody needs any more: what has expired, was withdrawn, lies idle or hangs loose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.jobs.purge.idle_tasks import IDLE_TASKS
from functions.jobs.purge.orphans import CHUNKS, DUPLICATES, EXTRACTIONS, TOMBSTONES, TOPICS
from functions.jobs.purge.sweep import expired
from functions.jobs.purge.withdrawn_traces import WITHDRAWN_TRACES
from shared.pipeline.expiry import EXPIRING
from shared.pipeline.worker import run_isolated
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from functions.jobs.purge.sweep import Sweep
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

SWEEPS: Final[tuple[Sweep, ...]] = (
    IDLE_TASKS,
    WITHDRAWN_TRACES,
    *map(expired, EXPIRING),
    TOMBSTONES,
    DUPLICATES,
    TOPICS,
    CHUNKS,
    EXTRACTIONS,
)
"""In their order: first what people were promised, last what has to be looked for."""


async def purge(ctx: Context, budget: Budget) -> Report:
    """Run every sweep, each in small commits: killed anywhere, the next run goes on.

    What fails is told and left to the next run, and keeps nothing else from being deleted.
    Credentials, calls and limits, which jobs may not open, expire by themselves.
    """
    report = Report()
    for sweep in SWEEPS:
        await run_isolated(sweep.name, sweep.run(ctx, budget, report), ctx, report)
        if not report.finished:
            break
    return report


async def count_pending(ctx: Context) -> int:
    """How many things are to be deleted, as far as that is known before they are looked for."""
    return sum([await sweep.waiting(ctx) for sweep in SWEEPS if sweep.waiting])


JOB = Job(
    name="purge",
    title="Delete what nobody needs any more",
    run=purge,
    total=count_pending,
    schedule="17 4 * * *",
    settings=("materials_days",),
)
