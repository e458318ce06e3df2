"""Sources, listed and read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from shared.knowledge.source_repository import Order, Sources
from tests.support.knowledge import BAKING, SAILING
from tests.support.many_sources import NOON, shelve, source
from tests.support.stored_documents import documents

if TYPE_CHECKING:
    from shared.knowledge.source_repository import Place
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio


async def walk(deps: Deps, order: Order) -> list[str]:
    """The ids of all sources, read one by one."""
    ids: list[str] = []
    after: Place | None = None
    while page := await Sources(deps.database).page(order, 1, after=after):
        ids.append(page[0].source_id)
        after = page[0].place(order)
    return ids


async def test_ingest_writes_what_sources_are_listed_by(deps: Deps) -> None:
    await shelve(deps, BAKING)
    data = (await documents(deps, "sources"))["baking"]
    assert data["title_key"] == "bread at home"
    assert data["facets"] == ["author:ida loaf", "category:books", "tag:dough", "tag:food"]


async def test_a_title_too_long_for_an_index_is_listed_and_read_whole(deps: Deps) -> None:
    title = "é" * 2_000
    await shelve(deps, source("long", title=title))
    assert [each.title for each in await Sources(deps.database).page(Order.TITLE, 5)] == [title]
    assert await walk(deps, Order.TITLE) == ["long"]


async def test_a_walk_in_either_order_meets_each_source_once(deps: Deps) -> None:
    await shelve(deps, source("b", title="Same"), source("a", title="Same"))
    await shelve(deps, source("c", title="Before"), now=NOON + timedelta(microseconds=1))
    assert await walk(deps, Order.TITLE) == ["c", "a", "b"]
    assert await walk(deps, Order.RECENT) == ["c", "b", "a"]


async def test_sources_are_read_in_the_order_asked_but_missing_ones(
    deps: Deps,
) -> None:
    await shelve(deps, BAKING, SAILING)
    found = await Sources(deps.database).get_all(["sailing", "nobody", "baking"])
    assert [each.source_id for each in found] == ["sailing", "baking"]
    assert await Sources(deps.database).get_all([]) == []


async def test_a_source_that_does_not_exist_is_none(deps: Deps) -> None:
    assert await Sources(deps.database).get("nobody") is None


async def test_a_source_says_when_it_changed(deps: Deps) -> None:
    later = NOON + timedelta(days=1)
    await shelve(deps, BAKING)
    await shelve(deps, source("baking", "Edited."), now=later)
    found = await Sources(deps.database).get("baking")
    assert found is not None
    assert found.updated_at == later


async def test_sources_are_found_by_how_their_titles_begin(deps: Deps) -> None:
    sources = [source("a", title="Bread"), source("b", title="BREAKING"), source("c", title="Brie")]
    await shelve(deps, *sources)
    found = await Sources(deps.database).titled(" BREA", 5)
    assert [each.source_id for each in found] == ["a", "b"]
    assert len(await Sources(deps.database).titled("Brea", 1)) == 1


async def test_a_title_is_found_by_more_than_it_is_sorted_by(
    deps: Deps,
) -> None:
    title = "\ufdfa" * 200
    await shelve(deps, source("a", title=title), source("b", title="Bread"))
    for beginning in (title, title[:150], title[:1]):
        assert [each.source_id for each in await Sources(deps.database).titled(beginning, 5)] == [
            "a"
        ]


async def test_sources_are_counted(deps: Deps) -> None:
    await shelve(deps, BAKING, SAILING)
    assert await Sources(deps.database).count() == 2
