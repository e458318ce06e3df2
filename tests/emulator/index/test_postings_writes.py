"""Postings are written without a read when a document is indexed, changed or removed.

Postings are the list of documents for a term or a facet, such as a tag. Concurrent writers change
the same ones.
"""

from __future__ import annotations

import asyncio

from shared.core.meter import Meter
from shared.index.bm25 import Totals, pack
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import FacetValue
from shared.runtime.context import Context
from tests.support.jottings import (
    INDEX_COLLECTIONS,
    Jotting,
    delete_jotting,
    make_corpus,
    save_jottings,
)
from tests.support.stored_documents import read_documents

SEA = make_named_facet(Kind.TAG, "Sea")
RYE = IndexedState({"rye": 2, "bread": 1}, {SEA.id: "Sea"}, 7)
"""The state of a document with two terms and a tag."""


async def write(ctx: Context, name: str, before: IndexedState, after: IndexedState) -> None:
    """Change the postings of a document from one indexed state to another."""
    difference = IndexDifference(name, before, after)
    await ctx.database.commit(build_postings_writes(INDEX_COLLECTIONS, [difference]))


async def test_indexing_a_document_reads_nothing(ctx: Context, meter: Meter) -> None:
    await write(ctx, "a", NOT_INDEXED, RYE)
    assert meter.documents_read == 0
    terms, tags, totals_count = 2, 1, 1
    assert meter.documents_written == terms + tags + totals_count

    lexicon = await read_documents(ctx, INDEX_COLLECTIONS.lexicon)
    assert lexicon["rye"] == {"df": 1, "held": 1, "postings": {"a": pack(2, 3)}}
    name = {"kind": "tag", "key": "sea", "name": "Sea"}
    expected = {SEA.id: name | {"df": 1, "held": 1, "postings": {"a": 7}}}
    assert await read_documents(ctx, INDEX_COLLECTIONS.facets) == expected
    totals = (await read_documents(ctx, "meta"))[INDEX_COLLECTIONS.totals[1]]
    assert totals == {"documents": 1, "length": 3}


async def test_an_edit_writes_only_differences(ctx: Context, meter: Meter) -> None:
    await write(ctx, "a", NOT_INDEXED, RYE)
    written_before = meter.documents_written
    await write(ctx, "a", RYE, IndexedState({"rye": 2, "salt": 1}, {SEA.id: "Sea"}, 7))
    removed, added = 1, 1
    assert meter.documents_written - written_before == removed + added
    lists = await make_corpus(ctx).index.read(["rye", "bread", "salt"], [SEA])
    assert lists.terms.keys() == {"rye", "salt"}
    assert lists.totals == Totals(1, 3)
    no_difference = [IndexDifference("a", RYE, RYE)]
    assert build_postings_writes(INDEX_COLLECTIONS, no_difference) == []


async def test_readers_skip_empty_postings(ctx: Context) -> None:
    await write(ctx, "a", NOT_INDEXED, RYE)
    await write(ctx, "a", RYE, NOT_INDEXED)
    lexicon = await read_documents(ctx, INDEX_COLLECTIONS.lexicon)
    assert [data["df"] for data in lexicon.values()] == [0, 0]

    index = make_corpus(ctx).index
    postings = await index.read(["rye", "bread"], [SEA])
    assert postings.terms == {}
    assert postings.facets == {}
    assert postings.totals == Totals(0, 0)
    assert await index.list_commonest(Kind.TAG, 5) == []
    assert await index.list_by_prefix(Kind.TAG, "", 5) == []
    assert await index.count_values(Kind.TAG) == 0

    await write(ctx, "b", NOT_INDEXED, RYE)
    postings = await index.read(["rye"], [SEA])
    assert list(postings.terms["rye"].entries) == ["b"]
    assert list(postings.facets[SEA].entries) == ["b"]
    assert await index.list_commonest(Kind.TAG, 5) == [FacetValue(SEA, "Sea", 1)]


async def test_lists_of_names_skip_those_without_documents(ctx: Context) -> None:
    for number, tag in enumerate("abcdefg"):
        await save_jottings(ctx, Jotting(f"j{number}", "x", (tag, f"other {tag}")))
    for number in (0, 1, 2, 4):
        await delete_jotting(ctx, f"j{number}")

    index = make_corpus(ctx).index
    first_page = await index.list_by_prefix(Kind.TAG, "", 2)
    assert first_page == [FacetValue(Facet(Kind.TAG, tag), tag, 1) for tag in "df"]
    second_page = await index.list_by_prefix(Kind.TAG, "", 2, first_page[-1].facet.key)
    assert [tag.name for tag in second_page] == ["g", "other d"]
    other_tags = await index.list_by_prefix(Kind.TAG, "other ", 2)
    assert [tag.name for tag in other_tags] == ["other d", "other f"]
    assert await index.count_values(Kind.TAG) == 6


async def test_concurrent_writers_lose_no_entry(ctx: Context) -> None:
    """Each change is written twice."""
    jottings = [Jotting(f"j{number}", f"rye {number}", ("sea",)) for number in range(12)]
    await asyncio.gather(*(save_jottings(ctx, jotting) for jotting in jottings))
    changed = [Jotting(f"j{number}", "bread", ("sea",)) for number in range(4)]
    await asyncio.gather(
        *(save_jottings(ctx, jotting) for jotting in changed * 2),
        *(delete_jotting(ctx, f"j{number}") for number in range(4, 8)),
    )

    lists = await make_corpus(ctx).index.read(["rye", "bread"], [SEA])
    assert lists.terms["rye"].entries.keys() == {f"j{number}" for number in range(8, 12)}
    assert lists.terms["bread"].entries.keys() == {f"j{number}" for number in range(4)}
    assert lists.terms["rye"].df == 4
    assert lists.terms["bread"].df == 4
    assert lists.facets[SEA].df == 8
    unchanged_length, changed_length = 4 * 2, 4 * 1  # in terms
    assert lists.totals == Totals(8, unchanged_length + changed_length)
