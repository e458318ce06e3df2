"""Changing the lists: all at once, at the cost of what changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from shared.firestore.database import WriteConflict
from shared.index.bm25 import pack
from shared.index.facets import Kind, named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import postings_changes, truncation_policies
from shared.index.postings import KNOWLEDGE
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import IndexChange, Indexing
from tests.support.index_lists import NOON, stored_lists, stored_totals
from tests.support.knowledge import in_chunks, write
from tests.support.stored_documents import chunks, documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.pipeline.indexing import ChunkToIndex
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

KEEP: Final = truncation_policies(KNOWLEDGE)
RYE: Final = named_facet(Kind.TAG, "rye")
RYE_LIST: Final = ("facets", RYE.id)
BREAD: Final = ("lexicon", "bread")


async def waiting(ctx: Context, count: int) -> list[ChunkToIndex]:
    """Chunks that wait."""
    sections = tuple(Section(f"Note {number}.") for number in range(count))
    await Ingestion(ctx.database).save([in_chunks(Source("notes", "N", sections=sections))], NOON)
    return await Indexing(ctx.database).pending(NOON, count)


def change(waiting: ChunkToIndex, date: int, tf: int = 1) -> IndexChange:
    """It bears the tag rye, and holds the term bread."""
    return IndexChange(waiting, IndexedState({"bread": tf}, {RYE.id: "Rye"}, date))


def removal(waiting: ChunkToIndex) -> IndexChange:
    return IndexChange(waiting, NOT_INDEXED)


async def again(ctx: Context) -> list[ChunkToIndex]:
    """The same chunks, waiting anew."""
    await Indexing(ctx.database).requeue(NOON)
    return await Indexing(ctx.database).pending(NOON, 100)


async def test_a_chunk_waits_until_it_is_indexed(ctx: Context) -> None:
    found = await waiting(ctx, 2)
    assert [] == await Indexing(ctx.database).apply([change(found[0], 5, tf=3)])
    assert [found[1]] == await Indexing(ctx.database).pending(NOON, 9)
    lists = await stored_lists(ctx)
    chunk_id = found[0].chunk_id
    assert {BREAD, RYE_LIST} == lists.keys()
    assert {"df": 1, "held": 1, "postings": {chunk_id: pack(3, 3)}} == lists[BREAD]
    described = {"kind": "tag", "key": "rye", "name": "Rye"}
    assert described | {"df": 1, "held": 1, "postings": {chunk_id: 5}} == lists[RYE_LIST]
    assert {"documents": 1, "length": 3} == await stored_totals(ctx)


async def test_nothing_is_written_when_one_chunk_was_edited(ctx: Context) -> None:
    found = await waiting(ctx, 2)
    await write(ctx, f"chunks/{found[1].chunk_id}", {"position": 7})
    with pytest.raises(WriteConflict):
        await Indexing(ctx.database).apply([change(each, 5) for each in found])
    assert {} == await stored_lists(ctx)
    assert all("index" in data["pending"] for data in (await chunks(ctx)).values())


async def test_a_list_that_no_chunk_is_left_on_goes(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(each, 5) for each in await waiting(ctx, 2)])
    one, other = await again(ctx)
    await Indexing(ctx.database).apply([removal(one)])
    assert [1, 1] == [data["df"] for data in (await stored_lists(ctx)).values()]
    await Indexing(ctx.database).apply([removal(other)])
    assert {} == await stored_lists(ctx)
    assert {"documents": 0, "length": 0} == await stored_totals(ctx)


async def test_a_list_that_is_missing_is_not_made_by_what_it_loses(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(each, 5) for each in await waiting(ctx, 1)])
    await ctx.database.document(*BREAD).delete()
    await Indexing(ctx.database).apply([removal(each) for each in await again(ctx)])
    assert {} == await stored_lists(ctx)


async def test_what_is_as_it_was_costs_the_mark_alone(ctx: Context, meter: Meter) -> None:
    await Indexing(ctx.database).apply([change(each, 5) for each in await waiting(ctx, 3)])
    found = await again(ctx)
    before = meter.documents_written
    await Indexing(ctx.database).apply([change(each, 5) for each in found])
    assert 3 == meter.documents_written - before


async def test_a_new_name_is_written_where_nothing_else_changes(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(each, 5) for each in await waiting(ctx, 1)])
    before = await stored_lists(ctx)
    (found,) = await again(ctx)
    renamed = IndexedState({"bread": 1}, {RYE.id: "RYE"}, 5)
    assert [] == await Indexing(ctx.database).apply([IndexChange(found, renamed)])
    after = await stored_lists(ctx)
    assert before[RYE_LIST] | {"name": "RYE"} == after[RYE_LIST]


async def test_what_a_list_may_hold_is_the_last_of_the_servers_sums(ctx: Context) -> None:
    (found, *_) = await waiting(ctx, 1)
    known = replace(found, indexed=IndexedState({"bread": 1}, {RYE.id: "Rye"}, 5))
    for each in (change(found, 5), change(known, 6), removal(known)):
        list_change = postings_changes(KNOWLEDGE, [each.difference])[RYE_LIST]
        batch = ctx.database.client.batch()
        batch.set(ctx.database.document(*RYE_LIST), list_change.document(), merge=True)
        (result,) = await batch.commit()
        held = (await stored_lists(ctx))[RYE_LIST]["held"]
        assert held == result.transform_results[-1].integer_value


async def test_lists_that_have_grown_too_long_are_named(ctx: Context) -> None:
    indexing = Indexing(ctx.database, cap=3, slack=2)
    found = await waiting(ctx, 6)
    assert [] == await indexing.apply([change(each, 5) for each in found[:4]])
    grown = await indexing.apply([change(found[4], 5)])
    assert [RYE_LIST, BREAD] == sorted(grown)
    await indexing.truncation.truncate(grown, KEEP)
    assert [3, 3] == [data["held"] for data in (await stored_lists(ctx)).values()]
    assert [] == await indexing.apply([change(found[5], 5)])


async def test_chunks_that_leave_a_long_list_do_not_make_it_grow(ctx: Context) -> None:
    """The count of chunks is not taken for the number of entries, however high it is."""
    indexing = Indexing(ctx.database, cap=2, slack=1)
    grown = await indexing.apply([change(each, 5) for each in await waiting(ctx, 9)])
    await indexing.truncation.truncate(grown, KEEP)
    found = await again(ctx)
    assert [] == await indexing.apply([removal(each) for each in found[:3]])
    assert [6, 6] == [data["df"] for data in (await stored_lists(ctx)).values()]


async def test_a_cut_list_keeps_its_best_or_newest_entries(ctx: Context) -> None:
    indexing = Indexing(ctx.database, cap=2, slack=1)
    found = await waiting(ctx, 5)
    grown = await indexing.apply(
        [change(each, 10 + number, tf=9 - number) for number, each in enumerate(found)]
    )
    await indexing.truncation.truncate(grown, KEEP)
    lists = await stored_lists(ctx)
    names = [each.chunk_id for each in found]
    assert {names[0], names[1]} == lists[BREAD]["postings"].keys()
    assert {names[3]: 13, names[4]: 14} == lists[RYE_LIST]["postings"]
    assert ([5, 5], 13) == ([data["df"] for data in lists.values()], lists[RYE_LIST]["since"])


async def test_a_cut_list_misses_nothing_after_the_newest_that_went(ctx: Context) -> None:
    """Where chunks of one date are kept in part, the list is whole only from the next moment on."""
    indexing = Indexing(ctx.database, cap=2, slack=1)
    grown = await indexing.apply([change(each, 5) for each in await waiting(ctx, 4)])
    await indexing.truncation.truncate(grown, KEEP)
    assert 6 == (await stored_lists(ctx))[RYE_LIST]["since"]


async def test_what_a_list_misses_is_kept_when_it_is_cut_again(ctx: Context) -> None:
    indexing = Indexing(ctx.database, cap=3, slack=1)
    found = await waiting(ctx, 8)
    grown = await indexing.apply([change(each, 50) for each in found[:4]])
    await indexing.truncation.truncate(grown, KEEP)
    assert 51 == (await stored_lists(ctx))[RYE_LIST]["since"]
    kept = (await stored_lists(ctx))[RYE_LIST]["postings"]
    present = [each for each in await again(ctx) if each.chunk_id in kept]
    await indexing.apply([removal(each) for each in present])
    fresh = [each for each in await again(ctx) if each.chunk_id not in kept]
    late = [each for each in fresh if each.indexed == NOT_INDEXED]
    grown = await indexing.apply([change(each, 20) for each in late])
    await indexing.truncation.truncate(grown, KEEP)
    assert 51 == (await stored_lists(ctx))[RYE_LIST]["since"]


async def test_a_list_that_was_not_too_long_after_all_stays_whole(ctx: Context) -> None:
    """An entry that comes again and again is counted each time, until somebody looks."""
    indexing = Indexing(ctx.database, cap=3, slack=1)
    await indexing.apply([change(each, 5) for each in await waiting(ctx, 2)])
    grown = await indexing.apply([change(each, 6) for each in await again(ctx)])
    assert [RYE_LIST] == grown
    await indexing.truncation.truncate(grown, KEEP)
    found = (await stored_lists(ctx))[RYE_LIST]
    assert (2, 2, "since" in found) == (found["held"], len(found["postings"]), False)


async def test_a_list_that_is_gone_is_not_shortened(ctx: Context) -> None:
    await Indexing(ctx.database).truncation.truncate([BREAD], KEEP)
    assert {} == await stored_lists(ctx)


async def test_every_chunk_waits_again_on_request(ctx: Context) -> None:
    await Indexing(ctx.database).apply([change(each, 5) for each in await waiting(ctx, 3)])
    later = NOON + timedelta(hours=1)
    assert 3 == await Indexing(ctx.database).requeue(later)
    assert [] == await Indexing(ctx.database).pending(NOON, 9)
    assert 3 == len(await Indexing(ctx.database).pending(later, 9))


async def test_the_version_of_the_analysis_stands_beside_the_totals(ctx: Context) -> None:
    assert None is await Indexing(ctx.database).analysis()
    await Indexing(ctx.database).stamp(7)
    assert 7 == await Indexing(ctx.database).analysis()
    assert {"lexicon": {"analysis": 7}} == await documents(ctx, "meta")
