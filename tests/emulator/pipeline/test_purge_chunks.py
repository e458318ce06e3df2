"""Purge deletes orphaned chunks, and no chunk that an ingest is about to complete."""

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
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.orphaned_chunks import GRACE_PERIOD, PAGE
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import WatchedApp, call_before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields
from tests.support.stored_documents import read_chunks, read_documents, read_tombstones

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

SOON = GRACE_PERIOD + timedelta(seconds=1)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


@pytest.fixture
def ctx(app: App) -> Context:
    return make_job_context(app)


async def ingest_sources(ctx: Context, *sources: Source) -> None:
    """Ingest sources at noon, and index them."""
    await Ingestion(ctx.database).save([chunk_source(source) for source in sources], NOON)
    await index(ctx, make_ample_budget())


async def delete_document(ctx: Context, path: str) -> None:
    """Delete a document in a way that Carrel never does."""
    await ctx.database.client.document(path).delete()


async def test_chunks_without_a_source_are_deleted(ctx: Context, clock: SettableClock) -> None:
    await ingest_sources(ctx, BAKING, SAILING)
    await delete_document(ctx, "sources/baking")
    clock.now += SOON
    assert await purge(ctx, make_ample_budget()) == Report(Counter(chunks=3))
    assert {data["source_id"] for data in (await read_chunks(ctx)).values()} == {"sailing"}
    await index(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)


async def test_chunks_of_an_unfinished_ingest_stay(ctx: Context, clock: SettableClock) -> None:
    """Ingest writes the source last, so a killed run may leave chunks without one."""
    await ingest_sources(ctx, BAKING)
    await delete_document(ctx, "sources/baking")
    clock.now += GRACE_PERIOD
    assert await purge(ctx, make_ample_budget()) == Report()
    await ingest_sources(ctx, BAKING)
    clock.now += ROUND_INTERVAL
    assert await purge(ctx, make_ample_budget()) == Report()
    assert len(await read_chunks(ctx)) == 3


async def test_chunk_ingested_again_during_the_run_stays(
    settings: Settings, ctx: Context, clock: SettableClock
) -> None:
    await ingest_sources(ctx, BAKING)
    await delete_document(ctx, "sources/baking")
    clock.now += SOON
    [first, *others] = sorted(await read_chunks(ctx))

    async def again() -> None:
        await set_fields(ctx, f"chunks/{first}", {"updated_at": clock()})

    raced = WatchedApp(settings, call_before(1, again), clock=clock, embedder=WordEmbedder())
    assert await purge(make_job_context(raced), make_ample_budget()) == Report(Counter(chunks=2))
    assert {first} == set(await read_chunks(ctx))
    assert set(others) == set(await read_tombstones(ctx))
    await raced.aclose()


async def test_every_chunk_is_checked_once_a_week(
    ctx: Context, app: App, clock: SettableClock
) -> None:
    await ingest_sources(ctx, BAKING)
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


async def test_run_without_time_checks_one_page(ctx: Context, clock: SettableClock) -> None:
    sections = tuple(Section(f"Number {number}.") for number in range(2 * PAGE + 5))
    await Ingestion(ctx.database).save([chunk_source(replace(BAKING, sections=sections))], NOON)
    await delete_document(ctx, "sources/baking")
    clock.now += SOON
    reports = [await purge(ctx, make_spent_budget()) for _ in range(4)]
    assert [report.finished for report in reports] == [False, False, False, True]
    assert [report.counts["chunks"] for report in reports] == [PAGE, PAGE, 5, 0]
    assert await read_chunks(ctx) == {}
    clock.advance(days=1)
    meter = Meter()
    # What is left of them waits for the index job: it is read, page by page, and left to it.
    assert await purge(ctx, make_ample_budget()) == Report()
    assert meter.documents_written == 0


async def test_dead_lettered_tombstone_is_deleted_after_a_week(
    ctx: Context, clock: SettableClock
) -> None:
    await ingest_sources(ctx, BAKING, SAILING)
    await Ingestion(ctx.database).save([chunk_source(replace(BAKING, sections=()))], NOON)
    [stuck, *waiting] = sorted(await read_tombstones(ctx))
    given_up = {"pending": {}, "parked": {"index": "was refused"}}
    await ctx.database.client.document(f"chunks/{stuck}").update(given_up)
    clock.now += GRACE_PERIOD
    assert await purge(ctx, make_ample_budget()) == Report()
    clock.advance(seconds=1)
    assert await purge(ctx, make_ample_budget()) == Report(Counter(tombstones=1))
    assert set(waiting) == set(await read_tombstones(ctx))
    await index(ctx, make_ample_budget())
    await repair(ctx, make_ample_budget())
    await assert_postings_are_exact(ctx)


async def test_empty_base_is_not_written_to(ctx: Context) -> None:
    assert await purge(ctx, make_ample_budget()) == Report()
    assert await read_documents(ctx, "meta") == {}
