"""`get_recent`, against the emulator."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from functions.tools.knowledge.get_recent.tool import EMPTY, In, get_recent
from shared.core.caller import Caller
from shared.core.dates import Period
from shared.core.errors import InvalidInput
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import App
from shared.runtime.pagination import encode_cursor
from tests.support.knowledge import in_chunks, write
from tests.support.many_sources import NOON, cost, metered, shelve, source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from functions.tools.knowledge.get_recent.tool import Out
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    """What a process opens, on a Wednesday in June."""
    opened = App(settings, clock=lambda: NOON)
    yield opened
    await opened.aclose()


def ago(days: int) -> datetime:
    return NOON - timedelta(days=days)


async def diary(ctx: Context) -> None:
    """Passages of four days and of last year, by two authors."""
    bread = source("bread", author="Ida Loaf", dates=[ago(0), ago(0), ago(2)])
    sails = source("sails", author="Sam Reef", dates=[ago(2), ago(10)])
    yeast = source("yeast", author="Ida Loaf", dates=[ago(6), ago(200)])
    await shelve(ctx, bread, sails, yeast, source("notes", dates=[ago(40)]))


def dates(out: Out) -> list[str | None]:
    return [each.date for each in out.chunks]


async def test_the_latest_passages_of_a_week_come_with_its_activity(ctx: Context) -> None:
    await diary(ctx)
    out = await get_recent(In(), ctx)
    assert dates(out) == ["2024-06-12"] * 2 + ["2024-06-10"] * 2 + ["2024-06-06"]
    assert out.model_dump(exclude={"chunks"}) == {
        "period": Period.LAST_7_DAYS,
        "first_day": "2024-06-06",
        "last_day": "2024-06-12",
        "next_cursor": None,
        "activity": {
            "total": 5,
            "timeline": [
                {"date": "2024-06-06", "chunks": 1},
                {"date": "2024-06-10", "chunks": 2},
                {"date": "2024-06-12", "chunks": 2},
            ],
            "top_sources": [
                {"source_id": "bread", "title": "Bread", "author": "Ida Loaf", "chunks": 3},
                {"source_id": "sails", "title": "Sails", "author": "Sam Reef", "chunks": 1},
                {"source_id": "yeast", "title": "Yeast", "author": "Ida Loaf", "chunks": 1},
            ],
            "top_authors": [
                {"author": "Ida Loaf", "chunks": 4},
                {"author": "Sam Reef", "chunks": 1},
            ],
            "partial": False,
        },
        "message": None,
    }


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("today", {"2024-06-12": 2}),
        ("yesterday", {}),
        ("last_3_days", {"2024-06-10": 2, "2024-06-12": 2}),
        ("last_30_days", {"2024-06-02": 1, "2024-06-06": 1, "2024-06-10": 2, "2024-06-12": 2}),
        ("last_month", {"2024-05-03": 1}),
        ("last_year", {"2023-11": 2}),
    ],
)
async def test_every_period_has_its_timeline(
    ctx: Context, period: Period, expected: dict[str, int]
) -> None:
    await diary(ctx)
    await shelve(ctx, source("old", dates=[datetime(2023, 11, 30, 23, tzinfo=UTC)]))
    out = await get_recent(In(period=period), ctx)
    assert out.activity is not None
    assert expected == {each.date: each.chunks for each in out.activity.timeline}
    assert sum(expected.values()) == out.activity.total == len(out.chunks)


async def test_a_walk_among_changes_misses_and_repeats_nothing(
    ctx: Context,
) -> None:
    await diary(ctx)
    first = await get_recent(In(limit=2), ctx)
    await shelve(ctx, source("new", dates=[ago(0) + timedelta(hours=1)]))
    await shelve(ctx, replace(source("bread"), sections=()))
    second = await get_recent(In(limit=2, cursor=first.next_cursor), ctx)
    assert dates(first) == ["2024-06-12", "2024-06-12"]
    assert [each.source_id for each in second.chunks] == ["sails", "yeast"]
    assert (second.next_cursor, second.activity) == (None, None)


async def test_a_walk_over_midnight_keeps_the_days_it_began_with(ctx: Context, app: App) -> None:
    await diary(ctx)
    first = await get_recent(In(limit=4), ctx)
    app.clock = lambda: NOON + timedelta(days=1)
    args = In(limit=4, cursor=first.next_cursor)
    second = await get_recent(args, app.context(Caller(), ctx.database.meter))
    assert dates(second) == ["2024-06-06"]


async def test_deleted_passages_are_neither_listed_nor_in_the_activity(ctx: Context) -> None:
    await diary(ctx)
    await shelve(ctx, replace(source("bread"), sections=()))
    out = await get_recent(In(), ctx)
    assert out.activity is not None
    assert (len(out.chunks), out.activity.total) == (2, 2)
    assert {each.source_id for each in out.activity.top_sources} == {"sails", "yeast"}


async def test_days_that_a_cut_list_misses_are_counted_by_the_database(
    ctx: Context, app: App
) -> None:
    await diary(ctx)
    june = ctx.database.client.document("facets/month:2024-06")
    data = (await june.get()).to_dict() or {}
    kept = {name: entry for name, entry in data["postings"].items() if "bread" in name}
    await june.update({"postings": kept, "since": min(kept.values()), "held": len(kept)})
    own, meter = metered(app)
    out = await get_recent(In(), own)
    assert out.activity is not None
    assert {each.date: each.chunks for each in out.activity.timeline} == {
        "2024-06-06": 1, "2024-06-10": 2, "2024-06-12": 2
    }  # fmt: skip
    assert [each.source_id for each in out.activity.top_sources] == ["bread"]
    assert out.activity.partial
    assert cost(meter) == (2, 5 + (1 + 1) + 1 + 5 + 1)


async def test_the_total_alone_counts_what_is_not_indexed_yet(
    ctx: Context,
) -> None:
    await diary(ctx)
    await Ingestion(ctx.database).save([in_chunks(source("new", dates=[ago(0)]))], NOON)
    out = await get_recent(In(), ctx)
    assert out.activity is not None
    assert len(out.chunks) == out.activity.total == 6
    assert sum(each.chunks for each in out.activity.timeline) == 5
    assert out.activity.partial


async def test_an_empty_period_says_when_the_newest_passage_came_in(ctx: Context) -> None:
    await shelve(ctx, source("old", dates=[ago(500)]))
    out = await get_recent(In(), ctx)
    assert (out.chunks, out.activity and out.activity.total) == ([], 0)
    assert out.message == (
        "No passage is in this period. The newest is of 2023-01-29: call search_kb"
        " without a query and with filters.date_range to list passages of any days."
    )


async def test_an_empty_base_says_how_to_fill_it(ctx: Context) -> None:
    out = await get_recent(In(), ctx)
    assert (out.chunks, out.next_cursor, out.message) == ([], None, EMPTY)


async def test_passages_whose_source_is_not_yet_there_are_counted(ctx: Context) -> None:
    await diary(ctx)
    await ctx.database.client.document("sources/bread").delete()
    out = await get_recent(In(), ctx)
    assert out.activity is not None
    assert out.activity.total == 5
    assert {each.source_id for each in out.activity.top_sources} == {"sails", "yeast"}


async def test_a_card_gives_a_passage_its_summary(ctx: Context) -> None:
    chunk = (await shelve(ctx, source("bread", dates=[ago(0)])))[0]
    card = {"summary": "Knead.", "takeaways": []}
    await write(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": card})
    assert [each.summary for each in (await get_recent(In(), ctx)).chunks] == ["Knead."]


@pytest.mark.parametrize("arguments", [{"period": "last_week"}, {"limit": 0}, {"limit": 51}])
def test_what_is_out_of_range_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        In(**arguments)


async def test_a_cursor_of_another_period_is_refused(ctx: Context) -> None:
    await diary(ctx)
    cursor = (await get_recent(In(limit=1), ctx)).next_cursor
    with pytest.raises(InvalidInput, match="cursor"):
        await get_recent(In(period=Period.TODAY, cursor=cursor), ctx)


@pytest.mark.parametrize(
    "position", [[10**30, "a", 1], [1, "a/b", 1], [1, "a", 0], [1, "a", 10**9], [1, "a"]]
)
async def test_a_forged_cursor_is_refused(ctx: Context, position: list[str | int]) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await get_recent(In(cursor=encode_cursor(In(), position)), ctx)


async def test_a_call_is_two_round_trips_and_a_later_page_one(
    ctx: Context, app: App, meter: Meter
) -> None:
    await diary(ctx)
    own, meter = metered(app)
    cursor = (await get_recent(In(limit=2), own)).next_cursor
    assert cost(meter) == (2, 3 + (1 + 1) + 1 + 3)
    own, meter = metered(app)
    await get_recent(In(limit=2, cursor=cursor), own)
    assert cost(meter) == (1, 3)
