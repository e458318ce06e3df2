"""Reading postings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.index.bm25 import Postings, Totals, pack
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex, SearchPostings
from tests.support.index_postings import read_totals
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

FOOD = make_named_facet(Kind.TAG, "food")
RYE = replace(
    SAILING,
    source_id="rye",
    title="Rye",
    author="IDA LOAF",
    tags=("Food", "Foot/notes", "rye"),
)


async def test_postings_list_documents_by_term_and_facet(ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read(["steam"], [FOOD])
    steam = lists.terms["steam"]
    assert steam.df == 1
    assert list(steam.entries) == [chunks[2].chunk_id]
    food = lists.facets[FOOD]
    assert (3, sorted(chunk.chunk_id for chunk in chunks)) == (food.df, sorted(food.entries))
    assert food.is_complete


async def test_what_no_chunk_has_is_left_out(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read(
        ["anchor"], [make_named_facet(Kind.TAG, "boats")]
    )
    assert (lists.terms, lists.facets) == ({}, {})


async def test_an_empty_knowledge_base_has_empty_postings(ctx: Context) -> None:
    assert await InvertedIndex(ctx.database, KNOWLEDGE).read(["a"], [FOOD]) == SearchPostings(
        {}, {}, Totals(0, 0)
    )


async def test_totals_are_those_of_the_whole_base(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read([], [])
    assert lists.totals == Totals(**await read_totals(ctx))
    assert lists.totals.documents == 5


async def test_one_round_trip_reads_a_document_each(ctx: Context, meter: Meter) -> None:
    await store_sources(ctx, BAKING)
    read, trips = meter.documents_read, meter.round_trips
    await InvertedIndex(ctx.database, KNOWLEDGE).read(["steam", "nothing", "steam"], [FOOD, FOOD])
    assert (meter.documents_read - read, meter.round_trips - trips) == (4, 1)


async def test_a_term_and_a_facet_of_one_id_have_own_postings(ctx: Context) -> None:
    entry = {"df": 1, "postings": {"c": pack(1, 2)}}
    await set_fields(ctx, "lexicon/tag:food", entry)
    await set_fields(ctx, f"facets/{FOOD.id}", entry | {"df": 9, "since": 7})
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read([FOOD.id], [FOOD])
    assert {FOOD.id: Postings(1, {"c": pack(1, 2)})} == lists.terms
    assert {FOOD: Postings(9, {"c": pack(1, 2)}, since=7)} == lists.facets
    assert [lists.terms[FOOD.id].is_complete, lists.facets[FOOD].is_complete] == [True, False]


async def test_the_most_common_values_come_first(ctx: Context) -> None:
    await store_sources(ctx, BAKING, RYE)
    values = await InvertedIndex(ctx.database, KNOWLEDGE).list_commonest(Kind.AUTHOR, 2)
    assert values == [FacetValue(Facet(Kind.AUTHOR, "ida loaf"), "IDA LOAF", 5)]
    food, other = await InvertedIndex(ctx.database, KNOWLEDGE).list_commonest(Kind.TAG, 2)
    assert [(food.facet.key, food.count), other.count] == [("food", 5), 2]


async def test_values_are_found_by_prefix(ctx: Context) -> None:
    await store_sources(ctx, BAKING, RYE)
    values = await InvertedIndex(ctx.database, KNOWLEDGE).list_by_prefix(Kind.TAG, "foo", 5)
    assert [item.facet.key for item in values] == ["food", "foot/notes"]
    expected = [FacetValue(Facet(Kind.AUTHOR, "ida loaf"), "IDA LOAF", 5)]
    assert (
        await InvertedIndex(ctx.database, KNOWLEDGE).list_by_prefix(Kind.AUTHOR, "ida", 5)
        == expected
    )
