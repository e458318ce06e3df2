"""Purge deletes the extractions of a tombstone, and shows a duplicate of a deleted one instead.

An extraction is a decision, a warning or the like, found in a chunk. A duplicate of another one is
hidden, and is not counted in its topics. A tombstone is a chunk that was marked as deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import pytest

from functions.jobs.index.job import index
from functions.jobs.purge.job import purge
from shared.core.settings import Settings
from shared.extractions.extracted_chunks import build_topic_count_writes, summarize_extractions
from shared.extractions.model import Extraction, Pitfall
from shared.extractions.repository import to_fields
from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.clock import NOON, SettableClock
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, ingest_sources, set_fields, store_sources
from tests.support.stored_documents import read_documents

GALE: Final = Pitfall(title="Gales", description="A short chain drags.")


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


@pytest.fixture
async def app(settings: Settings, clock: SettableClock) -> AsyncIterator[App]:
    """An app with that clock."""
    opened = WatchedApp(settings, clock=clock, embedder=WordEmbedder())
    yield opened
    await opened.aclose()


@pytest.fixture
def ctx(app: App) -> Context:
    """The context of a run of the job."""
    return make_job_context(app)


def make_extraction(extraction_id: str, chunk: Chunk, **fields: Any) -> Extraction:
    """Make an extraction from a chunk; `fields` override the defaults."""
    extraction = Extraction(
        extraction_id=extraction_id,
        content=GALE,
        topics=("weather",),
        quote=chunk.content,
        source_id=chunk.source_id,
        chunk_id=chunk.chunk_id,
        confidence=0.8,
        model="m",
        extracted_at=NOON,
    )
    return replace(extraction, **fields)


async def store_extractions(ctx: Context, *extractions: Extraction) -> None:
    """Store extractions, at most one for each chunk."""
    for extraction in extractions:
        summaries = summarize_extractions([extraction])
        await set_fields(ctx, f"chunks/{extraction.chunk_id}", {"extracted": summaries})
        path = f"extractions/{extraction.extraction_id}"
        await set_fields(ctx, path, to_fields(extraction, (1.0,), "words"))
        await ctx.database.commit(build_topic_count_writes({}, summaries))


async def read_visibility(ctx: Context) -> dict[str, bool]:
    """Return whether each stored extraction is visible, by its id."""
    extractions = await read_documents(ctx, "extractions")
    return {extraction_id: bool(data["facets"]) for extraction_id, data in extractions.items()}


async def read_topic_counts(ctx: Context) -> dict[str, int]:
    """Return the number of extractions of each topic, as stored."""
    topics = (await read_documents(ctx, "topics")).values()
    return {data["name"]: data["total"] for data in topics}


async def test_extractions_of_a_tombstone_stay(ctx: Context) -> None:
    """A tombstone is the document of a deleted chunk; the index job deletes its extractions."""
    first, second = await store_sources(ctx, SAILING)
    await store_extractions(ctx, make_extraction("one", first), make_extraction("two", second))
    await ingest_sources(ctx, replace(SAILING, sections=()), now=NOON)
    assert await purge(ctx, make_ample_budget()) == Report()
    assert set(await read_visibility(ctx)) == {"one", "two"}
    await index(ctx, make_ample_budget())
    assert await read_visibility(ctx) == {}


async def test_the_most_confident_duplicate_replaces_a_deleted_one(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, SAILING)
    other_chunks = await store_sources(ctx, BAKING)
    duplicates = [
        make_extraction(f"again-{confidence}", chunk, duplicate_of="one", confidence=confidence)
        for confidence, chunk in zip((0.5, 0.9, 0.7), other_chunks, strict=True)
    ]
    await store_extractions(ctx, make_extraction("one", first), *duplicates)
    assert await read_topic_counts(ctx) == {"weather": 1}

    await ingest_sources(ctx, replace(SAILING, sections=()), now=NOON)
    report = await index(ctx, make_ample_budget())
    assert report.counts["shown"] == 1
    assert report.failures == []

    assert await read_visibility(ctx) == {"again-0.5": False, "again-0.7": False, "again-0.9": True}
    assert await read_topic_counts(ctx) == {"weather": 1}
    extractions = await read_documents(ctx, "extractions")
    for extraction_id in ("again-0.5", "again-0.7"):
        assert extractions[extraction_id]["duplicate_of"] == "again-0.9"
