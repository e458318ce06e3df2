"""Sources, listed and read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shared.knowledge.source_repository import SourceOrder, Sources
from tests.support.knowledge import BAKING, SAILING
from tests.support.many_sources import NOON, shelve, source
from tests.support.stored_documents import documents

if TYPE_CHECKING:
    from shared.knowledge.source_repository import SourceCursor
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


async def walk(ctx: Context, order: SourceOrder) -> list[str]:
    """The ids of all sources, read one by one."""
    ids: list[str] = []
    after: SourceCursor | None = None
    while page := await Sources(ctx.database).page(order, 1, after=after):
        ids.append(page[0].source_id)
        after = page[0].cursor(order)
    return ids


async def test_ingest_writes_what_sources_are_listed_by(ctx: Context) -> None:
    await shelve(ctx, BAKING)
    data = (await documents(ctx, "sources"))["baking"]
    assert data["title_key"] == "bread at home"
    assert data["facets"] == ["author:ida loaf", "category:books", "tag:dough", "tag:food"]


async def test_a_title_too_long_for_an_index_is_listed_and_read_whole(ctx: Context) -> None:
    title = "é" * 2_000
    await shelve(ctx, source("long", title=title))
    assert [each.title for each in await Sources(ctx.database).page(SourceOrder.TITLE, 5)] == [
        title
    ]
    assert await walk(ctx, SourceOrder.TITLE) == ["long"]


async def test_a_walk_in_either_order_meets_each_source_once(ctx: Context) -> None:
    await shelve(ctx, source("b", title="Same"), source("a", title="Same"))
    await shelve(ctx, source("c", title="Before"), now=NOON + timedelta(microseconds=1))
    assert await walk(ctx, SourceOrder.TITLE) == ["c", "a", "b"]
    assert await walk(ctx, SourceOrder.RECENT) == ["c", "b", "a"]


async def test_sources_are_read_in_the_order_asked_but_missing_ones(
    ctx: Context,
) -> None:
    await shelve(ctx, BAKING, SAILING)
    found = await Sources(ctx.database).get_all(["sailing", "nobody", "baking"])
    assert [each.source_id for each in found] == ["sailing", "baking"]
    assert await Sources(ctx.database).get_all([]) == []


async def test_a_source_that_does_not_exist_is_none(ctx: Context) -> None:
    assert await Sources(ctx.database).get("nobody") is None


async def test_a_source_says_when_it_changed(ctx: Context) -> None:
    later = NOON + timedelta(days=1)
    await shelve(ctx, BAKING)
    await shelve(ctx, source("baking", "Edited."), now=later)
    found = await Sources(ctx.database).get("baking")
    assert found is not None
    assert found.updated_at == later


async def test_sources_are_found_by_how_their_titles_begin(ctx: Context) -> None:
    sources = [source("a", title="Bread"), source("b", title="BREAKING"), source("c", title="Brie")]
    await shelve(ctx, *sources)
    found = await Sources(ctx.database).titled(" BREA", 5)
    assert [each.source_id for each in found] == ["a", "b"]
    assert len(await Sources(ctx.database).titled("Brea", 1)) == 1


async def test_a_title_is_found_by_more_than_it_is_sorted_by(
    ctx: Context,
) -> None:
    title = "\ufdfa" * 200
    await shelve(ctx, source("a", title=title), source("b", title="Bread"))
    for beginning in (title, title[:150], title[:1]):
        assert [each.source_id for each in await Sources(ctx.database).titled(beginning, 5)] == [
            "a"
        ]


async def test_sources_are_counted(ctx: Context) -> None:
    await shelve(ctx, BAKING, SAILING)
    assert await Sources(ctx.database).count() == 2
