"""Writers that index, change and remove their own documents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from shared.index.bm25 import Totals, pack
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import FacetValue
from tests.support.jottings import (
    INDEX_COLLECTIONS,
    Jotting,
    delete_jotting,
    make_corpus,
    save_jottings,
)
from tests.support.query_recorder import record_queries
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.meter import Meter
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

SEA = make_named_facet(Kind.TAG, "Sea")
RYE = IndexedState({"rye": 2, "bread": 1}, {SEA.id: "Sea"}, 7)


@pytest.fixture(autouse=True)
def queries_of_its_own() -> Iterator[None]:
    """Exempt queries that only tests make from the index proof."""
    with record_queries():
        yield


async def write(ctx: Context, name: str, before: IndexedState, after: IndexedState) -> None:
    """Write one document's postings."""
    database = ctx.database
    await database.commit(
        build_postings_writes(database, INDEX_COLLECTIONS, [IndexDifference(name, before, after)])
    )


async def test_indexing_a_document_reads_nothing(ctx: Context, meter: Meter) -> None:
    await write(ctx, "a", NOT_INDEXED, RYE)
    assert (meter.documents_read, meter.documents_written) == (0, 4)
    terms = await read_documents(ctx, INDEX_COLLECTIONS.lexicon)
    assert {"df": 1, "held": 1, "postings": {"a": pack(2, 3)}} == terms["rye"]
    described = {"kind": "tag", "key": "sea", "name": "Sea"}
    expected = {SEA.id: described | {"df": 1, "held": 1, "postings": {"a": 7}}}
    assert await read_documents(ctx, INDEX_COLLECTIONS.facets) == expected
    totals = (await read_documents(ctx, "meta"))[INDEX_COLLECTIONS.totals[1]]
    assert totals == {"documents": 1, "length": 3}


async def test_an_edit_writes_only_differences(ctx: Context, meter: Meter) -> None:
    await write(ctx, "a", NOT_INDEXED, RYE)
    written = meter.documents_written
    await write(ctx, "a", RYE, IndexedState({"rye": 2, "salt": 1}, {SEA.id: "Sea"}, 7))
    assert meter.documents_written - written == 2
    lists = await make_corpus(ctx).index.read(["rye", "bread", "salt"], [SEA])
    assert lists.terms.keys() == {"rye", "salt"}
    assert lists.totals == Totals(1, 3)
    assert (
        build_postings_writes(ctx.database, INDEX_COLLECTIONS, [IndexDifference("a", RYE, RYE)])
        == []
    )


async def test_empty_postings_stay_but_readers_skip_them(ctx: Context) -> None:
    await write(ctx, "a", NOT_INDEXED, RYE)
    await write(ctx, "a", RYE, NOT_INDEXED)
    assert [
        data["df"] for data in (await read_documents(ctx, INDEX_COLLECTIONS.lexicon)).values()
    ] == [0, 0]
    lists = make_corpus(ctx).index
    read = await lists.read(["rye", "bread"], [SEA])
    assert read.terms == {}
    assert read.facets == {}
    assert read.totals == Totals(0, 0)
    assert await lists.list_commonest(Kind.TAG, 5) == []
    assert await lists.list_by_prefix(Kind.TAG, "", 5) == []
    assert await lists.count_values(Kind.TAG) == 0
    await write(ctx, "b", NOT_INDEXED, RYE)
    read = await lists.read(["rye"], [SEA])
    assert (list(read.terms["rye"].entries), list(read.facets[SEA].entries)) == (["b"], ["b"])
    assert await lists.list_commonest(Kind.TAG, 5) == [FacetValue(SEA, "Sea", 1)]


async def test_names_without_documents_are_skipped(ctx: Context) -> None:
    for number, tag in enumerate("abcdefg"):
        await save_jottings(ctx, Jotting(f"j{number}", "x", (tag, f"other {tag}")))
    for gone in (0, 1, 2, 4):
        await delete_jotting(ctx, f"j{gone}")
    lists = make_corpus(ctx).index
    expected = [FacetValue(Facet(Kind.TAG, tag), tag, 1) for tag in "dfg"]
    names = await lists.list_by_prefix(Kind.TAG, "", 2)
    assert expected[:2] == names
    names = await lists.list_by_prefix(Kind.TAG, "", 2, names[-1].facet.key)
    assert names == [expected[2], FacetValue(Facet(Kind.TAG, "other d"), "other d", 1)]
    assert [item.name for item in await lists.list_by_prefix(Kind.TAG, "other ", 2)] == [
        "other d",
        "other f",
    ]
    assert await lists.count_values(Kind.TAG) == 6


async def test_many_writers_at_once_lose_nothing(ctx: Context) -> None:
    written = [Jotting(f"j{number}", f"rye {number}", ("sea",)) for number in range(12)]
    await asyncio.gather(*(save_jottings(ctx, document) for document in written))
    changed = [Jotting(f"j{number}", "bread", ("sea",)) for number in range(4)]
    await asyncio.gather(
        *(save_jottings(ctx, item) for item in changed),
        *(save_jottings(ctx, entry) for entry in changed),
        *(delete_jotting(ctx, f"j{number}") for number in range(4, 8)),
    )
    lists = await make_corpus(ctx).index.read(["rye", "bread"], [SEA])
    assert {f"j{number}" for number in range(8, 12)} == lists.terms["rye"].entries.keys()
    assert {f"j{number}" for number in range(4)} == lists.terms["bread"].entries.keys()
    assert lists.terms["rye"].df == 4
    assert lists.terms["bread"].df == 4
    assert lists.facets[SEA].df == 8
    assert lists.totals == Totals(8, 4 * 2 + 4)
