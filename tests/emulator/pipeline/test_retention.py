"""What is no longer kept is deleted at its time, after what hangs on it, and nothing else is."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from functions.jobs.index.job import index
from functions.jobs.purge.job import count_pending, make_sweeps, purge
from functions.jobs.repair.job import repair
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.forgetting import forget_each_kind
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, ingest_sources, set_fields
from tests.support.stored_documents import read_tombstones
from tests.support.tool_calls import call_result
from tests.support.traces import contribute, vote
from tests.support.workspaces import read_write_times, upload_text

SWEEPS: Final = {sweep.name: sweep for sweep in make_sweeps(materials_days=90)}
DELETED: Final = {
    "forgotten": Counter(forgotten=1),
    "forgotten_sources": Counter(forgotten=3, note_revisions=1, forgotten_sources=2),
    "rag_tasks": Counter(documents=1, parts=1, answers=1, rag_tasks=1),
    "traces": Counter(votes=1, revisions=1, traces=1),
    "chunks": Counter(chunks=1),
}
"""What the sweep of each collection deletes of `base`, with what hangs on it."""


@pytest.fixture
async def base(app: App, ctx: Context, clock: SettableClock) -> Context:
    """Store one document of each kind that is deleted later, and what hangs on it."""
    clock.now = NOON
    await forget_each_kind(app, ctx)
    await upload_text(app, "old", idempotency_key="once")
    trace_id = await contribute(app, 0, "anna")
    await vote(app, trace_id, "ben")
    await call_result(app, "amend_trace", "anna", trace_id=trace_id, solution_text="Try again.")
    await call_result(app, "withdraw_trace", "anna", trace_id=trace_id)
    await index(ctx, make_ample_budget())
    dead_letter = {"deleted_at": NOON, "pending": {}, "parked": {"index": "was refused"}}
    await set_fields(ctx, "chunks/gone", dead_letter)
    return ctx


@pytest.mark.parametrize("collection", SWEEPS)
async def test_each_kind_is_deleted_at_its_time(
    base: Context, clock: SettableClock, collection: str
) -> None:
    sweep, report = SWEEPS[collection], Report()
    before = await read_write_times(base)
    clock.now = NOON + sweep.retention.duration - timedelta(microseconds=1)
    assert await sweep.count(base) == 0
    await sweep.run(base, make_ample_budget(), report)
    assert (report, await read_write_times(base)) == (Report(), before)

    clock.now = NOON + sweep.retention.duration
    assert await sweep.count(base) > 0
    await sweep.run(base, make_ample_budget(), report)
    assert report == Report(DELETED[collection])
    assert await sweep.count(base) == 0


async def test_a_run_with_nothing_to_do_writes_nothing(
    app: App, base: Context, clock: SettableClock
) -> None:
    clock.now += max(sweep.retention.duration for sweep in SWEEPS.values())
    expected = sum(DELETED.values(), Counter[str]())
    assert await purge(base, make_ample_budget()) == Report(expected)
    assert await count_pending(base) == 0
    ctx = make_job_context(app)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert ctx.meter.documents_written == 0
    assert ctx.meter.documents_read == len(SWEEPS) + 1  # and topics


async def test_a_dead_lettered_tombstone_leaves_exact_postings(
    ctx: Context, clock: SettableClock
) -> None:
    """A tombstone is a deleted chunk. The index job deletes those that it retries."""
    await ingest_sources(ctx, BAKING, SAILING)
    await index(ctx, make_ample_budget())
    await ingest_sources(ctx, replace(BAKING, sections=()))
    [dead_letter, *others] = sorted(await read_tombstones(ctx))
    change = {"pending": {}, "parked": {"index": "was refused"}}
    await ctx.database.connection.client.document(f"chunks/{dead_letter}").update(change)

    clock.now += SWEEPS["chunks"].retention.duration
    assert await purge(ctx, make_ample_budget()) == Report(Counter(chunks=1))
    assert set(await read_tombstones(ctx)) == set(others)
    await index(ctx, make_ample_budget())
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)
