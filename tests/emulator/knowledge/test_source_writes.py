"""Ingest writes only what has changed in a source, in commits that Firestore accepts.

Jobs process a chunk in steps, such as `embed` and `index`. Its field `pending` contains the steps
still to do, `tries` their failed tries, and `parked` the steps that were given up. A deleted chunk
is a tombstone, without its text, until the index job has removed it from the index.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.knowledge.chunk_repository import FIRST_STEPS, Chunks
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields, store_sources
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.stored_documents import (
    read_chunks,
    read_documents,
    read_snapshots,
    read_tombstones,
)

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2011, 2, 3, 4, tzinfo=UTC)
INDEXED = {"terms": {"reef": 1, "mainsail": 1}, "facets": ["tag:sea"], "dated_at": 7}
"""The indexed state of a chunk, as the index job writes it."""


async def save(ctx: Context, *sources: Source, now: datetime = NOON) -> Counter[str]:
    """Store sources as ingest does; return the counts of what was written."""
    return await Ingestion(ctx.database).save([chunk_source(source) for source in sources], now)


def make_many(*texts: str) -> Source:
    """Return the source `many`, with a section for each text."""
    return Source("many", "Many", sections=tuple(Section(text) for text in texts))


def drop_first(source: Source) -> Source:
    """Return a source without its first section."""
    return replace(source, sections=source.sections[1:])


def make_highlighted(*dates: datetime | None) -> Source:
    """Return a source with a highlight for each date."""
    sections = (
        Section(f"Highlight {number}.", highlighted_at=date) for number, date in enumerate(dates)
    )
    return Source("dated", "Dated", sections=tuple(sections))


async def store_indexed(ctx: Context, source: Source) -> list[str]:
    """Store a source with no pending steps, as when every job has run; return its chunk ids."""
    chunk_ids = [chunk.chunk_id for chunk in await store_sources(ctx, source)]
    for chunk_id in chunk_ids:
        fields = {"indexed": INDEXED, "pending": {}}
        await ctx.database.connection.client.collection("chunks").document(chunk_id).update(fields)
    return chunk_ids


async def store_fresh(ctx: Context, source: Source) -> None:
    """Store a source as if its chunks had never existed."""
    for chunk in chunk_source(source).chunks:
        await ctx.database.connection.client.collection("chunks").document(chunk.chunk_id).delete()
    await ctx.database.connection.client.collection("sources").document(source.source_id).delete()
    await save(ctx, source, now=LATER)


async def read_dates(ctx: Context) -> list[datetime]:
    """Return the dates of chunks, by position."""
    stored = sorted((await read_chunks(ctx)).values(), key=lambda data: int(data["position"]))
    return [data["dated_at"] for data in stored]


async def read_texts(ctx: Context) -> list[str]:
    """Return the texts of chunks, by position."""
    stored = (await read_chunks(ctx)).values()
    return [data["content"] for data in sorted(stored, key=lambda data: data["position"])]


async def test_a_source_is_stored_with_all_its_fields(ctx: Context) -> None:
    chunked = chunk_source(BAKING)
    await save(ctx, BAKING)
    assert await read_documents(ctx, "sources") == {
        "baking": {
            "title": "Bread at Home",
            "author": "Ida Loaf",
            "type": "books",
            "source": "kindle",
            "url": "https://example.com/bread",
            "readwise_url": "https://readwise.io/bookreview/1",
            "tags": ["food"],
            "title_key": "bread at home",
            "facets": ["author:ida loaf", "category:books", "tag:dough", "tag:food"],
            "chunk_count": 3,
            "content_hash": chunked.content_hash,
            "created_at": NOON,
            "updated_at": NOON,
        }
    }


async def test_every_first_step_is_pending_on_a_new_chunk(ctx: Context) -> None:
    await save(ctx, SAILING)
    for data in (await read_documents(ctx, "chunks")).values():
        assert data["pending"] == dict.fromkeys(FIRST_STEPS, NOON)
        assert data["tries"] == {}
        assert data["parked"] == {}
        assert "deleted_at" not in data
        assert data["created_at"] == data["updated_at"] == NOON
        assert "embedding" not in data


async def test_ingest_counts_its_writes(ctx: Context) -> None:
    assert await save(ctx, BAKING, SAILING) == Counter(sources=2, created=5)
    assert await save(ctx, BAKING, SAILING) == Counter()


async def test_unchanged_sources_cost_a_read_each_in_one_round_trip(ctx: Context, app: App) -> None:
    await save(ctx, BAKING, SAILING)
    call_ctx = make_call_context(app)
    await save(call_ctx, BAKING, SAILING)
    assert get_read_cost(call_ctx) == ReadCost(round_trips=1, documents=2)


async def test_a_changed_source_costs_nothing_for_other_sources(ctx: Context, app: App) -> None:
    await save(ctx, BAKING, SAILING)
    call_ctx = make_call_context(app)
    await save(call_ctx, BAKING, replace(SAILING, tags=("sea",)))
    meter = call_ctx.meter
    sources, changed_chunks, record_of_forgetting = 2, 2, 1
    assert meter.documents_read == sources + changed_chunks + record_of_forgetting
    assert meter.documents_written == changed_chunks + 1  # and their source
    assert meter.round_trips == 3


async def test_a_source_without_chunks_is_deleted_with_its_chunks(ctx: Context) -> None:
    await save(ctx, BAKING, SAILING)
    assert await save(ctx, replace(BAKING, sections=())) == Counter(sources=1, deleted=3)
    assert set(await read_documents(ctx, "sources")) == {"sailing"}
    assert {data["source_id"] for data in (await read_chunks(ctx)).values()} == {"sailing"}


async def test_a_deleted_chunk_keeps_its_indexed_state(ctx: Context) -> None:
    chunk_id, *_ = await store_indexed(ctx, SAILING)
    results: dict[str, object] = {"knowledge_card": {"summary": "Reef."}, "cluster_id": ["c-1"]}
    failures: dict[str, object] = {"tries": {"embed": 2}, "parked": {"card": "too odd"}}
    await set_fields(ctx, f"chunks/{chunk_id}", {"facets": ["tag:sea"], **results, **failures})
    await save(ctx, drop_first(SAILING), now=LATER)
    assert await read_tombstones(ctx) == {
        chunk_id: {
            "indexed": INDEXED,
            "pending": {"index": LATER},
            "tries": {},
            "parked": {},
            "deleted_at": LATER,
        }
    }


async def test_chunks_are_deleted_in_small_commits(ctx: Context, app: App) -> None:
    """A deletion counts for more than a write, because it removes many index entries."""
    many = make_many(*(f"Note {n}." for n in range(60)))
    await save(ctx, many)
    call_ctx = make_call_context(app)
    assert await save(call_ctx, replace(many, sections=())) == Counter(sources=1, deleted=60)
    reads, commits = 2, 3
    assert call_ctx.meter.round_trips == reads + commits


async def test_no_reader_sees_a_deleted_chunk(ctx: Context) -> None:
    deleted, remaining = await store_indexed(ctx, SAILING)
    vector = (await read_documents(ctx, "chunks"))[deleted]["embedding"]
    await save(ctx, drop_first(SAILING))
    assert await Chunks(ctx.database).get(deleted) is None
    neighbours = await Chunks(ctx.database).find_nearest(tuple(vector), 10)
    assert [neighbour.document.id for neighbour in neighbours] == [remaining]


async def test_a_deleted_chunk_is_no_longer_compared(ctx: Context) -> None:
    await store_indexed(ctx, SAILING)
    await save(ctx, drop_first(SAILING), now=LATER)
    before = await read_tombstones(ctx)
    edited = replace(drop_first(SAILING), tags=("sea",))
    assert await save(ctx, edited) == Counter(sources=1, updated=1)
    assert await save(ctx, replace(SAILING, sections=())) == Counter(sources=1, deleted=1)
    assert await save(ctx, replace(SAILING, sections=())) == Counter()
    assert before.items() <= (await read_tombstones(ctx)).items()


async def test_a_text_that_returns_is_stored_as_a_new_chunk(ctx: Context) -> None:
    chunk_id, _ = await store_indexed(ctx, SAILING)
    await save(ctx, drop_first(SAILING))
    assert await save(ctx, SAILING, now=LATER) == Counter(sources=1, created=1, updated=1)
    data = (await read_documents(ctx, "chunks"))[chunk_id]
    await store_fresh(ctx, SAILING)
    new_data = (await read_documents(ctx, "chunks"))[chunk_id]
    assert data == new_data | {"indexed": INDEXED}


async def test_a_text_that_returns_has_no_vector(ctx: Context) -> None:
    chunk_id, _ = await store_indexed(ctx, SAILING)
    before = await Chunks(ctx.database).get(chunk_id)
    await save(ctx, replace(SAILING, sections=()))
    await save(ctx, SAILING)
    after = await Chunks(ctx.database).get(chunk_id)
    assert before is not None
    assert after is not None
    assert after.chunk == replace(before.chunk, dated_at=NOON)
    assert after.vector is None


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ("sea",)},
        {"author": "Ann Helm"},
        {"category": "books"},
        {"sections": (replace(SAILING.sections[0], highlighted_at=LATER), SAILING.sections[1])},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_changed_field_other_than_the_title_is_only_indexed_again(
    ctx: Context, change: dict[str, Any]
) -> None:
    chunk_id, _ = await store_indexed(ctx, SAILING)
    before = (await read_documents(ctx, "chunks"))[chunk_id]
    await save(ctx, replace(SAILING, **change), now=LATER)
    after = (await read_documents(ctx, "chunks"))[chunk_id]
    assert after["pending"] == {"index": LATER}
    assert after["embedding"] == before["embedding"]
    assert after["indexed"] == before["indexed"]


async def test_a_changed_title_is_embedded_and_indexed_again(ctx: Context) -> None:
    chunk_ids = await store_indexed(ctx, SAILING)
    await save(ctx, replace(SAILING, title="Under Full Sail"), now=LATER)
    stored = await read_documents(ctx, "chunks")
    for chunk_id in chunk_ids:
        assert stored[chunk_id]["pending"] == {"embed": LATER, "index": LATER}


async def test_an_edit_does_not_hasten_a_deferred_step(ctx: Context) -> None:
    await save(ctx, SAILING)
    chunk, _ = await ChunkQueue(ctx.database).load_pending("embed", NOON, 2)
    await ChunkQueue(ctx.database).defer("embed", chunk, "too odd", NOON)
    await save(ctx, replace(SAILING, author="Ann"), now=LATER)
    data = (await read_documents(ctx, "chunks"))[chunk.chunk_id]
    deferred = NOON + timedelta(minutes=2)
    assert data["pending"] == {"embed": deferred, "index": LATER, "card": NOON, "extract": NOON}
    assert data["tries"] == {"embed": 1}


async def test_a_step_that_is_pending_again_has_no_failed_tries(ctx: Context) -> None:
    """A new author is only indexed, a new title is embedded as well."""
    [chunk_id] = await store_indexed(ctx, make_many("Odd."))
    tries: dict[str, Any] = {"embed": 5, "index": 5}
    parked: dict[str, Any] = {"embed": "too odd", "index": "too odd"}
    await set_fields(ctx, f"chunks/{chunk_id}", {"tries": tries, "parked": parked})

    await save(ctx, replace(make_many("Odd."), author="Ann"))
    data = (await read_chunks(ctx))[chunk_id]
    assert data["tries"] == {"embed": 5}
    assert data["parked"] == {"embed": "too odd"}

    await save(ctx, replace(make_many("Odd."), title="Odder"))
    data = (await read_chunks(ctx))[chunk_id]
    assert data["tries"] == data["parked"] == {}


async def test_a_chunk_has_the_date_of_its_highlight_or_arrival(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    assert await read_dates(ctx) == [LONG_AGO, NOON]


async def test_an_edit_without_a_date_keeps_the_chunks_date(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    undated = replace(make_highlighted(None, None), tags=("sea",))
    assert await save(ctx, undated, now=LATER) == Counter(sources=1, updated=2)
    assert await read_dates(ctx) == [LONG_AGO, NOON]
    await save(ctx, replace(undated, title="Rewritten"), now=LATER)
    assert await read_dates(ctx) == [LONG_AGO, NOON]


async def test_a_stored_chunk_without_a_date_gets_that_of_its_arrival(ctx: Context) -> None:
    source = make_highlighted(None)
    await save(ctx, source)
    [chunk_id] = await read_chunks(ctx)
    await set_fields(ctx, f"chunks/{chunk_id}", {"dated_at": DELETE_FIELD, "pending": {}})
    await save(ctx, replace(source, tags=("new",)), now=LATER)
    data = (await read_chunks(ctx))[chunk_id]
    assert data["dated_at"] == NOON
    assert data["pending"] == {"index": LATER}


async def test_an_edit_with_a_date_changes_the_date(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    await save(ctx, make_highlighted(NOON, LONG_AGO), now=LATER)
    assert await read_dates(ctx) == [NOON, LONG_AGO]


async def test_a_text_that_returns_has_the_date_of_its_return(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    await save(ctx, replace(make_highlighted(None, None), sections=()))
    await save(ctx, make_highlighted(LONG_AGO, None), now=LATER)
    assert await read_dates(ctx) == [LONG_AGO, LATER]


async def test_a_repeated_text_survives_the_removal_of_other_chunks(ctx: Context) -> None:
    await save(ctx, make_many("Same.", "Other.", "Same."))
    counts = await save(ctx, make_many("Same.", "Same."))
    assert counts == Counter(sources=1, updated=2, deleted=1)
    assert await read_texts(ctx) == ["Same.", "Same."]


async def test_a_changed_chunk_keeps_its_creation_date(ctx: Context) -> None:
    await save(ctx, SAILING)
    await save(ctx, replace(SAILING, author="Ann"), now=LATER)
    for data in (await read_documents(ctx, "chunks")).values():
        assert data["author"] == "Ann"
        assert data["created_at"] == NOON
        assert data["updated_at"] == LATER


async def test_fields_of_jobs_survive_a_change_of_the_source(ctx: Context) -> None:
    await save(ctx, SAILING)
    results: dict[str, Any] = {"cluster_id": ["c-1"], "knowledge_card": {"summary": "Reef early."}}
    chunk_id = chunk_source(SAILING).chunks[0].chunk_id
    await ctx.database.connection.client.collection("chunks").document(chunk_id).update(results)
    await save(ctx, replace(SAILING, title="Under Full Sail"))
    data = (await read_documents(ctx, "chunks"))[chunk_id]
    assert data["title"] == "Under Full Sail"
    assert data.items() >= results.items()


async def test_many_chunks_are_all_stored_before_their_source(ctx: Context) -> None:
    texts = [f"Highlight {number}." for number in range(230)]  # a commit writes 200 at most
    await save(ctx, make_many(*texts))
    assert await read_texts(ctx) == texts
    await assert_source_came_last(ctx)


async def test_large_chunks_are_all_stored_before_their_source(ctx: Context) -> None:
    letter = "\U00010428"  # four bytes in UTF-8
    texts = [f"{number} {letter * 3000}" for number in range(180)]
    await save(ctx, make_many(*texts))
    assert await read_texts(ctx) == texts
    await assert_source_came_last(ctx)


async def assert_source_came_last(ctx: Context) -> None:
    """Assert that the chunks were written in several commits, and the source in the last."""
    chunk_times = [chunk.update_time for chunk in (await read_snapshots(ctx, "chunks")).values()]
    source = (await read_snapshots(ctx, "sources"))["many"]
    assert min(chunk_times) < max(chunk_times) <= source.update_time


async def test_a_language_is_stored_and_removed(ctx: Context) -> None:
    await save(ctx, replace(SAILING, language="en"))
    assert {data["language"] for data in (await read_chunks(ctx)).values()} == {"en"}
    await save(ctx, SAILING, now=LATER)
    stored = [*(await read_chunks(ctx)).values(), *(await read_documents(ctx, "sources")).values()]
    assert not any("language" in data for data in stored)
    assert not await save(ctx, SAILING, now=LATER)
