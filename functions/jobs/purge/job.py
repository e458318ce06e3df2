"""Deletes what is no longer kept, and what deletions leave behind.

A tombstone is a chunk that was marked as deleted, and that the index job gave up on.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge import withdrawn_traces
from functions.jobs.purge.sweep import Sweep
from shared.extractions.groups import TOPICS, ExtractionGroups
from shared.firestore.queries import Query
from shared.firestore.retention import Retention
from shared.firestore.writes import delete_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.forgotten_chunks import (
    RESTORABLE_CHUNKS,
    RESTORABLE_SOURCES,
    get_extraction_ids,
)
from shared.knowledge.map_repository import Maps
from shared.pipeline.worker import run_isolated
from shared.runtime.job import Job, Report
from shared.traces.repository import WITHDRAWN_TRACES
from shared.workspaces.erasure import make_retention
from shared.writer.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.firestore.documents import Document
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

    Step = Callable[[Context, Budget, Report], Awaitable[None]]


PAGE_SIZE: Final = 200
"""The number of topics that one query reads."""
TOMBSTONES: Final = Retention(
    title="what remains of deleted passages, if the index job failed on it",
    collection=CHUNKS,
    since="deleted_at",
    duration=timedelta(days=7),
)


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


async def build_tombstone_writes(ctx: Context, tombstone: Document) -> Sequence[Write]:
    """Build the writes that delete a tombstone with its extractions and its point on the map.

    There are none while the index job retries it. The repair job later removes its entries from the
    postings. Costs up to four round trips.
    """
    if STEP in tombstone.fields.get("pending", {}):
        return []
    groups = ExtractionGroups(ctx.database)
    return [
        delete_if_unchanged(tombstone),
        *await groups.build_deletion_writes(get_extraction_ids(tombstone.fields)),
        *await Maps(ctx.database).build_removal_writes([tombstone.id]),
    ]


async def delete_empty_topics(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete topics without extractions."""
    query = Query(TOPICS).where("total", "<=", 0).limit(PAGE_SIZE)
    while topics := await ctx.database.find(query):
        writes = list(map(delete_if_unchanged, topics))
        report.counts += Counter(topics=await ctx.database.commit_skipping_conflicts(writes))
        if budget.spent:
            report.finished = False
            return


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
