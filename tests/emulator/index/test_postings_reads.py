"""`InvertedIndex` reads postings: for a term or a facet, the list of documents that have it."""

from __future__ import annotations

from dataclasses import replace

from shared.index.bm25 import Postings, Totals, pack
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex, SearchPostings
from shared.runtime.context import App, Context
from tests.support.index_postings import read_totals
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context

FOOD = make_named_facet(Kind.TAG, "food")
RYE = replace(
    SAILING,
    source_id="rye",
    title="Rye",
    author="IDA LOAF",
    tags=("Food", "Foot/notes", "rye"),
)


async def test_postings_contain_documents_by_term_and_facet(ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read(["steam"], [FOOD])
    steam = lists.terms["steam"]
    assert steam.df == 1
    assert list(steam.entries) == [chunks[2].chunk_id]
    food = lists.facets[FOOD]
    assert food.df == 3
    assert sorted(food.entries) == sorted(chunk.chunk_id for chunk in chunks)
    assert food.is_complete


async def test_terms_and_facets_without_documents_are_left_out(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    boats = make_named_facet(Kind.TAG, "boats")
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read(["anchor"], [boats])
    assert lists.terms == {}
    assert lists.facets == {}


async def test_an_empty_knowledge_base_has_empty_postings(ctx: Context) -> None:
    assert await InvertedIndex(ctx.database, KNOWLEDGE).read(["a"], [FOOD]) == SearchPostings(
        {}, {}, Totals(0, 0)
    )


async def test_totals_count_the_whole_base(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read([], [])
    assert lists.totals == Totals(**await read_totals(ctx))
    assert lists.totals.documents == 5


async def test_a_read_costs_one_round_trip_and_a_document_each(ctx: Context, app: App) -> None:
    """A repeated term or facet is read once."""
    await store_sources(ctx, BAKING)
    call_ctx = make_call_context(app)
    index = InvertedIndex(call_ctx.database, KNOWLEDGE)
    await index.read(["steam", "nothing", "steam"], [FOOD, FOOD])
    terms, facets, totals = 2, 1, 1
    assert get_read_cost(call_ctx) == ReadCost(round_trips=1, documents=terms + facets + totals)


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
    await store_sources(ctx, BAKING, RYE)
    index = InvertedIndex(ctx.database, KNOWLEDGE)
    authors = await index.list_commonest(Kind.AUTHOR, 2)
    assert authors == [FacetValue(Facet(Kind.AUTHOR, "ida loaf"), "IDA LOAF", 5)]
    first_tag, second_tag = await index.list_commonest(Kind.TAG, 2)
    assert first_tag.facet.key == "food"
    assert first_tag.count == 5
    assert second_tag.count == 2


async def test_names_of_a_kind_are_found_by_prefix(ctx: Context) -> None:
    await store_sources(ctx, BAKING, RYE)
    index = InvertedIndex(ctx.database, KNOWLEDGE)
    tags = await index.list_by_prefix(Kind.TAG, "foo", 5)
    assert [tag.facet.key for tag in tags] == ["food", "foot", "foot/notes"]
    authors = await index.list_by_prefix(Kind.AUTHOR, "ida", 5)
    assert authors == [FacetValue(Facet(Kind.AUTHOR, "ida loaf"), "IDA LOAF", 5)]
