"""Changing the lists: all at once, at the cost of what changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from shared.firestore.database import Stale
from shared.index.bm25 import pack
from shared.index.facets import Kind, named
from shared.index.indexed_state import NOTHING, Indexed
from shared.index.posting_changes import list_changes
from shared.index.postings import KNOWLEDGE
from shared.index.truncation import keeping
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import Change, Indexing
from tests.support.index_lists import NOON, stored_lists, stored_totals
from tests.support.knowledge import in_chunks, write
from tests.support.stored_documents import chunks, documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.pipeline.indexing import Waiting
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio

KEEP: Final = keeping(KNOWLEDGE)
RYE: Final = named(Kind.TAG, "rye")
RYE_LIST: Final = ("facets", RYE.id)
BREAD: Final = ("lexicon", "bread")


async def waiting(deps: Deps, count: int) -> list[Waiting]:
    """Chunks that wait."""
    sections = tuple(Section(f"Note {number}.") for number in range(count))
    await Ingestion(deps.database).save([in_chunks(Source("notes", "N", sections=sections))], NOON)
    return await Indexing(deps.database).pending(NOON, count)


def change(waiting: Waiting, date: int, tf: int = 1) -> Change:
    """It bears the tag rye, and holds the term bread."""
    return Change(waiting, Indexed({"bread": tf}, {RYE.id: "Rye"}, date))


def removal(waiting: Waiting) -> Change:
    return Change(waiting, NOTHING)


async def again(deps: Deps) -> list[Waiting]:
    """The same chunks, waiting anew."""
    await Indexing(deps.database).requeue(NOON)
    return await Indexing(deps.database).pending(NOON, 100)


async def test_a_chunk_waits_until_it_is_indexed(deps: Deps) -> None:
    found = await waiting(deps, 2)
    assert [] == await Indexing(deps.database).apply([change(found[0], 5, tf=3)])
    assert [found[1]] == await Indexing(deps.database).pending(NOON, 9)
    lists = await stored_lists(deps)
    chunk_id = found[0].chunk_id
    assert {BREAD, RYE_LIST} == lists.keys()
    assert {"df": 1, "held": 1, "postings": {chunk_id: pack(3, 3)}} == lists[BREAD]
    described = {"kind": "tag", "key": "rye", "name": "Rye"}
    assert described | {"df": 1, "held": 1, "postings": {chunk_id: 5}} == lists[RYE_LIST]
    assert {"documents": 1, "length": 3} == await stored_totals(deps)


async def test_nothing_is_written_when_one_chunk_was_edited(deps: Deps) -> None:
    found = await waiting(deps, 2)
    await write(deps, f"chunks/{found[1].chunk_id}", {"position": 7})
    with pytest.raises(Stale):
        await Indexing(deps.database).apply([change(each, 5) for each in found])
    assert {} == await stored_lists(deps)
    assert all("index" in data["pending"] for data in (await chunks(deps)).values())


async def test_a_list_that_no_chunk_is_left_on_goes(deps: Deps) -> None:
    await Indexing(deps.database).apply([change(each, 5) for each in await waiting(deps, 2)])
    one, other = await again(deps)
    await Indexing(deps.database).apply([removal(one)])
    assert [1, 1] == [data["df"] for data in (await stored_lists(deps)).values()]
    await Indexing(deps.database).apply([removal(other)])
    assert {} == await stored_lists(deps)
    assert {"documents": 0, "length": 0} == await stored_totals(deps)


async def test_a_list_that_is_missing_is_not_made_by_what_it_loses(deps: Deps) -> None:
    await Indexing(deps.database).apply([change(each, 5) for each in await waiting(deps, 1)])
    await deps.database.document(*BREAD).delete()
    await Indexing(deps.database).apply([removal(each) for each in await again(deps)])
    assert {} == await stored_lists(deps)


async def test_what_is_as_it_was_costs_the_mark_alone(deps: Deps, meter: Meter) -> None:
    await Indexing(deps.database).apply([change(each, 5) for each in await waiting(deps, 3)])
    found = await again(deps)
    before = meter.documents_written
    await Indexing(deps.database).apply([change(each, 5) for each in found])
    assert 3 == meter.documents_written - before


async def test_a_new_name_is_written_where_nothing_else_changes(deps: Deps) -> None:
    await Indexing(deps.database).apply([change(each, 5) for each in await waiting(deps, 1)])
    before = await stored_lists(deps)
    (found,) = await again(deps)
    renamed = Indexed({"bread": 1}, {RYE.id: "RYE"}, 5)
    assert [] == await Indexing(deps.database).apply([Change(found, renamed)])
    after = await stored_lists(deps)
    assert before[RYE_LIST] | {"name": "RYE"} == after[RYE_LIST]


async def test_what_a_list_may_hold_is_the_last_of_the_servers_sums(deps: Deps) -> None:
    (found, *_) = await waiting(deps, 1)
    known = replace(found, indexed=Indexed({"bread": 1}, {RYE.id: "Rye"}, 5))
    for each in (change(found, 5), change(known, 6), removal(known)):
        list_change = list_changes(KNOWLEDGE, [each.difference])[RYE_LIST]
        batch = deps.database.client.batch()
        batch.set(deps.database.document(*RYE_LIST), list_change.document(), merge=True)
        (result,) = await batch.commit()
        held = (await stored_lists(deps))[RYE_LIST]["held"]
        assert held == result.transform_results[-1].integer_value


async def test_lists_that_have_grown_too_long_are_named(deps: Deps) -> None:
    indexing = Indexing(deps.database, cap=3, slack=2)
    found = await waiting(deps, 6)
    assert [] == await indexing.apply([change(each, 5) for each in found[:4]])
    grown = await indexing.apply([change(found[4], 5)])
    assert [RYE_LIST, BREAD] == sorted(grown)
    await indexing.long_lists.shorten(grown, KEEP)
    assert [3, 3] == [data["held"] for data in (await stored_lists(deps)).values()]
    assert [] == await indexing.apply([change(found[5], 5)])


async def test_chunks_that_leave_a_long_list_do_not_make_it_grow(deps: Deps) -> None:
    """The count of chunks is not taken for the number of entries, however high it is."""
    indexing = Indexing(deps.database, cap=2, slack=1)
    grown = await indexing.apply([change(each, 5) for each in await waiting(deps, 9)])
    await indexing.long_lists.shorten(grown, KEEP)
    found = await again(deps)
    assert [] == await indexing.apply([removal(each) for each in found[:3]])
    assert [6, 6] == [data["df"] for data in (await stored_lists(deps)).values()]


async def test_a_cut_list_keeps_its_best_or_newest_entries(deps: Deps) -> None:
    indexing = Indexing(deps.database, cap=2, slack=1)
    found = await waiting(deps, 5)
    grown = await indexing.apply(
        [change(each, 10 + number, tf=9 - number) for number, each in enumerate(found)]
    )
    await indexing.long_lists.shorten(grown, KEEP)
    lists = await stored_lists(deps)
    names = [each.chunk_id for each in found]
    assert {names[0], names[1]} == lists[BREAD]["postings"].keys()
    assert {names[3]: 13, names[4]: 14} == lists[RYE_LIST]["postings"]
    assert ([5, 5], 13) == ([data["df"] for data in lists.values()], lists[RYE_LIST]["since"])


async def test_a_cut_list_misses_nothing_after_the_newest_that_went(deps: Deps) -> None:
    """Where chunks of one date are kept in part, the list is whole only from the next moment on."""
    indexing = Indexing(deps.database, cap=2, slack=1)
    grown = await indexing.apply([change(each, 5) for each in await waiting(deps, 4)])
    await indexing.long_lists.shorten(grown, KEEP)
    assert 6 == (await stored_lists(deps))[RYE_LIST]["since"]


async def test_what_a_list_misses_is_kept_when_it_is_cut_again(deps: Deps) -> None:
    indexing = Indexing(deps.database, cap=3, slack=1)
    found = await waiting(deps, 8)
    grown = await indexing.apply([change(each, 50) for each in found[:4]])
    await indexing.long_lists.shorten(grown, KEEP)
    assert 51 == (await stored_lists(deps))[RYE_LIST]["since"]
    kept = (await stored_lists(deps))[RYE_LIST]["postings"]
    present = [each for each in await again(deps) if each.chunk_id in kept]
    await indexing.apply([removal(each) for each in present])
    fresh = [each for each in await again(deps) if each.chunk_id not in kept]
    late = [each for each in fresh if each.indexed == NOTHING]
    grown = await indexing.apply([change(each, 20) for each in late])
    await indexing.long_lists.shorten(grown, KEEP)
    assert 51 == (await stored_lists(deps))[RYE_LIST]["since"]


async def test_a_list_that_was_not_too_long_after_all_stays_whole(deps: Deps) -> None:
    """An entry that comes again and again is counted each time, until somebody looks."""
    indexing = Indexing(deps.database, cap=3, slack=1)
    await indexing.apply([change(each, 5) for each in await waiting(deps, 2)])
    grown = await indexing.apply([change(each, 6) for each in await again(deps)])
    assert [RYE_LIST] == grown
    await indexing.long_lists.shorten(grown, KEEP)
    found = (await stored_lists(deps))[RYE_LIST]
    assert (2, 2, "since" in found) == (found["held"], len(found["postings"]), False)


async def test_a_list_that_is_gone_is_not_shortened(deps: Deps) -> None:
    await Indexing(deps.database).long_lists.shorten([BREAD], KEEP)
    assert {} == await stored_lists(deps)


async def test_every_chunk_waits_again_on_request(deps: Deps) -> None:
    await Indexing(deps.database).apply([change(each, 5) for each in await waiting(deps, 3)])
    later = NOON + timedelta(hours=1)
    assert 3 == await Indexing(deps.database).requeue(later)
    assert [] == await Indexing(deps.database).pending(NOON, 9)
    assert 3 == len(await Indexing(deps.database).pending(later, 9))


async def test_the_version_of_the_analysis_stands_beside_the_totals(deps: Deps) -> None:
    assert None is await Indexing(deps.database).analysis()
    await Indexing(deps.database).stamp(7)
    assert 7 == await Indexing(deps.database).analysis()
    assert {"lexicon": {"analysis": 7}} == await documents(deps, "meta")
