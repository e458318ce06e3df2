"""Sources, listed and read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shared.knowledge.source_repository import SourceOrder, Sources
from tests.support.knowledge import BAKING, SAILING
from tests.support.small_sources import NOON, make_source, store_and_index
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from shared.knowledge.source_repository import SourceCursor
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


async def walk(ctx: Context, order: SourceOrder) -> list[str]:
    """Return the ids of all sources, read one by one."""
    ids: list[str] = []
    after: SourceCursor | None = None
    while page := await Sources(ctx.database).load_page(order, 1, after=after):
        ids.append(page[0].source_id)
        after = page[0].cursor(order)
    return ids


async def test_ingest_writes_the_fields_that_sort_sources(ctx: Context) -> None:
    await store_and_index(ctx, BAKING)
    data = (await read_documents(ctx, "sources"))["baking"]
    assert data["title_key"] == "bread at home"
    assert data["facets"] == ["author:ida loaf", "category:books", "tag:dough", "tag:food"]


async def test_a_title_too_long_for_an_index_is_listed_and_read_whole(ctx: Context) -> None:
    title = "é" * 2_000
    await store_and_index(ctx, make_source("long", title=title))
    assert [item.title for item in await Sources(ctx.database).load_page(SourceOrder.TITLE, 5)] == [
        title
    ]
    assert await walk(ctx, SourceOrder.TITLE) == ["long"]


async def test_paging_in_each_order_has_each_source_once(ctx: Context) -> None:
    await store_and_index(ctx, make_source("b", title="Same"), make_source("a", title="Same"))
    await store_and_index(
        ctx, make_source("c", title="Before"), now=NOON + timedelta(microseconds=1)
    )
    assert await walk(ctx, SourceOrder.TITLE) == ["c", "a", "b"]
    assert await walk(ctx, SourceOrder.RECENT) == ["c", "b", "a"]


async def test_sources_are_read_in_the_given_order(ctx: Context) -> None:
    await store_and_index(ctx, BAKING, SAILING)
    sources = await Sources(ctx.database).get_all(["sailing", "nobody", "baking"])
    assert [item.source_id for item in sources] == ["sailing", "baking"]
    assert await Sources(ctx.database).get_all([]) == []


async def test_a_source_that_does_not_exist_is_none(ctx: Context) -> None:
    assert await Sources(ctx.database).get("nobody") is None


async def test_a_source_says_when_it_changed(ctx: Context) -> None:
    later = NOON + timedelta(days=1)
    await store_and_index(ctx, BAKING)
    await store_and_index(ctx, make_source("baking", "Edited."), now=later)
    sources = await Sources(ctx.database).get("baking")
    assert sources is not None
    assert sources.updated_at == later


async def test_sources_are_found_by_title_prefix(ctx: Context) -> None:
    sources = [
        make_source("a", title="Bread"),
        make_source("b", title="BREAKING"),
        make_source("c", title="Brie"),
    ]
    await store_and_index(ctx, *sources)
    titled = await Sources(ctx.database).list_by_title_prefix(" BREA", 5)
    assert [item.source_id for item in titled] == ["a", "b"]
    assert len(await Sources(ctx.database).list_by_title_prefix("Brea", 1)) == 1


async def test_a_title_is_found_by_more_than_its_sort_key(ctx: Context) -> None:
    title = "\ufdfa" * 200
    await store_and_index(ctx, make_source("a", title=title), make_source("b", title="Bread"))
    for beginning in (title, title[:150], title[:1]):
        assert [
            item.source_id
            for item in await Sources(ctx.database).list_by_title_prefix(beginning, 5)
        ] == ["a"]


async def test_sources_are_counted(ctx: Context) -> None:
    await store_and_index(ctx, BAKING, SAILING)
    assert await Sources(ctx.database).count() == 2
