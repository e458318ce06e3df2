"""Ingest writes only what differs, in commits that Firestore accepts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.firestore.leases import Leases
from shared.knowledge.chunk_repository import FIRST_STEPS, Chunks
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields, store_sources
from tests.support.stored_documents import (
    read_chunks,
    read_documents,
    read_snapshots,
    read_tombstones,
)

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2011, 2, 3, 4, tzinfo=UTC)
INDEXED = {"terms": {"reef": 1, "mainsail": 1}, "facets": ["tag:sea"], "dated_at": 7}
"""The indexed state of a chunk, as the index job writes it."""


async def save(ctx: Context, *sources: Source, now: datetime = NOON) -> Counter[str]:
    return await Ingestion(ctx.database).save([chunk_source(source) for source in sources], now)


def make_many(*texts: str) -> Source:
    return Source("many", "Many", sections=tuple(Section(text) for text in texts))


def drop_first(source: Source) -> Source:
    return replace(source, sections=source.sections[1:])


def make_highlighted(*moments: datetime | None) -> Source:
    """Return a source with one highlight for each moment."""
    sections = (
        Section(f"Highlight {place}.", highlighted_at=moment)
        for place, moment in enumerate(moments)
    )
    return Source("dated", "Dated", sections=tuple(sections))


async def store_indexed(ctx: Context, source: Source) -> list[str]:
    """Store a source with no pending steps, as when every job has run; return its chunk ids."""
    chunk_ids = [chunk.chunk_id for chunk in await store_sources(ctx, source)]
    for chunk_id in chunk_ids:
        done = {"indexed": INDEXED, "pending": {}}
        await ctx.database.document("chunks", chunk_id).update(done)
    return chunk_ids


async def store_fresh(ctx: Context, source: Source) -> None:
    """Store a source as if its chunks had never existed."""
    for chunk in chunk_source(source).chunks:
        await ctx.database.document("chunks", chunk.chunk_id).delete()
    await ctx.database.document("sources", source.source_id).delete()
    await save(ctx, source, now=LATER)


async def read_dates(ctx: Context) -> list[datetime]:
    """Return the dates of chunks, by position."""
    stored = sorted((await read_chunks(ctx)).values(), key=lambda data: int(data["position"]))
    return [data["dated_at"] for data in stored]


async def read_contents(ctx: Context) -> list[str]:
    stored = (await read_chunks(ctx)).values()
    return [data["content"] for data in sorted(stored, key=lambda data: data["position"])]


async def test_a_sources_document_describes_it(ctx: Context) -> None:
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
        assert (data["tries"], data["parked"], "deleted_at" in data) == ({}, {}, False)
        assert (data["created_at"], data["updated_at"]) == (NOON, NOON)
        assert "embedding" not in data


async def test_writes_are_counted(ctx: Context) -> None:
    assert await save(ctx, BAKING, SAILING) == Counter(sources=2, created=5)
    assert await save(ctx, BAKING, SAILING) == Counter()


async def test_unchanged_sources_cost_one_read_each_in_one_round_trip(
    ctx: Context, app: App
) -> None:
    await save(ctx, BAKING, SAILING)
    meter = Meter()
    await save(app.context(Caller(), meter), BAKING, SAILING)
    assert (meter.documents_read, meter.documents_written, meter.round_trips) == (2, 0, 1)


async def test_a_changed_source_costs_its_chunks_not_its_neighbours(ctx: Context, app: App) -> None:
    await save(ctx, BAKING, SAILING)
    meter = Meter()
    await save(app.context(Caller(), meter), BAKING, replace(SAILING, tags=("sea",)))
    assert (meter.documents_read, meter.documents_written, meter.round_trips) == (5, 3, 3)


async def test_a_source_without_chunks_is_deleted_with_its_chunks(ctx: Context) -> None:
    await save(ctx, BAKING, SAILING)
    assert await save(ctx, replace(BAKING, sections=())) == Counter(sources=1, deleted=3)
    assert set(await read_documents(ctx, "sources")) == {"sailing"}
    assert {data["source_id"] for data in (await read_chunks(ctx)).values()} == {"sailing"}


async def test_a_deleted_chunk_keeps_its_indexed_state(ctx: Context) -> None:
    chunk_id, *_ = await store_indexed(ctx, SAILING)
    made: dict[str, object] = {"knowledge_card": {"summary": "Reef."}, "cluster_id": ["c-1"]}
    work: dict[str, object] = {"tries": {"embed": 2}, "parked": {"card": "too odd"}}
    await set_fields(ctx, f"chunks/{chunk_id}", {"facets": ["tag:sea"], **made, **work})
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


async def test_a_commit_deletes_few_chunks_because_of_vectors(ctx: Context, meter: Meter) -> None:
    many = Source("many", "Many", sections=tuple(Section(f"Note {n}.") for n in range(60)))
    await save(ctx, many)
    before = meter.round_trips
    assert await save(ctx, replace(many, sections=())) == Counter(sources=1, deleted=60)
    reads, commits = 2, 3
    assert meter.round_trips - before == reads + commits


async def test_no_reader_sees_a_deleted_chunk(ctx: Context) -> None:
    gone, remaining = await store_indexed(ctx, SAILING)
    vector = (await read_documents(ctx, "chunks"))[gone]["embedding"]
    await save(ctx, drop_first(SAILING))
    assert await Chunks(ctx.database).get(gone) is None
    assert [
        item.document.id for item in await Chunks(ctx.database).find_nearest(tuple(vector), 10)
    ] == [remaining]


async def test_a_deleted_chunk_is_no_longer_compared(ctx: Context) -> None:
    await store_indexed(ctx, SAILING)
    await save(ctx, drop_first(SAILING), now=LATER)
    before = await read_tombstones(ctx)
    edited = replace(drop_first(SAILING), tags=("sea",))
    assert await save(ctx, edited) == Counter(sources=1, updated=1)
    assert await save(ctx, replace(SAILING, sections=())) == Counter(sources=1, deleted=1)
    assert await save(ctx, replace(SAILING, sections=())) == Counter()
    assert before.items() <= (await read_tombstones(ctx)).items()


async def test_a_text_that_comes_back_is_a_new_chunk(ctx: Context) -> None:
    chunk_id, _ = await store_indexed(ctx, SAILING)
    await save(ctx, drop_first(SAILING))
    assert await save(ctx, SAILING, now=LATER) == Counter(sources=1, created=1, updated=1)
    data = (await read_documents(ctx, "chunks"))[chunk_id]
    await store_fresh(ctx, SAILING)
    assert (await read_documents(ctx, "chunks"))[chunk_id] | {"indexed": INDEXED} == data


async def test_a_text_that_comes_back_is_read_again(ctx: Context) -> None:
    gone, _ = await store_indexed(ctx, SAILING)
    before = await Chunks(ctx.database).get(gone)
    await save(ctx, replace(SAILING, sections=()))
    await save(ctx, SAILING)
    after = await Chunks(ctx.database).get(gone)
    assert before is not None
    assert after is not None
    assert (replace(before.chunk, dated_at=NOON), None) == (after.chunk, after.vector)


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
async def test_a_changed_tag_is_indexed_again_but_not_embedded(
    ctx: Context, change: dict[str, Any]
) -> None:
    chunk_id, _ = await store_indexed(ctx, SAILING)
    before = (await read_documents(ctx, "chunks"))[chunk_id]
    await save(ctx, replace(SAILING, **change), now=LATER)
    after = (await read_documents(ctx, "chunks"))[chunk_id]
    assert after["pending"] == {"index": LATER}
    assert [before[name] for name in ("embedding", "indexed")] == [
        after[name] for name in ("embedding", "indexed")
    ]


async def test_a_changed_title_is_embedded_and_indexed_again(ctx: Context) -> None:
    chunk_ids = await store_indexed(ctx, SAILING)
    await save(ctx, replace(SAILING, title="Under Full Sail"), now=LATER)
    stored = await read_documents(ctx, "chunks")
    expected = {"embed": LATER, "index": LATER}
    assert [stored[name]["pending"] for name in chunk_ids] == [expected, expected]


async def test_an_edit_does_not_hasten_a_deferred_step(ctx: Context) -> None:
    await save(ctx, SAILING)
    chunk, _ = await ChunkQueue(ctx.database).load_pending("embed", NOON, 2)
    await ChunkQueue(ctx.database).defer("embed", chunk, "too odd", NOON)
    await save(ctx, replace(SAILING, author="Ann"), now=LATER)
    data = (await read_documents(ctx, "chunks"))[chunk.chunk_id]
    waiting = {"embed": NOON + timedelta(minutes=2), "index": LATER, "card": NOON, "extract": NOON}
    assert data["pending"] == waiting
    assert data["tries"] == {"embed": 1}


async def test_a_step_pending_again_has_all_its_tries(ctx: Context) -> None:
    (chunk_id,) = await store_indexed(ctx, make_many("Odd."))
    tried: dict[str, Any] = {"embed": 5, "index": 5}
    parked: dict[str, Any] = {"embed": "too odd", "index": "too odd"}
    await set_fields(ctx, f"chunks/{chunk_id}", {"tries": tried, "parked": parked})
    await save(ctx, replace(make_many("Odd."), author="Ann"))
    data = (await read_chunks(ctx))[chunk_id]
    assert (data["tries"], data["parked"]) == ({"embed": 5}, {"embed": "too odd"})
    await save(ctx, replace(make_many("Odd."), title="Odder"))
    data = (await read_chunks(ctx))[chunk_id]
    assert (data["tries"], data["parked"]) == ({}, {})


async def test_a_chunk_is_dated_by_highlight_or_arrival(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    assert await read_dates(ctx) == [LONG_AGO, NOON]


async def test_an_edit_without_a_date_keeps_the_chunks_date(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    undated = replace(make_highlighted(None, None), tags=("sea",))
    assert await save(ctx, undated, now=LATER) == Counter(sources=1, updated=2)
    assert await read_dates(ctx) == [LONG_AGO, NOON]
    await save(ctx, replace(undated, title="Rewritten"), now=LATER)
    assert await read_dates(ctx) == [LONG_AGO, NOON]


async def test_a_chunk_without_a_date_is_dated_by_arrival(ctx: Context) -> None:
    old = make_highlighted(None)
    await save(ctx, old)
    (chunk_id,) = await read_chunks(ctx)
    await set_fields(ctx, f"chunks/{chunk_id}", {"dated_at": DELETE_FIELD, "pending": []})
    await save(ctx, replace(old, tags=("new",)), now=LATER)
    data = (await read_chunks(ctx))[chunk_id]
    assert (data["dated_at"], data["pending"]) == (NOON, {"index": LATER})


async def test_an_edit_with_a_date_changes_the_date(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    await save(ctx, make_highlighted(NOON, LONG_AGO), now=LATER)
    assert await read_dates(ctx) == [NOON, LONG_AGO]


async def test_a_text_that_comes_back_is_dated_by_its_return(ctx: Context) -> None:
    await save(ctx, make_highlighted(LONG_AGO, None))
    await save(ctx, replace(make_highlighted(None, None), sections=()))
    await save(ctx, make_highlighted(LONG_AGO, None), now=LATER)
    assert await read_dates(ctx) == [LONG_AGO, LATER]


async def test_a_repeat_keeps_its_id_when_others_are_removed(ctx: Context) -> None:
    await save(ctx, make_many("Same.", "Other.", "Same."))
    counts = await save(ctx, make_many("Same.", "Same."))
    assert counts == Counter(sources=1, updated=2, deleted=1)
    assert await read_contents(ctx) == ["Same.", "Same."]


async def test_a_chunk_keeps_the_day_it_was_made(ctx: Context) -> None:
    await save(ctx, SAILING)
    await save(ctx, replace(SAILING, author="Ann"), now=LATER)
    for data in (await read_documents(ctx, "chunks")).values():
        assert (data["author"], data["created_at"], data["updated_at"]) == ("Ann", NOON, LATER)


async def test_fields_of_jobs_survive_a_change_of_the_source(ctx: Context) -> None:
    await save(ctx, SAILING)
    made: dict[str, Any] = {"cluster_id": ["c-1"], "knowledge_card": {"summary": "Reef early."}}
    chunk_id = chunk_source(SAILING).chunks[0].chunk_id
    await ctx.database.document("chunks", chunk_id).update(made)
    await save(ctx, replace(SAILING, title="Under Full Sail"))
    data = (await read_documents(ctx, "chunks"))[chunk_id]
    assert (data["title"], {key: data[key] for key in made}) == ("Under Full Sail", made)


async def test_many_chunks_take_several_commits_and_the_source_is_last(ctx: Context) -> None:
    await save(ctx, make_many(*(f"Highlight {number}." for number in range(230))))
    assert await read_contents(ctx) == [f"Highlight {number}." for number in range(230)]
    await assert_source_came_last(ctx)


async def test_large_chunks_take_some_commits_and_the_source_is_last(ctx: Context) -> None:
    letter = "\U00010428"  # four bytes in UTF-8
    texts = [f"{number} {letter * 3000}" for number in range(180)]
    await save(ctx, make_many(*texts))
    assert await read_contents(ctx) == texts
    await assert_source_came_last(ctx)


async def assert_source_came_last(ctx: Context) -> None:
    written = [chunk.update_time for chunk in (await read_snapshots(ctx, "chunks")).values()]
    source = (await read_snapshots(ctx, "sources"))["many"]
    assert min(written) < max(written) <= source.update_time


async def test_a_run_killed_between_commits_is_completed_later(ctx: Context, app: App) -> None:
    source = make_many(*(f"Highlight {number}." for number in range(230)))
    dying = app.context(Caller(), Meter())
    moments = [NOON, NOON]  # for taking the lease and for one renewal
    await Leases(dying.database).acquire("ingest", 30, moments.pop)
    with pytest.raises(IndexError):
        await save(dying, source)
    [stored] = (await read_documents(ctx, "sources")).values()
    assert (len(await read_contents(ctx)), stored["chunk_count"]) == (200, 200)
    assert await save(ctx, source) == Counter(sources=1, created=30)
    [stored] = (await read_documents(ctx, "sources")).values()
    assert (stored["chunk_count"], stored["content_hash"]) == (
        230,
        chunk_source(source).content_hash,
    )
    assert "incomplete" not in stored
    assert await read_contents(ctx) == [section.text for section in source.sections]


async def test_a_language_is_stored_and_removed(ctx: Context) -> None:
    await save(ctx, replace(SAILING, language="en"))
    assert {data["language"] for data in (await read_chunks(ctx)).values()} == {"en"}
    await save(ctx, SAILING, now=LATER)
    stored = [*(await read_chunks(ctx)).values(), *(await read_documents(ctx, "sources")).values()]
    assert not any("language" in data for data in stored)
    assert not await save(ctx, SAILING, now=LATER)
