"""Purge deletes orphaned chunks, but not those of an ingest that may still be completed.

An orphaned chunk has no source. Purge checks all chunks in rounds, one page after the other. A
tombstone is the document of a deleted chunk that the index job has not yet removed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functions.jobs.index.job import index
from functions.jobs.purge.job import purge
from functions.jobs.purge.sweep import ROUND_INTERVAL
from functions.jobs.repair.job import repair
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.knowledge.source import Section, Source
from shared.pipeline.orphaned_chunks import GRACE_PERIOD, PAGE
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import WatchedApp, call_before_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, ingest_sources, set_fields
from tests.support.stored_documents import read_chunks, read_documents, read_tombstones

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

AFTER_GRACE_PERIOD = GRACE_PERIOD + timedelta(seconds=1)
"""The time after which a chunk without a source is an orphan."""


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


@pytest.fixture
def ctx(app: App) -> Context:
    """The context of a run of the job."""
    return make_job_context(app)


async def ingest_and_index(ctx: Context, *sources: Source) -> None:
    """Ingest sources at noon, and index them."""
    await ingest_sources(ctx, *sources, now=NOON)
    await index(ctx, make_ample_budget())


async def delete_document(ctx: Context, path: str) -> None:
    """Delete only this document, as Carrel itself never does."""
    await ctx.database.client.document(path).delete()


async def test_chunks_without_a_source_are_deleted(ctx: Context, clock: SettableClock) -> None:
    await ingest_and_index(ctx, BAKING, SAILING)
    await delete_document(ctx, "sources/baking")
    clock.now += AFTER_GRACE_PERIOD
    assert await purge(ctx, make_ample_budget()) == Report(Counter(chunks=3))
    assert {data["source_id"] for data in (await read_chunks(ctx)).values()} == {"sailing"}
    await index(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)


async def test_chunks_of_an_unfinished_ingest_stay(ctx: Context, clock: SettableClock) -> None:
    """Ingest writes the source last, so a killed run may leave chunks without one."""
    await ingest_and_index(ctx, BAKING)
    await delete_document(ctx, "sources/baking")
    clock.now += GRACE_PERIOD
    assert await purge(ctx, make_ample_budget()) == Report()
    await ingest_and_index(ctx, BAKING)
    clock.now += ROUND_INTERVAL
    assert await purge(ctx, make_ample_budget()) == Report()
    assert len(await read_chunks(ctx)) == 3


async def test_a_chunk_ingested_again_during_the_run_stays(
    settings: Settings, ctx: Context, clock: SettableClock
) -> None:
    await ingest_and_index(ctx, BAKING)
    await delete_document(ctx, "sources/baking")
    clock.now += AFTER_GRACE_PERIOD
    [first, *others] = sorted(await read_chunks(ctx))

    async def ingest_first_again() -> None:
        await set_fields(ctx, f"chunks/{first}", {"updated_at": clock()})

    hook = call_before_commit(1, ingest_first_again)
    app = WatchedApp(settings, hook, clock=clock, embedder=WordEmbedder())
    assert await purge(make_job_context(app), make_ample_budget()) == Report(Counter(chunks=2))
    assert set(await read_chunks(ctx)) == {first}
    assert set(await read_tombstones(ctx)) == set(others)
    await app.aclose()


async def test_every_chunk_is_checked_once_a_week(
    ctx: Context, app: App, clock: SettableClock
) -> None:
    await ingest_and_index(ctx, BAKING)
    assert await purge(ctx, make_ample_budget()) == Report()
    await delete_document(ctx, "sources/baking")
    for _ in range(6):
        clock.advance(days=1)
        meter = Meter()
        assert await purge(app.context(Caller(), meter), make_ample_budget()) == Report()
        assert meter.documents_written == 0
        assert meter.documents_read < 20
    clock.advance(days=1, seconds=1)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(chunks=3))


async def test_a_run_without_time_checks_one_page(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    sections = tuple(Section(f"Number {number}.") for number in range(2 * PAGE + 5))
    await ingest_sources(ctx, replace(BAKING, sections=sections), now=NOON)
    await delete_document(ctx, "sources/baking")
    clock.now += AFTER_GRACE_PERIOD

    reports = [await purge(ctx, make_spent_budget()) for _ in range(4)]
    assert [report.finished for report in reports] == [False, False, False, True]
    assert [report.counts["chunks"] for report in reports] == [PAGE, PAGE, 5, 0]
    assert await read_chunks(ctx) == {}

    # Tombstones that wait for the index job are left to it.
    clock.advance(days=1)
    meter = Meter()
    assert await purge(app.context(Caller(), meter), make_ample_budget()) == Report()
    assert meter.documents_written == 0


async def test_a_dead_lettered_tombstone_is_deleted_after_a_week(
    ctx: Context, clock: SettableClock
) -> None:
    await ingest_and_index(ctx, BAKING, SAILING)
    await ingest_sources(ctx, replace(BAKING, sections=()), now=NOON)
    [dead_letter, *others] = sorted(await read_tombstones(ctx))
    change = {"pending": {}, "parked": {"index": "was refused"}}
    await ctx.database.client.document(f"chunks/{dead_letter}").update(change)

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
