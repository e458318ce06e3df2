"""`get_recent` lists the newest passages of a period, and counts its passages by day.

The counts are the activity of the period. They come from the index: for each month, it stores
postings, the list of the passages that are dated in the month.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.get_recent.activity import MAX_SOURCES, Activity
from functions.tools.knowledge.get_recent.tool import (
    MAX_ADDED,
    In,
    Out,
    explain_empty,
    format_result,
    get_recent,
)
from shared.core.caller import Caller
from shared.core.errors import InvalidInput
from shared.runtime.context import App, Context
from shared.runtime.pagination import encode_cursor
from tests.support.clock import SettableClock
from tests.support.knowledge import ingest_sources
from tests.support.links import EDITOR, SITE_URL
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.small_sources import NOON, make_source, store_and_index
from tests.support.tool_calls import call_result

NEXT_PASSAGE = 1
"""A page reads one passage more, which shows whether there is another page."""
JUNE_POSTINGS = 1 + 1
"""The postings of June, and the totals of the index, which are read with them."""
NO_NOTES = 1
"""The query for notes costs a read although it finds none."""
ADDED_COUNT = 1
"""The database counts the sources that were added in the period."""
UNINDEXED_CHECK = 2
"""Two queries look for passages that are not indexed. Without a result, each costs a read."""


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


def subtract_days(days: int) -> datetime:
    return NOON - timedelta(days=days)


async def store_diary(ctx: Context) -> None:
    """Store eight passages of the last 200 days, by two authors and by none."""
    bread = make_source(
        "bread", author="Ida Loaf", dates=[subtract_days(0), subtract_days(0), subtract_days(2)]
    )
    sails = make_source("sails", author="Sam Reef", dates=[subtract_days(2), subtract_days(10)])
    yeast = make_source("yeast", author="Ida Loaf", dates=[subtract_days(6), subtract_days(200)])
    await store_and_index(ctx, bread, sails, yeast, make_source("notes", dates=[subtract_days(40)]))


def get_activity(out: Out) -> Activity:
    assert out.activity is not None
    return out.activity


def list_days(out: Out) -> dict[str, int]:
    """Return the number of passages by day, or by month."""
    return {entry.date: entry.chunks for entry in get_activity(out).timeline}


def list_dates(out: Out) -> list[str]:
    return [(chunk.date or "").removeprefix("highlighted ") for chunk in out.chunks]


async def test_the_default_page_lists_the_last_week_and_its_activity(
    ctx: Context, snapshot: SnapshotAssertion
) -> None:
    empty = await get_recent(In(), ctx)
    assert (empty.chunks, empty.next_cursor, empty.message) == ([], None, explain_empty())
    assert format_result(empty).startswith(explain_empty())
    await store_diary(ctx)
    out = await get_recent(In(), ctx)
    assert list_dates(out) == ["2024-06-12"] * 2 + ["2024-06-10"] * 2 + ["2024-06-06"]
    assert out.model_dump(mode="json", exclude={"chunks"}) == snapshot
    out = await get_recent(In(limit=1), ctx)
    assert format_result(out).replace(out.next_cursor or "", "CURSOR") == snapshot(name="text")


async def test_the_timeline_counts_the_passages_of_the_period(ctx: Context) -> None:
    await store_diary(ctx)
    await store_and_index(ctx, make_source("old", dates=[datetime(2023, 11, 30, 23, tzinfo=UTC)]))
    for period, expected in {
        "today": {"2024-06-12": 2},
        "yesterday": {},
        "last_3_days": {"2024-06-10": 2, "2024-06-12": 2},
        "last_30_days": {"2024-06-02": 1, "2024-06-06": 1, "2024-06-10": 2, "2024-06-12": 2},
        "last_month": {"2024-05-03": 1},
        "last_year": {"2023-11": 2},
    }.items():
        out = await get_recent(In(period=period), ctx)
        assert list_days(out) == expected
        assert sum(expected.values()) == get_activity(out).total == len(out.chunks)


async def test_days_after_and_before_a_day_are_listed_nearest_first(ctx: Context) -> None:
    await store_diary(ctx)
    for arguments, days, expected in (
        (
            {"before": "2024-06-10"},
            ("2023-06-11", "2024-06-09"),
            ["2024-06-06", "2024-06-02", "2024-05-03", "2023-11-25"],
        ),
        (
            {"after": "2024-06-06"},
            ("2024-06-07", "2025-06-06"),
            ["2024-06-10"] * 2 + ["2024-06-12"] * 2,
        ),
        (
            {"after": "2024-05", "before": "2024-06-07", "period": "today"},
            ("2024-06-01", "2024-06-06"),
            ["2024-06-06", "2024-06-02"],
        ),
    ):
        pages = [await get_recent(In(limit=1, **arguments), ctx)]
        while cursor := pages[-1].next_cursor:
            pages.append(await get_recent(In(limit=1, cursor=cursor, **arguments), ctx))
        assert (pages[0].first_day, pages[0].last_day) == days
        assert [date for page in pages for date in list_dates(page)] == expected
        assert get_activity(pages[0]).total == len(expected)


async def test_a_time_zone_decides_what_day_it_was(ctx: Context) -> None:
    """Here, it was 20:00 on June 11 in California."""
    evening = datetime(2024, 6, 12, 3, tzinfo=UTC)
    await store_and_index(ctx, make_source("evening", dates=[evening]))
    for period, time_zone, count in (
        ("yesterday", "America/Los_Angeles", 1),
        ("today", "America/Los_Angeles", 0),
        ("today", None, 1),
    ):
        out = await get_recent(In(period=period, time_zone=time_zone), ctx)
        assert get_activity(out).total == count
        assert list(list_days(out)) == list_dates(out) == [out.first_day] * count


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
        assert list_days(out) == timeline
        assert out.time_zone == "Asia/Tokyo"


async def test_pages_skip_and_repeat_no_passage_during_changes(ctx: Context) -> None:
    await store_diary(ctx)
    first = await get_recent(In(limit=2), ctx)
    await store_and_index(ctx, make_source("new", dates=[subtract_days(0) + timedelta(hours=1)]))
    await store_and_index(ctx, replace(make_source("bread"), sections=()))
    second = await get_recent(In(limit=2, cursor=first.next_cursor), ctx)
    assert list_dates(first) == ["2024-06-12", "2024-06-12"]
    assert [chunk.source_id for chunk in second.chunks] == ["sails", "yeast"]
    assert (second.next_cursor, second.activity) == (None, None)
    out = await get_recent(In(), ctx)
    assert len(out.chunks) == get_activity(out).total == 3
    assert get_activity(out).top_sources == []  # none of them has several passages


async def test_a_later_page_keeps_the_period_over_midnight(
    ctx: Context, clock: SettableClock
) -> None:
    await store_diary(ctx)
    first = await get_recent(In(limit=4), ctx)
    clock.advance(days=1)
    second = await get_recent(In(limit=4, cursor=first.next_cursor), ctx)
    assert list_dates(second) == ["2024-06-06"]
    assert (second.first_day, second.last_day) == (first.first_day, first.last_day)


async def test_days_missing_from_postings_are_counted(ctx: Context, app: App) -> None:
    """The postings of June have only the passages of `bread`, as if they were too long."""
    await store_diary(ctx)
    june = ctx.database.connection.client.document("facets/month:2024-06")
    data = (await june.get()).to_dict() or {}
    entries = {name: entry for name, entry in data["postings"].items() if "bread" in name}
    await june.update({"postings": entries, "since": min(entries.values()), "held": len(entries)})

    call_ctx = make_call_context(app)
    out = await get_recent(In(), call_ctx)
    assert list_days(out) == {"2024-06-06": 1, "2024-06-10": 2, "2024-06-12": 2}
    assert [source.source_id for source in get_activity(out).top_sources] == ["bread"]
    assert get_activity(out).total == 5
    assert get_activity(out).partial
    passages, sources, added = 5, 1, 4
    documents = passages + JUNE_POSTINGS + UNINDEXED_CHECK + sources + NO_NOTES
    documents += ADDED_COUNT + added
    assert get_read_cost(call_ctx) == ReadCost(round_trips=3, documents=documents)


async def test_documents_read_do_not_grow_with_the_period(ctx: Context, app: App) -> None:
    """A page reads as much of 200 passages by 100 authors as of 40 by 20.

    That is at most 46 documents and the notes. Only a caller with a credential sees links, of which
    the first page shows the five newest.
    """
    for number in range(7):
        await call_result(app, "save_link", EDITOR, url=f"{SITE_URL}/{number}")
    costs = []
    for numbers in (range(20), range(20, 100)):
        sources = [
            make_source(f"s{n}", author=f"A{n}", dates=[subtract_days(n % 7)] * 2) for n in numbers
        ]
        for start in range(0, len(sources), 20):
            await store_and_index(ctx, *sources[start : start + 20])
        for caller in (None, Caller.of("anna")):
            call_ctx = make_call_context(app, caller)
            out = await get_recent(In(), call_ctx)
            costs.append(get_read_cost(call_ctx))
            assert (out.links is None) == (caller is None)

    assert get_activity(out).total == 200
    assert [(link.state, link.requested) for link in out.links or ()] == [
        ("waiting", "2024-06-12T12:00:00Z")
    ] * 5
    assert (await get_recent(In(cursor=out.next_cursor), ctx)).links is None
    passages = 10 + NEXT_PASSAGE
    documents = passages + JUNE_POSTINGS + UNINDEXED_CHECK + MAX_SOURCES + ADDED_COUNT + MAX_ADDED
    assert documents + 5 <= 46
    documents += NO_NOTES
    assert costs == [ReadCost(3, documents), ReadCost(3, documents + 5)] * 2


async def test_only_the_total_counts_unindexed_passages(ctx: Context) -> None:
    """Passages without a stored source are counted, too."""
    await store_diary(ctx)
    await ctx.database.connection.client.document("sources/bread").delete()
    await ingest_sources(ctx, make_source("new", dates=[subtract_days(0)]), now=NOON)
    out = await get_recent(In(), ctx)
    activity = get_activity(out)
    assert len(out.chunks) == activity.total == 6
    assert sum(list_days(out).values()) == 5
    assert activity.partial
    assert [author.author for author in activity.top_authors] == ["Ida Loaf", "Sam Reef"]


async def test_an_empty_period_names_the_newest_passage(ctx: Context) -> None:
    await store_and_index(ctx, make_source("old", dates=[subtract_days(500)]))
    out = await get_recent(In(), ctx)
    assert (out.chunks, get_activity(out).total) == ([], 0)
    assert out.message == (
        "No passage is dated in this period. The newest is from 2023-01-29."
        " To see others, pass after or before."
    )


async def test_a_forged_cursor_is_refused(ctx: Context) -> None:
    """A position consists of a passage's time and id, and the first and last day as ordinals."""
    positions: list[list[int | str]] = [
        [10**30, "a", 1, 1],
        [1, "a/b", 1, 1],
        [1, "a", 0, 1],
        [1, "a", 1, 10**9],
        [1, "a", 1],
    ]
    for position in positions:
        with pytest.raises(InvalidInput, match="cursor"):
            await get_recent(In(cursor=encode_cursor(In(), position)), ctx)
