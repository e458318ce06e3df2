"""`get_recent` lists the newest passages of a period, and counts its passages by day.

The counts are the activity of the period. They come from the index: for each month, it stores
postings, the list of the passages that are dated in the month.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.tools.knowledge.get_recent.activity import MAX_SOURCES
from functions.tools.knowledge.get_recent.tool import (
    In,
    Out,
    explain_empty,
    format_result,
    get_recent,
)
from shared.core.caller import Caller
from shared.core.dates import Period
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import App, Context
from shared.runtime.pagination import encode_cursor
from tests.support.knowledge import chunk_source, set_fields
from tests.support.links import EDITOR, SITE_URL
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.small_sources import NOON, make_source, store_and_index
from tests.support.tool_calls import call_result

NEXT_PASSAGE = 1
"""A page reads one passage more, which shows whether there is another page."""
JUNE_POSTINGS = 1 + 1
"""The postings of June, and the totals of the index, which are read with them."""
UNINDEXED_CHECK = 2
"""Two queries look for passages that are not indexed. Without a result, each costs a read."""


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    """An app whose clock shows `NOON`, on a Wednesday in June."""
    opened = App(settings, clock=lambda: NOON)
    yield opened
    await opened.aclose()


def subtract_days(days: int) -> datetime:
    """Return the time so many days before the clock of `app`."""
    return NOON - timedelta(days=days)


async def store_diary(ctx: Context) -> None:
    """Store eight passages of the last 200 days, by two authors and by none."""
    bread = make_source(
        "bread", author="Ida Loaf", dates=[subtract_days(0), subtract_days(0), subtract_days(2)]
    )
    sails = make_source("sails", author="Sam Reef", dates=[subtract_days(2), subtract_days(10)])
    yeast = make_source("yeast", author="Ida Loaf", dates=[subtract_days(6), subtract_days(200)])
    await store_and_index(ctx, bread, sails, yeast, make_source("notes", dates=[subtract_days(40)]))


def list_dates(out: Out) -> list[str | None]:
    """Return the dates of the passages on a page."""
    return [chunk.date for chunk in out.chunks]


async def test_the_default_page_lists_the_last_week_and_its_activity(ctx: Context) -> None:
    await store_diary(ctx)
    out = await get_recent(In(), ctx)
    assert list_dates(out) == ["2024-06-12"] * 2 + ["2024-06-10"] * 2 + ["2024-06-06"]
    assert out.model_dump(exclude={"chunks"}) == {
        "period": Period.LAST_7_DAYS,
        "first_day": "2024-06-06",
        "time_zone": "UTC",
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
        "links": None,
        "message": None,
    }


async def test_the_text_shows_counts_and_a_snippet_with_its_id(ctx: Context) -> None:
    await store_diary(ctx)
    out = await get_recent(In(limit=1), ctx)
    [passage] = out.chunks
    assert (
        format_result(out)
        == f"""\
Passages from 2024-06-06 to 2024-06-12: 5.
By date: 2024-06-06 (1); 2024-06-10 (2); 2024-06-12 (2)
By source: Bread by Ida Loaf (3, ID bread); Sails by Sam Reef (1, ID sails); \
Yeast by Ida Loaf (1, ID yeast)
By author: Ida Loaf (4); Sam Reef (1)

- Bread by Ida Loaf (2024-06-12)
   {passage.snippet}
   ID: {passage.chunk_id}

There are more: call again with cursor {out.next_cursor}"""
    )


async def test_the_text_shows_the_message_of_an_empty_base(ctx: Context) -> None:
    assert format_result(await get_recent(In(), ctx)).startswith(explain_empty())


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
async def test_the_timeline_counts_the_passages_of_the_period(
    ctx: Context, period: Period, expected: dict[str, int]
) -> None:
    await store_diary(ctx)
    await store_and_index(ctx, make_source("old", dates=[datetime(2023, 11, 30, 23, tzinfo=UTC)]))
    out = await get_recent(In(period=period), ctx)
    assert out.activity is not None
    assert {entry.date: entry.chunks for entry in out.activity.timeline} == expected
    assert sum(expected.values()) == out.activity.total == len(out.chunks)


EVENING_IN_CALIFORNIA = datetime(2024, 6, 12, 3, tzinfo=UTC)
"""20:00 on June 11 there."""


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"period": "yesterday", "time_zone": "America/Los_Angeles"}, 1),
        ({"period": "today", "time_zone": "America/Los_Angeles"}, 0),
        ({"period": "today"}, 1),
    ],
)
async def test_a_time_zone_decides_what_day_it_was(
    ctx: Context, arguments: dict[str, Any], count: int
) -> None:
    await store_and_index(ctx, make_source("evening", dates=[EVENING_IN_CALIFORNIA]))
    out = await get_recent(In(**arguments), ctx)
    assert out.activity is not None
    assert len(out.chunks) == out.activity.total == count
    assert [entry.date for entry in out.activity.timeline] == [out.first_day] * count
    assert list_dates(out) == [out.first_day] * count


async def test_the_setting_decides_without_an_argument(ctx: Context) -> None:
    """In a zone to the east, the first hours of a month are in the former month of the index."""
    east = replace(ctx, settings=ctx.settings.model_copy(update={"time_zone": "Asia/Tokyo"}))
    may_in_utc = datetime(2024, 5, 31, 20, tzinfo=UTC)
    await store_and_index(ctx, make_source("early", dates=[may_in_utc, subtract_days(0)]))
    for period, timeline in (
        ("last_30_days", {"2024-06-01": 1, "2024-06-12": 1}),
        ("this_year", {"2024-06": 2}),
    ):
        out = await get_recent(In(period=period), east)
        assert out.activity is not None
        assert {entry.date: entry.chunks for entry in out.activity.timeline} == timeline
        assert out.time_zone == "Asia/Tokyo"


async def test_pages_skip_and_repeat_no_passage_during_changes(ctx: Context) -> None:
    await store_diary(ctx)
    first = await get_recent(In(limit=2), ctx)
    await store_and_index(ctx, make_source("new", dates=[subtract_days(0) + timedelta(hours=1)]))
    await store_and_index(ctx, replace(make_source("bread"), sections=()))
    second = await get_recent(In(limit=2, cursor=first.next_cursor), ctx)
    assert list_dates(first) == ["2024-06-12", "2024-06-12"]
    assert [chunk.source_id for chunk in second.chunks] == ["sails", "yeast"]
    assert second.next_cursor is None
    assert second.activity is None


async def test_a_later_page_keeps_the_period_over_midnight(ctx: Context, app: App) -> None:
    await store_diary(ctx)
    first = await get_recent(In(limit=4), ctx)
    app.clock = lambda: NOON + timedelta(days=1)
    second = await get_recent(In(limit=4, cursor=first.next_cursor), make_call_context(app))
    assert list_dates(second) == ["2024-06-06"]
    assert (second.first_day, second.last_day) == (first.first_day, first.last_day)


async def test_deleted_passages_are_neither_listed_nor_in_the_activity(ctx: Context) -> None:
    await store_diary(ctx)
    await store_and_index(ctx, replace(make_source("bread"), sections=()))
    out = await get_recent(In(), ctx)
    assert out.activity is not None
    assert len(out.chunks) == out.activity.total == 2
    assert {source.source_id for source in out.activity.top_sources} == {"sails", "yeast"}


async def truncate_june(ctx: Context) -> None:
    """Leave only the passages of `bread` in the postings of June, as if these were too long."""
    june = ctx.database.connection.client.document("facets/month:2024-06")
    data = (await june.get()).to_dict() or {}
    entries = {name: entry for name, entry in data["postings"].items() if "bread" in name}
    await june.update({"postings": entries, "since": min(entries.values()), "held": len(entries)})


async def test_days_missing_from_postings_are_counted(ctx: Context, app: App) -> None:
    await store_diary(ctx)
    await truncate_june(ctx)

    call_ctx = make_call_context(app)
    out = await get_recent(In(), call_ctx)

    assert out.activity is not None
    assert {entry.date: entry.chunks for entry in out.activity.timeline} == {
        "2024-06-06": 1, "2024-06-10": 2, "2024-06-12": 2
    }  # fmt: skip
    assert [source.source_id for source in out.activity.top_sources] == ["bread"]
    assert out.activity.total == 5
    assert out.activity.partial
    passages, sources = 5, 1
    documents = passages + JUNE_POSTINGS + UNINDEXED_CHECK + sources
    assert get_read_cost(call_ctx) == ReadCost(round_trips=2, documents=documents)


async def test_documents_read_do_not_grow_with_the_period(ctx: Context, app: App) -> None:
    """A page reads as much of 200 passages by 100 authors as of 40 by 20."""
    costs = []
    for numbers in (range(20), range(20, 100)):
        sources = [
            make_source(f"s{n}", author=f"A{n}", dates=[subtract_days(n % 7)] * 2) for n in numbers
        ]
        for start in range(0, len(sources), 20):
            await store_and_index(ctx, *sources[start : start + 20])
        call_ctx = make_call_context(app)
        out = await get_recent(In(), call_ctx)
        costs.append(get_read_cost(call_ctx))

    assert out.activity is not None
    assert out.activity.total == 200
    passages = 10 + NEXT_PASSAGE
    documents = passages + JUNE_POSTINGS + UNINDEXED_CHECK + MAX_SOURCES
    assert costs == [ReadCost(round_trips=2, documents=documents)] * 2


async def test_only_the_total_counts_unindexed_passages(ctx: Context) -> None:
    await store_diary(ctx)
    new_source = make_source("new", dates=[subtract_days(0)])
    await Ingestion(ctx.database).save([chunk_source(new_source)], NOON)
    out = await get_recent(In(), ctx)
    assert out.activity is not None
    assert len(out.chunks) == out.activity.total == 6
    assert sum(entry.chunks for entry in out.activity.timeline) == 5
    assert out.activity.partial


async def test_an_empty_period_names_the_newest_passage(ctx: Context) -> None:
    await store_and_index(ctx, make_source("old", dates=[subtract_days(500)]))
    out = await get_recent(In(), ctx)
    assert out.chunks == []
    assert out.activity is not None
    assert out.activity.total == 0
    assert out.message == (
        "No passage is dated in this period. The newest is from 2023-01-29. To list the passages"
        " of other days, call search_kb with filters.date_range and no query."
    )


async def test_an_empty_base_says_how_to_add_texts(ctx: Context) -> None:
    out = await get_recent(In(), ctx)
    assert out.chunks == []
    assert out.next_cursor is None
    assert out.message == explain_empty()


async def test_passages_without_a_stored_source_are_counted(ctx: Context) -> None:
    await store_diary(ctx)
    await ctx.database.connection.client.document("sources/bread").delete()
    out = await get_recent(In(), ctx)
    assert out.activity is not None
    assert out.activity.total == 5
    assert {source.source_id for source in out.activity.top_sources} == {"sails", "yeast"}


async def test_a_card_gives_a_passage_its_summary(ctx: Context) -> None:
    [chunk] = await store_and_index(ctx, make_source("bread", dates=[subtract_days(0)]))
    card = {"summary": "Knead.", "takeaways": []}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": card})
    [passage] = (await get_recent(In(), ctx)).chunks
    assert passage.summary == "Knead."


# A position consists of the time and the id of a passage, and the first and last day as ordinals.
@pytest.mark.parametrize(
    "position",
    [
        pytest.param([10**30, "a", 1, 1], id="time after the last date"),
        pytest.param([1, "a/b", 1, 1], id="slash in the id"),
        pytest.param([1, "a", 0, 1], id="day before the first date"),
        pytest.param([1, "a", 1, 10**9], id="day after the last date"),
        pytest.param([1, "a", 1], id="no last day"),
    ],
)
async def test_a_forged_cursor_is_refused(ctx: Context, position: list[str | int]) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await get_recent(In(cursor=encode_cursor(In(), position)), ctx)


async def save_links(app: App, count: int) -> None:
    """Save links, whose pages are not fetched."""
    for number in range(count):
        await call_result(app, "save_link", EDITOR, url=f"{SITE_URL}/{number}")


async def test_the_first_page_shows_the_five_newest_links(ctx: Context, app: App) -> None:
    await store_diary(ctx)
    await save_links(app, 7)
    out = await get_recent(In(limit=2), ctx)
    assert out.links is not None
    assert len(out.links) == 5
    assert {link.state for link in out.links} == {"waiting"}
    assert {link.requested for link in out.links} == {"2024-06-12T12:00:00Z"}
    assert (await get_recent(In(limit=2, cursor=out.next_cursor), ctx)).links is None


async def test_a_caller_without_a_credential_sees_no_links(app: App) -> None:
    await save_links(app, 1)
    assert (await get_recent(In(), make_call_context(app))).links is None


async def test_the_default_page_reads_at_most_40_documents(ctx: Context, app: App) -> None:
    for start in (0, 20):
        sources = [
            make_source(f"s{n}", dates=[subtract_days(n % 7)] * 2) for n in range(start, start + 20)
        ]
        await store_and_index(ctx, *sources)
    await save_links(app, 7)

    call_ctx = make_call_context(app, Caller.of("anna"))
    await get_recent(In(), call_ctx)

    passages, links = 10 + NEXT_PASSAGE, 5
    documents = passages + JUNE_POSTINGS + UNINDEXED_CHECK + MAX_SOURCES + links
    assert get_read_cost(call_ctx) == ReadCost(round_trips=2, documents=documents)
    assert documents <= 40
