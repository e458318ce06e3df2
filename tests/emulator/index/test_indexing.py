"""Indexing chunks: one commit, with writes only for postings that change."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from functions.jobs.index.job import index_with
from shared.firestore.database import WriteConflict
from shared.index.bm25 import pack
from shared.index.facets import Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, PostingsTruncation, build_postings_writes
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import IndexChange, Indexing
from tests.support.clock import NOON
from tests.support.index_postings import (
    RacingIndexing,
    read_postings,
    read_postings_in_use,
    read_totals,
)
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import chunk_source, set_fields
from tests.support.stored_documents import read_chunks, read_documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.pipeline.indexing import ChunkToIndex
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

RYE: Final = make_named_facet(Kind.TAG, "rye")
RYE_LIST: Final = ("facets", RYE.id)
BREAD: Final = ("lexicon", "bread")


async def make_pending(ctx: Context, count: int) -> list[ChunkToIndex]:
    """Make chunks whose indexing is pending."""
    sections = tuple(Section(f"Note {number}.") for number in range(count))
    await Ingestion(ctx.database).save(
        [chunk_source(Source("notes", "N", sections=sections))], NOON
    )
    return await Indexing(ctx.database).load_pending(NOON, count)


def change(waiting: ChunkToIndex, date: int, tf: int = 1) -> IndexChange:
    """Return a chunk that gains the tag rye and the term bread."""
    return IndexChange(waiting, IndexedState({"bread": tf}, {RYE.id: "Rye"}, date))


def make_removal(waiting: ChunkToIndex) -> IndexChange:
    return IndexChange(waiting, NOT_INDEXED)


def truncate_to(ctx: Context, cap: int, slack: int) -> PostingsTruncation:
    """Return the truncation of the knowledge base's postings with these limits."""
    return PostingsTruncation(ctx.database, KNOWLEDGE, cap, slack)


async def make_pending_again(ctx: Context) -> list[ChunkToIndex]:
    """Return the same chunks, pending again."""
    await Indexing(ctx.database).requeue(NOON)
    return await Indexing(ctx.database).load_pending(NOON, 100)


async def test_a_chunk_waits_until_it_is_indexed(ctx: Context) -> None:
    pending = await make_pending(ctx, 2)
    await Indexing(ctx.database).apply([change(pending[0], 5, tf=3)])
    assert await Indexing(ctx.database).load_pending(NOON, 9) == [pending[1]]
    lists = await read_postings(ctx)
    chunk_id = pending[0].chunk_id
    assert lists.keys() == {BREAD, RYE_LIST}
    assert {"df": 1, "held": 1, "postings": {chunk_id: pack(3, 3)}} == lists[BREAD]
    described = {"kind": "tag", "key": "rye", "name": "Rye"}
    assert described | {"df": 1, "held": 1, "postings": {chunk_id: 5}} == lists[RYE_LIST]
    assert await read_totals(ctx) == {"documents": 1, "length": 3}


async def test_nothing_is_written_when_one_chunk_was_edited(ctx: Context) -> None:
    pending = await make_pending(ctx, 2)
    await set_fields(ctx, f"chunks/{pending[1].chunk_id}", {"position": 7})
    with pytest.raises(WriteConflict):
        await Indexing(ctx.database).apply([change(item, 5) for item in pending])
    assert await read_postings(ctx) == {}
    assert all("index" in data["pending"] for data in (await read_chunks(ctx)).values())


async def test_emptied_postings_stay_out_of_use(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(item, 5) for item in await make_pending(ctx, 2)])
    one, other = await make_pending_again(ctx)
    await Indexing(ctx.database).apply([make_removal(one)])
    assert [data["df"] for data in (await read_postings(ctx)).values()] == [1, 1]
    await Indexing(ctx.database).apply([make_removal(other)])
    assert await read_postings_in_use(ctx) == {}
    assert await read_totals(ctx) == {"documents": 0, "length": 0}


async def test_a_removal_from_missing_postings_finds_none(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(item, 5) for item in await make_pending(ctx, 1)])
    await ctx.database.document(*BREAD).delete()
    await Indexing(ctx.database).apply(
        [make_removal(entry) for entry in await make_pending_again(ctx)]
    )
    assert (await InvertedIndex(ctx.database, KNOWLEDGE).read(["bread"], [RYE])).terms == {}


async def test_a_document_saved_by_another_during_the_run_stays(ctx: Context) -> None:
    """The index job removes the last chunk that it knows of a term; another adds one meanwhile."""
    await Indexing(ctx.database).apply([change(item, 5) for item in await make_pending(ctx, 1)])
    await set_fields(
        ctx, f"chunks/{(await make_pending_again(ctx))[0].chunk_id}", {"deleted_at": NOON}
    )

    async def another() -> None:
        state = IndexedState({"bread": 1}, {RYE.id: "Rye"}, 5)
        difference = IndexDifference("another", NOT_INDEXED, state)
        await ctx.database.commit(build_postings_writes(ctx.database, KNOWLEDGE, [difference]))

    indexing = RacingIndexing(ctx.database)
    indexing.race = another
    await index_with(indexing, ctx, make_ample_budget())
    stored = await read_postings(ctx)
    for name in (BREAD, RYE_LIST):
        assert stored[name]["df"] == 1
        assert list(stored[name]["postings"]) == ["another"]
    assert await read_totals(ctx) == {"documents": 1, "length": 1}


async def test_an_unchanged_chunk_costs_one_write(ctx: Context, meter: Meter) -> None:
    await Indexing(ctx.database).apply([change(item, 5) for item in await make_pending(ctx, 3)])
    pending = await make_pending_again(ctx)
    before = meter.documents_written
    await Indexing(ctx.database).apply([change(entry, 5) for entry in pending])
    assert meter.documents_written - before == 3


async def test_a_new_name_is_written_where_nothing_else_changes(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(item, 5) for item in await make_pending(ctx, 1)])
    before = await read_postings(ctx)
    (pending,) = await make_pending_again(ctx)
    renamed = IndexedState({"bread": 1}, {RYE.id: "RYE"}, 5)
    await Indexing(ctx.database).apply([IndexChange(pending, renamed)])
    after = await read_postings(ctx)
    assert before[RYE_LIST] | {"name": "RYE"} == after[RYE_LIST]


async def test_postings_that_grew_too_long_are_found(ctx: Context) -> None:
    indexing, truncation = Indexing(ctx.database), truncate_to(ctx, cap=3, slack=2)
    pending = await make_pending(ctx, 6)
    await indexing.apply([change(item, 5) for item in pending[:4]])
    assert await truncation.find_overlong(9) == []
    await indexing.apply([change(pending[4], 5)])
    grown = await truncation.find_overlong(9)
    assert sorted(grown) == [RYE_LIST, BREAD]
    await truncation.truncate(grown)
    assert [data["held"] for data in (await read_postings(ctx)).values()] == [3, 3]
    await indexing.apply([change(pending[5], 5)])
    assert await truncation.find_overlong(9) == []


async def test_removals_do_not_make_long_postings_longer(ctx: Context) -> None:
    """The document frequency is not mistaken for the number of entries."""
    indexing, truncation = Indexing(ctx.database), truncate_to(ctx, cap=2, slack=1)
    await indexing.apply([change(item, 5) for item in await make_pending(ctx, 9)])
    await truncation.truncate([RYE_LIST, BREAD])
    pending = await make_pending_again(ctx)
    await indexing.apply([make_removal(entry) for entry in pending[:3]])
    assert await truncation.find_overlong(9) == []
    assert [data["df"] for data in (await read_postings(ctx)).values()] == [6, 6]


async def test_truncated_postings_keep_best_or_newest_entries(ctx: Context) -> None:
    indexing, truncation = Indexing(ctx.database), truncate_to(ctx, cap=2, slack=1)
    pending = await make_pending(ctx, 5)
    await indexing.apply(
        [change(entry, 10 + number, tf=9 - number) for number, entry in enumerate(pending)]
    )
    await truncation.truncate(await truncation.find_overlong(9))
    lists = await read_postings(ctx)
    names = [item.chunk_id for item in pending]
    assert lists[BREAD]["postings"].keys() == {names[0], names[1]}
    assert lists[RYE_LIST]["postings"] == {names[3]: 13, names[4]: 14}
    assert [data["df"] for data in lists.values()] == [5, 5]
    assert lists[RYE_LIST]["since"] == 13


async def test_truncated_postings_are_complete_after_since(ctx: Context) -> None:
    """If some chunks of a date are dropped, postings are complete only after that date."""
    indexing, truncation = Indexing(ctx.database), truncate_to(ctx, cap=2, slack=1)
    await indexing.apply([change(item, 5) for item in await make_pending(ctx, 4)])
    await truncation.truncate(await truncation.find_overlong(9))
    assert (await read_postings(ctx))[RYE_LIST]["since"] == 6


async def test_since_survives_a_second_truncation(ctx: Context) -> None:
    indexing, truncation = Indexing(ctx.database), truncate_to(ctx, cap=3, slack=1)
    pending = await make_pending(ctx, 8)
    await indexing.apply([change(item, 50) for item in pending[:4]])
    await truncation.truncate(await truncation.find_overlong(9))
    assert (await read_postings(ctx))[RYE_LIST]["since"] == 51
    kept = (await read_postings(ctx))[RYE_LIST]["postings"]
    present = [item for item in await make_pending_again(ctx) if item.chunk_id in kept]
    await indexing.apply([make_removal(item) for item in present])
    fresh = [entry for entry in await make_pending_again(ctx) if entry.chunk_id not in kept]
    late = [element for element in fresh if element.indexed == NOT_INDEXED]
    await indexing.apply([change(item, 20) for item in late])
    await truncation.truncate(await truncation.find_overlong(9))
    assert (await read_postings(ctx))[RYE_LIST]["since"] == 51


async def test_postings_that_are_not_too_long_stay_whole(ctx: Context) -> None:
    """An entry that is written repeatedly is counted each time, until the next truncation."""
    indexing, truncation = Indexing(ctx.database), truncate_to(ctx, cap=3, slack=1)
    await indexing.apply([change(item, 5) for item in await make_pending(ctx, 2)])
    await indexing.apply([change(entry, 6) for entry in await make_pending_again(ctx)])
    assert await truncation.find_overlong(9) == [RYE_LIST]
    await truncation.truncate([RYE_LIST])
    pending = (await read_postings(ctx))[RYE_LIST]
    assert pending["held"] == 2
    assert len(pending["postings"]) == 2
    assert "since" not in pending


async def test_deleted_postings_are_not_truncated(ctx: Context) -> None:
    await truncate_to(ctx, cap=2, slack=1).truncate([BREAD])
    assert await read_postings(ctx) == {}


async def test_every_chunk_is_pending_again_on_request(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(item, 5) for item in await make_pending(ctx, 3)])
    later = NOON + timedelta(hours=1)
    assert await Indexing(ctx.database).requeue(later) == 3
    assert await Indexing(ctx.database).load_pending(NOON, 9) == []
    assert len(await Indexing(ctx.database).load_pending(later, 9)) == 3


async def test_the_version_is_stored_with_the_totals(ctx: Context) -> None:
    assert await Indexing(ctx.database).load_version() == {}
    await Indexing(ctx.database).save_version({"analysis": 7})
    assert await Indexing(ctx.database).load_version() == {"analysis": 7}
    assert await read_documents(ctx, "meta") == {"lexicon": {"analysis": 7}}
