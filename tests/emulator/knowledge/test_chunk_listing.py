"""The repository of chunks lists them by position in their source and by date, and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from shared.core.dates import ALL_DATES, DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.index.vector_index import make_date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, chunk_source, index_all, list_texts
from tests.support.small_sources import NOON, make_source, store_and_index

JUNE_11 = DateSpan(date(2024, 6, 11), date(2024, 6, 11))
TAGGED = [make_named_facet(Kind.TAG, "kept").id]
"""The filter for chunks with the tag."""


async def store_diary(ctx: Context) -> None:
    """Store two chunks a day for three days. Those of one source are tagged."""
    dates = [NOON - timedelta(days=days) for days in range(3)]
    await store_and_index(
        ctx, make_source("a", dates=dates, tags=("Kept",)), make_source("b", dates=dates)
    )


async def list_by_date(
    ctx: Context, facets: Sequence[str] = (), span: DateSpan = ALL_DATES
) -> list[str]:
    """Return the source and the day of each chunk, newest first, from pages of one chunk."""
    sources_and_days: list[str] = []
    after: tuple[int, str] | None = None
    while page := await Chunks(ctx.database).load_newest(1, facets, span, after):
        [chunk] = page
        sources_and_days.append(f"{chunk.source_id} {chunk.dated_at:%d}")
        after = make_date_cursor(chunk)
    return sources_and_days


async def test_chunks_are_listed_by_date_without_repeats(ctx: Context) -> None:
    await store_diary(ctx)
    assert await list_by_date(ctx) == ["b 12", "a 12", "b 11", "a 11", "b 10", "a 10"]


async def test_chunks_are_listed_by_facets_and_days_combined(ctx: Context) -> None:
    await store_diary(ctx)
    assert await list_by_date(ctx, TAGGED) == ["a 12", "a 11", "a 10"]
    assert await list_by_date(ctx, span=JUNE_11) == ["b 11", "a 11"]
    assert await list_by_date(ctx, TAGGED, JUNE_11) == ["a 11"]


async def test_chunks_of_a_source_are_listed_from_a_position_on(ctx: Context) -> None:
    chunks = await store_and_index(ctx, BAKING, make_source("b"))
    of_baking = await Chunks(ctx.database).load_of_source("baking", 5)
    assert list_texts(of_baking) == list_texts(chunks[:3])
    assert await Chunks(ctx.database).load_of_source("baking", 1, first=2) == of_baking[1:2]


async def test_the_positions_of_existing_chunks_are_returned(ctx: Context) -> None:
    first, _, third = (chunk.chunk_id for chunk in await store_and_index(ctx, BAKING))
    positions = await Chunks(ctx.database).load_positions([third, "nobody", first])
    assert positions == {first: 1, third: 3}


async def test_chunks_are_counted_by_days(ctx: Context) -> None:
    await store_diary(ctx)
    assert await Chunks(ctx.database).count() == 6
    assert await Chunks(ctx.database).count(JUNE_11) == 2


async def test_deleted_chunks_are_in_no_listing_even_while_indexed(ctx: Context) -> None:
    await store_diary(ctx)
    chunks = Chunks(ctx.database)
    [deleted] = await chunks.load_of_source("a", 1)
    await Ingestion(ctx.database).save([chunk_source(replace(make_source("a"), sections=()))], NOON)
    for _ in ("indexed", "no longer indexed"):
        assert await list_by_date(ctx) == ["b 12", "b 11", "b 10"]
        assert await list_by_date(ctx, TAGGED) == []
        assert await chunks.count() == 3
        assert await chunks.load_of_source("a", 5) == []
        assert await chunks.load_positions([deleted.chunk_id]) == {}
        await index_all(ctx)
