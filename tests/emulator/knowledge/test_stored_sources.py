"""The repository of sources lists them page by page, and reads them by id or title prefix."""

from __future__ import annotations

from datetime import timedelta

from shared.knowledge.source_repository import SourceOrder, Sources
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, SAILING
from tests.support.small_sources import NOON, make_source, store_and_index
from tests.support.stored_documents import read_documents


async def list_ids(ctx: Context, order: SourceOrder) -> list[str]:
    """Return the ids of all sources, from pages of one source."""
    ids: list[str] = []
    after: tuple[int | str, str] | None = None
    while page := await Sources(ctx.database).load_page(order, 1, after=after):
        ids.append(page[0].source_id)
        after = page[0].cursor(order)
    return ids


async def test_ingest_stores_the_sort_key_and_the_facets(ctx: Context) -> None:
    await store_and_index(ctx, BAKING)
    data = (await read_documents(ctx, "sources"))["baking"]
    assert data["title_key"] == "bread at home"
    assert data["facets"] == ["author:ida loaf", "category:books", "tag:dough", "tag:food"]


async def test_a_title_too_long_for_an_index_entry_is_listed_whole(ctx: Context) -> None:
    title = "é" * 2_000  # 4,000 bytes; an index entry has at most 1,500
    await store_and_index(ctx, make_source("long", title=title))
    [source] = await Sources(ctx.database).load_page(SourceOrder.TITLE, 5)
    assert source.title == title
    assert await list_ids(ctx, SourceOrder.TITLE) == ["long"]


async def test_pages_in_each_order_contain_each_source_once(ctx: Context) -> None:
    await store_and_index(ctx, make_source("b", title="Same"), make_source("a", title="Same"))
    later = NOON + timedelta(microseconds=1)
    await store_and_index(ctx, make_source("c", title="Before"), now=later)
    assert await list_ids(ctx, SourceOrder.TITLE) == ["c", "a", "b"]
    assert await list_ids(ctx, SourceOrder.RECENT) == ["c", "b", "a"]


async def test_sources_are_read_in_the_given_order(ctx: Context) -> None:
    await store_and_index(ctx, BAKING, SAILING)
    sources = await Sources(ctx.database).get_all(["sailing", "nobody", "baking"])
    assert [source.source_id for source in sources] == ["sailing", "baking"]
    assert await Sources(ctx.database).get_all([]) == []


async def test_reading_a_missing_source_returns_none(ctx: Context) -> None:
    assert await Sources(ctx.database).get("nobody") is None


async def test_a_source_has_the_time_of_its_last_change(ctx: Context) -> None:
    later = NOON + timedelta(days=1)
    await store_and_index(ctx, BAKING)
    await store_and_index(ctx, make_source("baking", "Edited."), now=later)
    source = await Sources(ctx.database).get("baking")
    assert source is not None
    assert source.updated_at == later


async def test_sources_are_found_by_title_prefix(ctx: Context) -> None:
    sources = [
        make_source("a", title="Bread"),
        make_source("b", title="BREAKING"),
        make_source("c", title="Brie"),
    ]
    await store_and_index(ctx, *sources)
    matching = await Sources(ctx.database).list_by_title_prefix(" BREA", 5)
    assert [source.source_id for source in matching] == ["a", "b"]
    assert len(await Sources(ctx.database).list_by_title_prefix("Brea", 1)) == 1


async def test_a_title_longer_than_its_sort_key_is_found_by_any_prefix(ctx: Context) -> None:
    title = "\ufdfa" * 200  # the sort key has 18 characters for each letter, and 300 at most
    await store_and_index(ctx, make_source("a", title=title), make_source("b", title="Bread"))
    for prefix in (title, title[:150], title[:1]):
        [source] = await Sources(ctx.database).list_by_title_prefix(prefix, 5)
        assert source.source_id == "a"


async def test_sources_are_counted(ctx: Context) -> None:
    await store_and_index(ctx, BAKING, SAILING)
    assert await Sources(ctx.database).count() == 2
