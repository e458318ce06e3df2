"""Purge deletes the tombstones that the index job gave up on, with all that hangs on them.

A tombstone is the document of a deleted chunk that the index job has not yet removed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from functions.jobs.index.job import index
from functions.jobs.purge.job import purge
from functions.jobs.purge.knowledge import GRACE_PERIOD
from functions.jobs.repair.job import repair
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, ingest_sources
from tests.support.stored_documents import read_documents, read_tombstones


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


@pytest.fixture
def ctx(app: App) -> Context:
    """The context of a run of the job."""
    return make_job_context(app)


async def test_a_dead_lettered_tombstone_is_deleted_after_a_week(
    ctx: Context, clock: SettableClock
) -> None:
    await ingest_sources(ctx, BAKING, SAILING, now=NOON)
    await index(ctx, make_ample_budget())
    await ingest_sources(ctx, replace(BAKING, sections=()), now=NOON)
    [dead_letter, *others] = sorted(await read_tombstones(ctx))
    change = {"pending": {}, "parked": {"index": "was refused"}}
    await ctx.database.connection.client.document(f"chunks/{dead_letter}").update(change)

    clock.now += GRACE_PERIOD
    assert await purge(ctx, make_ample_budget()) == Report()
    clock.advance(seconds=1)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(tombstones=1))
    assert set(await read_tombstones(ctx)) == set(others)
    await index(ctx, make_ample_budget())
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)


async def test_a_run_on_an_empty_base_writes_nothing(ctx: Context) -> None:
    assert await purge(ctx, make_ample_budget()) == Report()
    assert await read_documents(ctx, "meta") == {}
