"""Postings are written without a read when a document is indexed, and truncated when too long.

Postings are the list of documents for a term or a facet, such as a tag. Concurrent writers change
the same ones. Those of a term keep the documents with the highest scores, those of a facet the
newest. `InvertedIndex` reads them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from shared.core.meter import Meter
from shared.firestore.database import Database
from shared.firestore.documents import Document, Reference
from shared.index.bm25 import Postings, Totals, pack
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, PostingsTruncation, build_postings_writes
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex, SearchPostings
from shared.runtime.context import App, Context
from tests.support.index_postings import read_totals
from tests.support.jottings import (
    INDEX_COLLECTIONS,
    Jotting,
    delete_jotting,
    make_corpus,
    save_jottings,
)
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.stored_documents import read_documents

SEA = make_named_facet(Kind.TAG, "Sea")
RYE = IndexedState({"rye": 2, "bread": 1}, {SEA.id: "Sea"}, 7, 3)
"""The state of a document with two terms and a tag."""
SEA_POSTINGS = (INDEX_COLLECTIONS.facets, SEA.id)
RYE_POSTINGS = (INDEX_COLLECTIONS.lexicon, "rye")
BREAD_POSTINGS = (INDEX_COLLECTIONS.lexicon, "bread")


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
    await write(ctx, "a", RYE, IndexedState({"rye": 2, "salt": 1}, {SEA.id: "Sea"}, 7, 3))
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


class RacingDatabase(Database):
    """A database that calls `race` after documents were read, before they are written."""

    race: Callable[[], Awaitable[object]] | None = None

    async def get_all(
        self, references: Sequence[Reference], fields: Sequence[str] | None = None
    ) -> list[Document]:
        snapshots = await super().get_all(references, fields)
        race, self.race = self.race, None
        if race:
            await race()
        return snapshots


async def index_document(ctx: Context, number: int, term: str) -> None:
    """Index a new document with the tag sea. Its number is its count of the term, and its date."""
    database = ctx.database
    after = IndexedState({term: number}, {SEA.id: "sea"}, number, number)
    difference = IndexDifference(f"d{number}", NOT_INDEXED, after)
    await database.commit(build_postings_writes(INDEX_COLLECTIONS, [difference]))


async def list_entries(ctx: Context, name: tuple[str, str]) -> set[str]:
    return set((await read_documents(ctx, name[0]))[name[1]]["postings"])


async def test_overlong_postings_of_terms_and_facets_are_found(ctx: Context) -> None:
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=2, slack=1)
    await index_document(ctx, 1, "rye")
    await index_document(ctx, 2, "rye")
    assert await truncation.find_overlong(9) == []
    await index_document(ctx, 3, "bread")
    assert await truncation.find_overlong(9) == [SEA_POSTINGS]
    for number in (4, 5):
        await index_document(ctx, number, "bread")
    assert set(await truncation.find_overlong(9)) == {SEA_POSTINGS, BREAD_POSTINGS}
    await index_document(ctx, 6, "rye")
    assert len(await truncation.find_overlong(1)) == 2
    await truncation.truncate(await truncation.find_overlong(9))
    assert await truncation.find_overlong(9) == []


async def test_truncation_keeps_the_best_or_newest_and_the_frequency(ctx: Context) -> None:
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=2, slack=0)
    for number in range(1, 6):
        await index_document(ctx, number, "rye")
    await truncation.truncate([RYE_POSTINGS, SEA_POSTINGS])
    rye = (await read_documents(ctx, INDEX_COLLECTIONS.lexicon))["rye"]
    assert rye == {"df": 5, "held": 2, "postings": {"d4": pack(4, 4), "d5": pack(5, 5)}}
    sea = (await read_documents(ctx, INDEX_COLLECTIONS.facets))[SEA.id]
    named = {"kind": "tag", "key": "sea", "name": "sea"}
    kept = {"df": 5, "held": 2, "since": 4, "postings": {"d4": 4, "d5": 5}}
    assert sea == named | kept


async def test_entries_added_during_truncation_are_not_lost(app: App, ctx: Context) -> None:
    database = RacingDatabase(app.connection, ctx.meter)
    truncation = PostingsTruncation(database, INDEX_COLLECTIONS, cap=2, slack=0)
    for number in range(1, 5):
        await index_document(ctx, number, "rye")
        await index_document(ctx, number + 10, "bread")

    async def index_another() -> None:
        await index_document(ctx, 9, "rye")

    database.race = index_another
    await truncation.truncate([RYE_POSTINGS, BREAD_POSTINGS])
    assert await list_entries(ctx, RYE_POSTINGS) == {"d1", "d2", "d3", "d4", "d9"}
    assert await list_entries(ctx, BREAD_POSTINGS) == {"d13", "d14"}

    assert RYE_POSTINGS in await truncation.find_overlong(9)
    await truncation.truncate([RYE_POSTINGS])
    assert await list_entries(ctx, RYE_POSTINGS) == {"d4", "d9"}


async def test_truncating_deleted_postings_creates_none(ctx: Context) -> None:
    await PostingsTruncation(ctx.database, INDEX_COLLECTIONS).truncate([RYE_POSTINGS])
    assert await read_documents(ctx, INDEX_COLLECTIONS.lexicon) == {}


FOOD = make_named_facet(Kind.TAG, "food")
RYE_BOOK = replace(
    SAILING,
    source_id="rye",
    title="Rye",
    author="IDA LOAF",
    tags=("Food", "Foot/notes", "rye"),
)


async def test_postings_contain_documents_by_term_and_facet(ctx: Context, app: App) -> None:
    """Those without documents are left out, and a repeated term or facet is read once."""
    empty = SearchPostings({}, {}, Totals(0, 0))
    assert await InvertedIndex(ctx.database, KNOWLEDGE).read(["steam"], [FOOD]) == empty
    chunks = await store_sources(ctx, BAKING, SAILING)
    boats = make_named_facet(Kind.TAG, "boats")
    call_ctx = make_call_context(app)
    index = InvertedIndex(call_ctx.database, KNOWLEDGE)
    lists = await index.read(["steam", "nothing", "steam"], [FOOD, boats, FOOD])
    terms, facets, totals = 2, 2, 1
    assert get_read_cost(call_ctx) == ReadCost(round_trips=1, documents=terms + facets + totals)
    assert {term: (found.df, list(found.entries)) for term, found in lists.terms.items()} == {
        "steam": (1, [chunks[2].chunk_id])
    }
    assert lists.facets.keys() == {FOOD}
    food = lists.facets[FOOD]
    assert (food.df, set(food.entries)) == (3, {chunk.chunk_id for chunk in chunks[:3]})
    assert food.is_complete
    assert lists.totals == Totals(**await read_totals(ctx))
    assert lists.totals.documents == 5


async def test_a_term_and_a_facet_with_one_id_have_separate_postings(ctx: Context) -> None:
    entry = {"df": 1, "postings": {"c": pack(1, 2)}}
    await set_fields(ctx, "lexicon/tag:food", entry)
    await set_fields(ctx, f"facets/{FOOD.id}", entry | {"df": 9, "since": 7})
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read([FOOD.id], [FOOD])
    assert lists.terms == {FOOD.id: Postings(1, {"c": pack(1, 2)})}
    assert lists.facets == {FOOD: Postings(9, {"c": pack(1, 2)}, since=7)}
    assert lists.terms[FOOD.id].is_complete
    assert not lists.facets[FOOD].is_complete


async def test_the_commonest_names_of_a_kind_are_listed_first(ctx: Context) -> None:
    await store_sources(ctx, BAKING, RYE_BOOK)
    index = InvertedIndex(ctx.database, KNOWLEDGE)
    authors = await index.list_commonest(Kind.AUTHOR, 2)
    assert authors == [FacetValue(Facet(Kind.AUTHOR, "ida loaf"), "IDA LOAF", 5)]
    first_tag, second_tag = await index.list_commonest(Kind.TAG, 2)
    assert first_tag.facet.key == "food"
    assert first_tag.count == 5
    assert second_tag.count == 2


async def test_names_of_a_kind_are_found_by_prefix(ctx: Context) -> None:
    await store_sources(ctx, BAKING, RYE_BOOK)
    index = InvertedIndex(ctx.database, KNOWLEDGE)
    tags = await index.list_by_prefix(Kind.TAG, "foo", 5)
    assert [tag.facet.key for tag in tags] == ["food", "foot", "foot/notes"]
    authors = await index.list_by_prefix(Kind.AUTHOR, "ida", 5)
    assert authors == [FacetValue(Facet(Kind.AUTHOR, "ida loaf"), "IDA LOAF", 5)]
