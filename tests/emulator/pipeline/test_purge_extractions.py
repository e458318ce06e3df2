"""Purge deletes extractions without a chunk, and promotes duplicates of deleted ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.index.job import index
from functions.jobs.purge.job import purge
from functions.jobs.purge.sweep import ROUND_INTERVAL
from shared.extractions.extracted_chunks import build_topic_count_writes, summarize_extractions
from shared.extractions.model import Extraction, Pitfall
from shared.extractions.repository import to_fields
from shared.extractions.upkeep import PAGE_SIZE
from shared.knowledge.ingestion import Ingestion
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import WatchedApp, call_before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields, store_sources
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import App, Context
    from tests.support.commit_hooks import Results, Send

pytestmark = pytest.mark.anyio

GALE: Final = Pitfall(title="Gales", description="A short chain drags.")


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


@pytest.fixture
async def app(settings: Settings, clock: SettableClock) -> AsyncIterator[App]:
    opened = WatchedApp(settings, clock=clock, embedder=WordEmbedder())
    yield opened
    await opened.aclose()


@pytest.fixture
def ctx(app: App) -> Context:
    return make_job_context(app)


def make_extraction(name: str, chunk: Chunk, **more: Any) -> Extraction:
    """Make an extraction of a chunk."""
    plain = Extraction(
        extraction_id=name,
        content=GALE,
        topics=("weather",),
        quote=chunk.content,
        source_id=chunk.source_id,
        chunk_id=chunk.chunk_id,
        confidence=0.8,
        model="m",
        extracted_at=NOON,
    )
    return replace(plain, **more)


async def store_extractions(ctx: Context, *extractions: Extraction) -> None:
    """Store one extraction for each chunk."""
    for make_extraction in extractions:
        summaries = summarize_extractions([make_extraction])
        await set_fields(ctx, f"chunks/{make_extraction.chunk_id}", {"extracted": summaries})
        await set_fields(
            ctx,
            f"extractions/{make_extraction.extraction_id}",
            to_fields(make_extraction, (1.0,), "words"),
        )
        await ctx.database.commit(build_topic_count_writes(ctx.database, {}, summaries))


async def read_visibility(ctx: Context) -> dict[str, bool]:
    """Return the stored extractions' ids, each with whether it is visible."""
    stored = await read_documents(ctx, "extractions")
    return {name: bool(data["facets"]) for name, data in stored.items()}


async def read_topic_counts(ctx: Context) -> dict[str, int]:
    """Return the number of extractions that the topics count."""
    return {data["name"]: data["total"] for data in (await read_documents(ctx, "topics")).values()}


async def test_orphaned_extractions_are_deleted_and_uncounted(
    ctx: Context, clock: SettableClock
) -> None:
    first, second = await store_sources(ctx, SAILING)
    await store_extractions(ctx, make_extraction("one", first), make_extraction("two", second))
    await ctx.database.client.document(f"chunks/{first.chunk_id}").delete()
    assert await purge(ctx, make_ample_budget()) == Report(Counter(extractions=1))
    assert await read_visibility(ctx) == {"two": True}
    assert await read_topic_counts(ctx) == {"weather": 1}
    await ctx.database.client.document(f"chunks/{second.chunk_id}").update({"extracted": {}})
    clock.now += ROUND_INTERVAL
    await purge(ctx, make_ample_budget())
    clock.now += ROUND_INTERVAL
    await purge(ctx, make_ample_budget())
    assert await read_visibility(ctx) == {}
    assert await read_topic_counts(ctx) == {}
    assert await read_documents(ctx, "gone_extractions") == {}


async def test_extractions_of_a_tombstone_stay(
    ctx: Context,
) -> None:
    first, second = await store_sources(ctx, SAILING)
    await store_extractions(ctx, make_extraction("one", first), make_extraction("two", second))
    await Ingestion(ctx.database).save([chunk_source(replace(SAILING, sections=()))], NOON)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert set(await read_visibility(ctx)) == {"one", "two"}
    await index(ctx, make_ample_budget())
    assert await read_visibility(ctx) == {}


async def test_the_most_confident_duplicate_replaces_a_deleted_one(
    ctx: Context,
) -> None:
    first, *_ = await store_sources(ctx, SAILING)
    others = await store_sources(ctx, BAKING)
    sure = (0.5, 0.9, 0.7)
    repeating = [
        make_extraction(f"again-{rank}", chunk, duplicate_of="one", confidence=rank)
        for rank, chunk in zip(sure, others, strict=True)
    ]
    await store_extractions(ctx, make_extraction("one", first), *repeating)
    assert await read_topic_counts(ctx) == {"weather": 1}
    await Ingestion(ctx.database).save([chunk_source(replace(SAILING, sections=()))], NOON)
    report = await index(ctx, make_ample_budget())
    assert report.counts["shown"] == 1
    assert report.failures == []
    assert await read_visibility(ctx) == {"again-0.5": False, "again-0.7": False, "again-0.9": True}
    assert await read_topic_counts(ctx) == {"weather": 1}
    stored = await read_documents(ctx, "extractions")
    assert {stored[name]["duplicate_of"] for name in ("again-0.5", "again-0.7")} == {"again-0.9"}


async def test_an_orphan_rewritten_during_the_run_stays(
    settings: Settings, ctx: Context, clock: SettableClock
) -> None:
    first, second = await store_sources(ctx, SAILING)
    await store_extractions(ctx, make_extraction("one", first), make_extraction("two", second))
    for chunk in (first, second):
        gone: dict[str, Any] = {"extracted": {}}
        await ctx.database.client.document(f"chunks/{chunk.chunk_id}").update(gone)

    async def again() -> None:
        await set_fields(
            ctx, f"chunks/{first.chunk_id}", {"extracted": {"one": {"type": "warning"}}}
        )
        await set_fields(ctx, "extractions/one", {"quote": "again"})

    raced = WatchedApp(settings, call_before(1, again), clock=clock, embedder=WordEmbedder())
    # The round through all chunks has its first commit before.
    await purge(make_job_context(raced), make_spent_budget())
    await purge(make_job_context(raced), make_ample_budget())
    await raced.aclose()
    assert await read_visibility(ctx) == {"one": True}


async def test_the_next_run_continues_with_the_next_page(ctx: Context) -> None:
    orphan = {"type": "warning", "topics": [], "facets": ["warning"], "chunk_id": "gone"}
    batch = ctx.database.client.batch()
    for number in range(PAGE_SIZE + 5):
        batch.set(ctx.database.document("extractions", f"orphan-{number}"), orphan)
    await batch.commit()
    reports = [await purge(ctx, make_spent_budget())]
    while not reports[-1].finished:
        reports.append(await purge(ctx, make_spent_budget()))
    removed = [report.counts["extractions"] for report in reports]
    assert [count for count in removed if count] == [PAGE_SIZE, 5]
    assert await read_visibility(ctx) == {}


async def test_the_next_run_completes_one_killed_after_any_commit(
    settings: Settings, ctx: Context, clock: SettableClock
) -> None:
    class DiedError(Exception):
        pass

    async def die(_commit: int, send: Send) -> Results:
        await send()
        raise DiedError

    first, second = await store_sources(ctx, SAILING)
    others = await store_sources(ctx, BAKING)
    repeating = [
        make_extraction(f"{n}", chunk, duplicate_of="one") for n, chunk in enumerate(others)
    ]
    await store_extractions(
        ctx, make_extraction("one", first), make_extraction("two", second), *repeating
    )
    await ctx.database.client.document(f"chunks/{first.chunk_id}").delete()
    deaths = 0
    for _ in range(2):
        while True:
            dying = WatchedApp(settings, die, clock=clock, embedder=WordEmbedder())
            try:
                await purge(make_job_context(dying), make_ample_budget())
            except DiedError:
                deaths += 1
            else:
                break
            finally:
                await dying.aclose()
        clock.now += ROUND_INTERVAL
    assert deaths > 3
    assert await read_visibility(ctx) == {"0": True, "1": False, "2": False, "two": True}
    assert await read_topic_counts(ctx) == {"weather": 2}
