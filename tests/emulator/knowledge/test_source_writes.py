"""Ingest writes only what has changed in a source, in commits that Firestore accepts.

Jobs process a chunk in steps, such as `embed` and `index`. Its field `pending` contains the steps
still to do, `tries` their failed tries, and `parked` the steps that were given up. A deleted chunk
is a tombstone, without its text, until the index job has removed it from the index.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from shared.ai.vector_halves import WeightedVector
from shared.knowledge.chunk_repository import UNDATED, Chunks
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.writer.chunk_documents import FIRST_STEPS
from shared.writer.ingestion import Ingestion
from tests.support.clock import NOON
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields, store_sources
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.stored_documents import (
    read_chunk_texts,
    read_chunks,
    read_chunks_by_text,
    read_documents,
    read_snapshots,
    read_tombstones,
)

LATER = NOON + timedelta(days=1)
LONG_AGO = datetime(2011, 2, 3, 4, tzinfo=UTC)
ONE_PASSAGE = replace(SAILING, sections=SAILING.sections[1:])
INDEXED = {"terms": {"reef": 1, "mainsail": 1}, "facets": ["tag:sea"], "dated_at": 7}
"""The indexed state of a chunk, as the index job writes it."""


async def save(ctx: Context, *sources: Source, now: datetime = NOON) -> Counter[str]:
    return await Ingestion(ctx.database).save([chunk_source(source) for source in sources], now)


def make_many(*texts: str) -> Source:
    return Source("many", "Many", sections=tuple(Section(text) for text in texts))


def make_highlighted(*dates: datetime | None) -> Source:
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
    stored = sorted((await read_chunks(ctx)).values(), key=lambda data: int(data["position"]))
    return [data["dated_at"] for data in stored]


async def test_a_source_is_stored_with_all_its_fields(
    ctx: Context, app: App, snapshot: SnapshotAssertion
) -> None:
    """Storing it again writes nothing, and reads each source in one round trip."""
    assert await save(ctx, BAKING, SAILING) == Counter(sources=2, created=5)
    assert await read_documents(ctx, "sources") == snapshot(name="sources")
    chunks = await read_documents(ctx, "chunks")
    assert chunks[chunk_source(BAKING).chunks[0].chunk_id] == snapshot(name="chunk")
    for data in chunks.values():
        assert data["pending"] == dict.fromkeys(FIRST_STEPS, NOON)
    call_ctx = make_call_context(app)
    assert await save(call_ctx, BAKING, SAILING) == Counter()
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


async def test_a_deleted_chunk_keeps_its_indexed_state(ctx: Context) -> None:
    chunk_id, *_ = await store_indexed(ctx, SAILING)
    results: dict[str, object] = {"knowledge_card": {"summary": "Reef."}, "cluster_id": ["c-1"]}
    failures: dict[str, object] = {"tries": {"embed": 2}, "parked": {"card": "too odd"}}
    await set_fields(ctx, f"chunks/{chunk_id}", {"facets": ["tag:sea"], **results, **failures})
    await save(ctx, ONE_PASSAGE, now=LATER)
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
    many = make_many(*(f"Note {n}." for n in range(250)))
    await save(ctx, many, SAILING)
    call_ctx = make_call_context(app)
    assert await save(call_ctx, replace(many, sections=())) == Counter(sources=1, deleted=250)
    reads, commits = 2, 3
    assert call_ctx.meter.round_trips == reads + commits
    assert set(await read_documents(ctx, "sources")) == {"sailing"}
    assert {data["source_id"] for data in (await read_chunks(ctx)).values()} == {"sailing"}


async def test_no_reader_sees_a_deleted_chunk(ctx: Context) -> None:
    deleted, remaining = await store_indexed(ctx, SAILING)
    vector = (await read_documents(ctx, "chunks"))[deleted]["embedding"]
    await save(ctx, ONE_PASSAGE)
    assert await Chunks(ctx.database).get(deleted) is None
    neighbours = await Chunks(ctx.database).find_nearest(WeightedVector(tuple(vector)), 10)
    assert [neighbour.document.id for neighbour in neighbours] == [remaining]


async def test_a_deleted_chunk_is_no_longer_compared(ctx: Context) -> None:
    await store_indexed(ctx, SAILING)
    await save(ctx, ONE_PASSAGE, now=LATER)
    before = await read_tombstones(ctx)
    edited = replace(ONE_PASSAGE, tags=("sea",))
    assert await save(ctx, edited) == Counter(sources=1, updated=1)
    assert await save(ctx, replace(SAILING, sections=())) == Counter(sources=1, deleted=1)
    assert await save(ctx, replace(SAILING, sections=())) == Counter()
    assert before.items() <= (await read_tombstones(ctx)).items()


async def test_a_text_that_returns_is_stored_as_a_new_chunk(ctx: Context) -> None:
    """It has no vector."""
    chunk_id, _ = await store_indexed(ctx, SAILING)
    await save(ctx, ONE_PASSAGE)
    assert await save(ctx, SAILING, now=LATER) == Counter(sources=1, created=1, updated=1)
    data = (await read_documents(ctx, "chunks"))[chunk_id]
    await store_fresh(ctx, SAILING)
    new_data = (await read_documents(ctx, "chunks"))[chunk_id]
    assert data == new_data | {"indexed": INDEXED}
    assert "embedding" not in data


@pytest.mark.parametrize(
    "change",
    [
        {"tags": ("sea",)},
        {"author": "Ann Helm"},
        {"category": "books"},
        {"sections": (replace(SAILING.sections[0], highlighted_at=LATER), SAILING.sections[1])},
        {"title": "Under Full Sail"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_changed_field_other_than_the_title_is_only_indexed_again(
    ctx: Context, change: dict[str, Any]
) -> None:
    """A title is embedded, too. What jobs have made stays."""
    chunk_id, _ = await store_indexed(ctx, SAILING)
    results: dict[str, Any] = {"cluster_id": ["c-1"], "knowledge_card": {"summary": "Reef early."}}
    await set_fields(ctx, f"chunks/{chunk_id}", results)
    before = (await read_documents(ctx, "chunks"))[chunk_id]
    await save(ctx, replace(SAILING, **change), now=LATER)
    after = (await read_documents(ctx, "chunks"))[chunk_id]
    steps = ("index", "embed") if "title" in change else ("index",)
    assert after["pending"] == dict.fromkeys(steps, LATER)
    assert (after["created_at"], after["updated_at"]) == (before["created_at"], LATER)
    for name in ("embedding", "indexed", *results):
        assert after[name] == before[name]


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


async def test_an_edit_without_a_date_keeps_the_chunks_date(ctx: Context) -> None:
    """The day of an import is no date."""
    await save(ctx, make_highlighted(LONG_AGO, None))
    assert await read_dates(ctx) == [LONG_AGO, UNDATED]
    undated = replace(make_highlighted(None, None), tags=("sea",))
    assert await save(ctx, undated, now=LATER) == Counter(sources=1, updated=2)
    await save(ctx, replace(undated, title="Rewritten"), now=LATER)
    assert await read_dates(ctx) == [LONG_AGO, UNDATED]
    await save(ctx, make_highlighted(NOON, LONG_AGO), now=LATER)
    assert await read_dates(ctx) == [NOON, LONG_AGO]


async def test_a_repeated_text_survives_the_removal_of_other_chunks(ctx: Context) -> None:
    await save(ctx, make_many("Same.", "Other.", "Same."))
    counts = await save(ctx, make_many("Same.", "Same."))
    assert counts == Counter(sources=1, updated=2, deleted=1)
    assert await read_chunk_texts(ctx) == ["Same.", "Same."]


@pytest.mark.parametrize(("count", "text"), [(230, ""), (180, "\U00010428" * 6000)])
async def test_many_chunks_are_all_stored_before_their_source(
    ctx: Context, count: int, text: str
) -> None:
    """A commit has 200 writes at most, and fewer large ones: a letter has four bytes here."""
    texts = [f"{number} {text}".strip() for number in range(count)]
    source = chunk_source(make_many(*texts), "vertex")
    await Ingestion(ctx.database).save([source], NOON)
    assert sorted(await read_chunks_by_text(ctx)) == sorted(texts)
    chunk_times = [chunk.update_time for chunk in (await read_snapshots(ctx, "chunks")).values()]
    stored = (await read_snapshots(ctx, "sources"))["many"]
    assert min(chunk_times) < max(chunk_times) <= stored.update_time


async def test_a_language_is_stored_and_removed(ctx: Context) -> None:
    """Passages then have that of their texts."""
    await save(ctx, replace(SAILING, language="de"))
    assert {data["language"] for data in (await read_chunks(ctx)).values()} == {"de"}
    await save(ctx, SAILING, now=LATER)
    assert {data["language"] for data in (await read_chunks(ctx)).values()} == {"en"}
    assert not any("language" in data for data in (await read_documents(ctx, "sources")).values())
    assert not await save(ctx, SAILING, now=LATER)
