"""Chunks listed by position and by date, and counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.core.dates import ALL_DATES, DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.index.vector_index import make_date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import Ingestion
from tests.support.knowledge import BAKING, chunk_source, index_all, list_texts
from tests.support.small_sources import NOON, make_source, store_and_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.index.vector_index import DateCursor
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

JUNE_11 = DateSpan(date(2024, 6, 11), date(2024, 6, 11))
KEPT = make_named_facet(Kind.TAG, "kept")
TAGGED = [KEPT.id]


async def store_diary(ctx: Context) -> None:
    """Store two chunks a day for three days. Those of one source are tagged."""
    dates = [NOON - timedelta(days=days) for days in range(3)]
    await store_and_index(
        ctx, make_source("a", dates=dates, tags=("Kept",)), make_source("b", dates=dates)
    )


async def walk(ctx: Context, facets: Sequence[str] = (), span: DateSpan = ALL_DATES) -> list[str]:
    """Return the sources and days of all chunks by date, read one by one."""
    listed_ids: list[str] = []
    after: DateCursor | None = None
    while listed_chunks := await Chunks(ctx.database).load_newest(1, facets, span, after):
        listed_ids.append(f"{listed_chunks[0].source_id} {listed_chunks[0].dated_at:%d}")
        after = make_date_cursor(listed_chunks[0])
    return listed_ids


async def test_a_listing_by_date_has_each_chunk_once(ctx: Context) -> None:
    await store_diary(ctx)
    assert await walk(ctx) == ["b 12", "a 12", "b 11", "a 11", "b 10", "a 10"]


async def test_chunks_are_listed_by_facets_and_days_together(ctx: Context) -> None:
    await store_diary(ctx)
    assert await walk(ctx, TAGGED) == ["a 12", "a 11", "a 10"]
    assert await walk(ctx, span=JUNE_11) == ["b 11", "a 11"]
    assert await walk(ctx, TAGGED, JUNE_11) == ["a 11"]


async def test_chunks_of_a_source_come_in_order_from_a_position_on(ctx: Context) -> None:
    chunks = await store_and_index(ctx, BAKING, make_source("b"))
    listed_chunks = await Chunks(ctx.database).load_of_source("baking", 5)
    assert list_texts(listed_chunks) == list_texts(chunks[:3])
    assert await Chunks(ctx.database).load_of_source("baking", 1, first=2) == listed_chunks[1:2]


async def test_the_positions_of_existing_chunks_are_returned(ctx: Context) -> None:
    first, _, third = (chunk.chunk_id for chunk in await store_and_index(ctx, BAKING))
    listed_chunks = await Chunks(ctx.database).load_positions([third, "nobody", first])
    assert listed_chunks == {first: 1, third: 3}


async def test_chunks_are_counted_by_days(ctx: Context) -> None:
    await store_diary(ctx)
    assert await Chunks(ctx.database).count() == 6
    assert await Chunks(ctx.database).count(JUNE_11) == 2


async def test_deleted_chunks_are_nowhere_even_while_indexed(ctx: Context) -> None:
    await store_diary(ctx)
    gone = (await Chunks(ctx.database).load_of_source("a", 1))[0].chunk_id
    await Ingestion(ctx.database).save([chunk_source(replace(make_source("a"), sections=()))], NOON)
    lists = Chunks(ctx.database)
    for _ in range(2):
        assert await walk(ctx) == ["b 12", "b 11", "b 10"]
        assert await walk(ctx, TAGGED) == []
        assert await lists.count() == 3
        assert (await lists.load_of_source("a", 5), await lists.load_positions([gone])) == ([], {})
        await index_all(ctx)
