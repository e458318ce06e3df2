"""Deletes what is no longer kept, and what deletions leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.jobs.purge import withdrawn_traces
from functions.jobs.purge.knowledge import (
    TOMBSTONES,
    build_tombstone_writes,
    delete_empty_topics,
)
from functions.jobs.purge.sweep import Sweep
from shared.knowledge.forgotten_chunks import RESTORABLE_CHUNKS, RESTORABLE_SOURCES
from shared.pipeline.worker import run_isolated
from shared.runtime.job import Job, Report
from shared.traces.repository import WITHDRAWN_TRACES
from shared.workspaces.erasure import make_retention

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.runtime.context import Context
    from shared.runtime.job import Budget

    Step = Callable[[Context, Budget, Report], Awaitable[None]]


def make_sweeps(materials_days: int) -> tuple[Sweep, ...]:
    """Make the sweeps in the order in which they run.

    Firestore deletes the documents of other kinds by itself. Call records and credentials are in a
    database that jobs may not open.
    """
    return (
        Sweep(RESTORABLE_CHUNKS),
        Sweep(RESTORABLE_SOURCES),
        Sweep(make_retention(materials_days)),
        Sweep(WITHDRAWN_TRACES, withdrawn_traces.build_last_writes),
        Sweep(TOMBSTONES, build_tombstone_writes),
    )


async def purge(ctx: Context, budget: Budget) -> Report:
    """Run every sweep in small commits, so that the next run continues where a run was killed.

    A sweep that fails is reported, and does not stop the others.
    """
    report = Report()
    steps: list[tuple[str, Step]] = [
        *((sweep.name, sweep.run) for sweep in make_sweeps(ctx.settings.materials_days)),
        ("topics", delete_empty_topics),
    ]
    for name, run in steps:
        await run_isolated(name, run(ctx, budget, report), ctx, report)
        if not report.finished:
            break
    return report


async def count_pending(ctx: Context) -> int:
    """Count the documents to delete, without topics, since finding them costs as much."""
    sweeps = make_sweeps(ctx.settings.materials_days)
    return sum([await sweep.count(ctx) for sweep in sweeps])


JOB = Job(
    name="purge",
    title="Delete unused, withdrawn and forgotten data",
    run=purge,
    total=count_pending,
    schedule="17 4 * * *",
    settings=("materials_days",),
)
