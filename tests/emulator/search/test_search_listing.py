"""Passages listed by date, from postings and by the server."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.core.dates import DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.knowledge.corpus import get_knowledge_corpus
from shared.knowledge.ingestion import Ingestion
from shared.search.filter_plan import FacetFilter, Selection
from shared.search.listing import MAX_EXAMINED
from shared.search.listing import list_newest as newest_in
from tests.support.knowledge import chunk_source, store_sources
from tests.support.search_brute_force import (
    FIRST_DAY,
    make_source_of_text,
    make_source_of_texts,
    truncate_postings,
)

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.index.vector_index import DateCursor
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from shared.search.listing import Listing

pytestmark = pytest.mark.anyio

SEA = FacetFilter("tags", {"sea": (make_named_facet(Kind.TAG, "sea"),)})
ANN = FacetFilter("author", {"Ann": (make_named_facet(Kind.AUTHOR, "Ann"),)})


def make_dated_source(day: int, source_id: str, **fields: object) -> Source:
    """Return a passage of a certain day."""
    source = make_source_of_text(f"Passage {source_id}.", source_id, **fields)
    moment = FIRST_DAY + timedelta(days=day)
    return replace(source, sections=(replace(source.sections[0], highlighted_at=moment),))


async def list_by_date(
    selection: Selection, limit: int, after: DateCursor | None, ctx: Context
) -> Listing[Chunk]:
    """List the knowledge base by date."""
    return await newest_in(selection, limit, after, get_knowledge_corpus(ctx.database))


async def read_pages(ctx: Context, selection: Selection, limit: int) -> list[Listing[Chunk]]:
    """Return all pages."""
    listings: list[Listing[Chunk]] = []
    cursor: DateCursor | None = None
    while not listings or cursor:
        listings.append(await list_by_date(selection, limit, cursor, ctx))
        cursor = listings[-1].next
    return listings


def list_sources(listings: list[Listing[Chunk]]) -> list[str]:
    """Return the source ids of listed passages."""
    return [chunk.source_id for listing in listings for chunk in listing.documents]


async def test_an_unindexed_date_repeats_and_loses_nothing(ctx: Context) -> None:
    await store_sources(
        ctx, *(make_dated_source(day, f"s{day}", tags=("sea",)) for day in range(6))
    )
    first_page = await list_by_date(Selection((SEA,)), 2, None, ctx)
    for number, day in ((2, 50), (4, -50)):
        changed_source = chunk_source(make_dated_source(day, f"s{number}", tags=("sea",)))
        await Ingestion(ctx.database).save([changed_source], ctx.clock())
    listings = [first_page]
    while listings[-1].next:
        listings.append(await list_by_date(Selection((SEA,)), 2, listings[-1].cursors[-1], ctx))
    assert list_sources(listings) == ["s5", "s4", "s3", "s2", "s1", "s0"]


async def test_many_deleted_passages_cost_few_round_trips(ctx: Context, meter: Meter) -> None:
    remaining_sources = [make_dated_source(day, f"s{day}", tags=("sea",)) for day in range(5)]
    deleted_source = make_source_of_texts(
        [f"Part {number}." for number in range(120)], "gone", tags=("sea",)
    )
    await store_sources(ctx, *remaining_sources, deleted_source)
    await Ingestion(ctx.database).save(
        [chunk_source(replace(deleted_source, sections=()))], ctx.clock()
    )
    trips_before = meter.round_trips
    listings = [await list_by_date(Selection((SEA,)), 2, None, ctx)]
    assert 8 >= meter.round_trips - trips_before
    while listings[-1].next:
        listings.append(await list_by_date(Selection((SEA,)), 2, listings[-1].next, ctx))
    assert list_sources(listings) == ["s4", "s3", "s2", "s1", "s0"]


async def test_an_empty_span_lists_and_reads_nothing(ctx: Context, meter: Meter) -> None:
    await store_sources(ctx, make_dated_source(0, "s0", tags=("sea",)))
    read = meter.documents_read
    no_day = DateSpan(date(2024, 2, 2), date(2024, 2, 1))
    for selection in (Selection(span=no_day), Selection((SEA,), no_day)):
        assert (await list_by_date(selection, 5, None, ctx)).documents == []
    assert read == meter.documents_read


async def test_truncated_postings_list_their_newest_first(ctx: Context, meter: Meter) -> None:
    await store_sources(
        ctx, *(make_dated_source(day, f"s{day}", tags=("sea",)) for day in range(12))
    )
    await truncate_postings(ctx, "facets", cap=5)
    last_days = DateSpan(first=FIRST_DAY.date() + timedelta(days=9))
    read = meter.documents_read
    assert list_sources([await list_by_date(Selection((SEA,), last_days), 2, None, ctx)]) == [
        "s11",
        "s10",
    ]
    assert meter.documents_read - read == 2 + 2


async def test_a_short_page_has_a_next_one(ctx: Context) -> None:
    """Both postings are truncated, and the newest passages of one filter fail the other."""
    repetitive_source = make_source_of_texts(
        [f"Part {number}." for number in range(MAX_EXAMINED + 5)], "loud", tags=("sea",)
    )
    authored_source = make_source_of_texts(
        [f"Page {number}." for number in range(MAX_EXAMINED + 9)], "quiet", author="Ann"
    )
    passing_sources = [
        make_dated_source(day, f"s{day}", tags=("sea",), author="Ann") for day in range(3)
    ]
    await store_sources(ctx, repetitive_source, authored_source, *passing_sources)
    await truncate_postings(ctx, "facets", cap=20)
    listings = await read_pages(ctx, Selection((SEA, ANN)), 2)
    assert [len(item.documents) for item in listings] == [0, 2, 1]
    assert list_sources(listings) == ["s2", "s1", "s0"]


async def test_the_last_page_knows_that_it_is_the_last(ctx: Context) -> None:
    await store_sources(
        ctx, *(make_dated_source(day, f"s{day}", tags=("sea",)) for day in range(4))
    )
    listings = await read_pages(ctx, Selection((SEA,)), 2)
    assert [len(item.documents) for item in listings] == [2, 2]
    listings = await read_pages(ctx, Selection(span=DateSpan(first=FIRST_DAY.date())), 2)
    assert [len(entry.documents) for entry in listings] == [2, 2]


async def test_unknown_values_are_returned(ctx: Context) -> None:
    await store_sources(ctx, make_dated_source(0, "s0", tags=("sea",)))
    listing = await list_by_date(Selection((SEA, ANN)), 2, None, ctx)
    assert listing.documents == []
    assert listing.unknown == ((ANN, "Ann"),)
