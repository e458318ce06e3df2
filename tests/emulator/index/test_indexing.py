"""`Indexing` applies changes of chunks to postings in one commit, and writes only differences.

Postings are the list of chunks for a term or a facet, such as a tag. They have the document
frequency `df`, and `held`, an upper bound of their entries. Truncated postings of a facet contain
all chunks that are dated at `since` or later.
"""

from typing import Final

import pytest

from functions.jobs.index.job import index_with
from shared.core.meter import Meter
from shared.firestore.database import WriteConflict
from shared.index.bm25 import pack
from shared.index.facets import Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, PostingsTruncation, build_postings_writes
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.writer.indexing import ChunkToIndex, IndexChange, Indexing, plan_indexing
from shared.writer.ingestion import Ingestion
from tests.support.clock import NOON
from tests.support.index_history import RacingIndexing
from tests.support.index_postings import read_postings, read_totals
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import chunk_source, set_fields
from tests.support.stored_documents import read_chunks, read_documents

RYE: Final = make_named_facet(Kind.TAG, "rye")
RYE_POSTINGS: Final = ("facets", RYE.id)
BREAD_POSTINGS: Final = ("lexicon", "bread")


async def store_pending(ctx: Context, count: int) -> list[ChunkToIndex]:
    sections = tuple(Section(f"Note {number}.") for number in range(count))
    await Ingestion(ctx.database).save(
        [chunk_source(Source("notes", "N", sections=sections))], NOON
    )
    return await Indexing(ctx.database).load_pending(NOON, count)


def make_addition(chunk: ChunkToIndex, date: int = 5, tf: int = 1) -> IndexChange:
    return plan_indexing(chunk, IndexedState({"bread": tf}, {RYE.id: "Rye"}, date, tf))


def make_removal(chunk: ChunkToIndex) -> IndexChange:
    return plan_indexing(chunk, NOT_INDEXED)


async def store_indexed(ctx: Context, count: int) -> None:
    chunks = await store_pending(ctx, count)
    await Indexing(ctx.database).apply([make_addition(chunk) for chunk in chunks])


async def requeue(ctx: Context) -> list[ChunkToIndex]:
    await Indexing(ctx.database).requeue(NOON)
    return await Indexing(ctx.database).load_pending(NOON, 100)


async def test_an_indexed_chunk_is_in_postings_and_no_longer_pending(ctx: Context) -> None:
    chunk, other_chunk = await store_pending(ctx, 2)
    await Indexing(ctx.database).apply([make_addition(chunk, date=5, tf=3)])
    assert await Indexing(ctx.database).load_pending(NOON, 9) == [other_chunk]
    postings = await read_postings(ctx)
    assert postings == {
        BREAD_POSTINGS: {"df": 1, "held": 1, "postings": {chunk.chunk_id: pack(3, 3)}},
        RYE_POSTINGS: {
            "kind": "tag",
            "key": "rye",
            "name": "Rye",
            "df": 1,
            "held": 1,
            "postings": {chunk.chunk_id: 5},
        },
    }
    assert await read_totals(ctx) == {"documents": 1, "length": 3}


async def test_nothing_is_written_when_one_chunk_was_edited(ctx: Context) -> None:
    pending = await store_pending(ctx, 2)
    await set_fields(ctx, f"chunks/{pending[1].chunk_id}", {"position": 7})
    with pytest.raises(WriteConflict):
        await Indexing(ctx.database).apply([make_addition(chunk) for chunk in pending])
    assert await read_postings(ctx) == {}
    assert all("index" in data["pending"] for data in (await read_chunks(ctx)).values())


async def test_removing_a_chunk_from_missing_postings_creates_none(ctx: Context) -> None:
    await store_indexed(ctx, 1)
    await ctx.database.connection.client.document(f"{'/'.join(BREAD_POSTINGS)}").delete()
    await Indexing(ctx.database).apply([make_removal(chunk) for chunk in await requeue(ctx)])
    assert (await InvertedIndex(ctx.database, KNOWLEDGE).read(["bread"], [RYE])).terms == {}


async def test_an_entry_added_during_the_run_stays(ctx: Context) -> None:
    """The job removes the only entry of postings. Another process adds one before the commit."""
    await store_indexed(ctx, 1)
    [chunk] = await requeue(ctx)
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"deleted_at": NOON})

    async def add_entry() -> None:
        state = IndexedState({"bread": 1}, {RYE.id: "Rye"}, 5, 1)
        difference = IndexDifference("another", NOT_INDEXED, state)
        await ctx.database.commit(build_postings_writes(KNOWLEDGE, [difference]))

    indexing = RacingIndexing(ctx.database)
    indexing.race = add_entry
    await index_with(indexing, ctx, make_ample_budget())
    stored = await read_postings(ctx)
    for name in (BREAD_POSTINGS, RYE_POSTINGS):
        assert stored[name]["df"] == 1
        assert list(stored[name]["postings"]) == ["another"]
    assert await read_totals(ctx) == {"documents": 1, "length": 1}


async def test_only_what_changed_is_written(ctx: Context, meter: Meter) -> None:
    """An unchanged chunk costs a write, and a tag's new spelling another."""
    await store_indexed(ctx, 3)
    before = await read_postings(ctx)
    first, *others = await requeue(ctx)
    written_before = meter.documents_written
    renamed = plan_indexing(first, IndexedState({"bread": 1}, {RYE.id: "RYE"}, 5, 1))
    await Indexing(ctx.database).apply([renamed, *map(make_addition, others)])
    assert meter.documents_written - written_before == 3 + 1
    spelling = {RYE_POSTINGS: before[RYE_POSTINGS] | {"name": "RYE"}}
    assert await read_postings(ctx) == before | spelling


async def test_truncated_postings_are_complete_after_since(ctx: Context) -> None:
    """If some chunks of a date are dropped, postings are complete only after that date.

    This is so after a second truncation, too: all entries leave, and older chunks are added.
    """
    indexing, truncation = Indexing(ctx.database), PostingsTruncation(ctx.database, KNOWLEDGE, 3, 1)
    chunks = await store_pending(ctx, 8)
    await indexing.apply([make_addition(chunk, date=50) for chunk in chunks[:4]])
    await truncation.truncate(await truncation.find_overlong(9))
    postings = (await read_postings(ctx))[RYE_POSTINGS]
    assert (postings["df"], postings["held"], postings["since"]) == (4, 3, 51)

    entries = [chunk for chunk in await requeue(ctx) if chunk.chunk_id in postings["postings"]]
    await indexing.apply([make_removal(chunk) for chunk in entries])
    assert await truncation.find_overlong(9) == []  # removals do not make postings longer
    late = {chunk.chunk_id for chunk in chunks[4:]}
    added = [chunk for chunk in await requeue(ctx) if chunk.chunk_id in late]
    await indexing.apply([make_addition(chunk, date=20) for chunk in added])
    await truncation.truncate(await truncation.find_overlong(9))
    assert (await read_postings(ctx))[RYE_POSTINGS]["since"] == 51


async def test_postings_counted_too_long_stay_whole_if_they_fit(ctx: Context) -> None:
    """`held` counts an entry each time that it is written, until the next truncation."""
    indexing, truncation = Indexing(ctx.database), PostingsTruncation(ctx.database, KNOWLEDGE, 3, 1)
    await store_indexed(ctx, 2)
    await indexing.apply([make_addition(chunk, 6) for chunk in await requeue(ctx)])
    assert await truncation.find_overlong(9) == [RYE_POSTINGS]
    await truncation.truncate([RYE_POSTINGS])
    postings = (await read_postings(ctx))[RYE_POSTINGS]
    assert postings["held"] == 2
    assert len(postings["postings"]) == 2
    assert "since" not in postings


async def test_the_index_version_is_stored_with_the_totals(ctx: Context) -> None:
    assert await Indexing(ctx.database).load_version() == {}
    await Indexing(ctx.database).save_version({"analysis": 7})
    assert await Indexing(ctx.database).load_version() == {"analysis": 7}
    assert await read_documents(ctx, "meta") == {"lexicon": {"analysis": 7}}
