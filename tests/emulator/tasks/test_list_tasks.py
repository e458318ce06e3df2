"""`list_tasks` returns the tasks of its caller that match all filters, page by page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.tools.tasks.list_tasks.tool import BATCH_SIZE, MAX_READS
from shared.runtime.context import App
from tests.support.tasks import (
    NOON,
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    list_ids,
)

TODAY = NOON.date().isoformat()


async def add_many(app: App, count: int, **fields: Any) -> None:
    """Add a number of tasks that differ only in their titles, 25 with each call."""
    for start in range(0, count, 25):
        numbers = range(start, min(start + 25, count))
        tasks = [{"title": f"task {number}", **fields} for number in numbers]
        await call_for_result(app, "add_task", tasks=tasks)


async def add_household(app: App) -> None:
    """Add seven tasks: 1 to 5 are open, 6 is completed, and 7 is deleted."""
    for title, priority, due_date in (
        ("Bake bread", "Low", None),
        ("Buy flour", "High", "2026-03-09"),
        ("Pay rent", "High", "2026-03-10"),
        ("Call Ida", "Medium", "2026-03-11"),
        ("Plan summer", "Low", "2026-06-01"),
        ("Mend coat", "High", "2026-03-01"),
        ("Sell boat", "High", "2026-03-01"),
    ):
        await add_tasks(app, title, priority=priority, due_date=due_date)
    await call_for_result(app, "complete_task", task_id="6")
    await call_for_result(app, "delete_task", task_id="7")


async def test_new_list_is_empty(app: App) -> None:
    expected = {"tasks": [], "today": TODAY, "time_zone": "UTC"}
    assert await call_for_result(app, "list_tasks") == expected


@pytest.mark.requirement("003-Q3", "003-T2")
@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ({}, "654321"),  # the ids 6 to 1
        ({"status": "all"}, "654321"),
        ({"status": "open"}, "54321"),
        ({"status": "OPEN "}, "54321"),
        ({"status": "completed"}, "6"),
        ({"status": "deleted"}, "7"),
        ({"priority": "High"}, "632"),
        ({"priority": "low"}, "51"),
        ({"status": "open", "priority": "High"}, "32"),
        ({"due_from": "2026-03-10"}, "543"),
        ({"due_to": "2026-03-10"}, "632"),
        ({"due_from": "2026-03-10", "due_to": "2026-03-11"}, "43"),
        ({"due_from": "2026-03-10", "due_to": "2026-03-10"}, "3"),
        ({"due_from": "2026-03-09", "priority": "High", "status": "open"}, "32"),
        ({"overdue": True}, "2"),
        ({"overdue": True, "due_from": "2026-03-10"}, ""),
        ({"overdue": True, "due_to": "2026-03-08"}, ""),
        ({"overdue": True, "status": "open"}, "2"),
        ({"overdue": True, "status": "completed"}, ""),
        ({"overdue": True, "status": "deleted"}, ""),
        ({"overdue": False}, "65431"),
        ({"overdue": False, "status": "open"}, "5431"),
        ({"overdue": False, "status": "deleted"}, "7"),
        ({"overdue": None}, "654321"),
        ({"query": "b"}, "21"),
        ({"query": "BREAD bake"}, "1"),
        ({"query": "bread flour"}, ""),
        ({"query": " "}, "654321"),
        ({"query": "boat", "status": "deleted"}, "7"),
        ({"query": "flour", "overdue": True, "priority": "High"}, "2"),
    ],
)
async def test_filters_combine_and_newest_come_first(
    app: App, arguments: dict[str, Any], ids: str
) -> None:
    await add_household(app)
    assert await list_ids(app, **arguments) == list(ids)


async def test_tasks_say_whether_they_are_overdue(app: App) -> None:
    await add_household(app)
    overdue_tasks = [task for task in await list_all(app) if task["overdue"] is True]
    assert [task["title"] for task in overdue_tasks] == ["Buy flour"]
    [deleted] = await list_all(app, status="deleted")
    assert deleted["overdue"] is False
    assert deleted["restorable_until"] == "2026-04-09T12:00:00Z"


async def test_words_match_in_any_case_and_width(app: App) -> None:
    texts = ["Straße", "\uff26LOUR 粉", "Crème brûlée", "İzmir", "a line\nand another"]
    for text in texts:
        await add_tasks(app, "x", description=text)
    for query, ids in (
        ("STRASSE", "1"),
        ("flour", "2"),
        ("粉", "2"),
        ("BRÛLÉE crème", "3"),
        ("another line x", "5"),
        ("x", "54321"),
    ):
        assert await list_ids(app, query=query) == list(ids)


async def test_today_depends_on_the_time_zone(app: App) -> None:
    await add_tasks(app, "yesterday", due_date="2026-03-09")
    await add_tasks(app, "today", due_date="2026-03-10")
    late = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
    for zone, today, overdue_ids in (
        (None, "2026-03-10", ["1"]),
        ("Asia/Tokyo", "2026-03-11", ["2", "1"]),
        ("Pacific/Kiritimati", "2026-03-11", ["2", "1"]),
        ("America/Los_Angeles", "2026-03-10", ["1"]),
        ("Etc/GMT+12", "2026-03-10", ["1"]),
    ):
        answer = await call_for_result(app, "list_tasks", now=late, overdue=True, time_zone=zone)
        assert answer["today"] == today
        assert answer["time_zone"] == zone or "UTC"
        assert [task["task_id"] for task in answer["tasks"]] == overdue_ids


async def test_time_zone_setting_is_the_default(app: App) -> None:
    app.settings = app.settings.model_copy(update={"time_zone": "Asia/Tokyo"})
    late = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
    for zone, today in ((None, "2026-03-11"), ("UTC", "2026-03-10")):
        answer = await call_for_result(app, "list_tasks", now=late, time_zone=zone)
        assert answer["today"] == today
        assert answer["time_zone"] == zone or "Asia/Tokyo"


async def test_two_invalid_dates_have_the_code_invalid_date(app: App) -> None:
    error = await call_for_error(app, "list_tasks", due_from="x", due_to="y")
    assert error["code"] == "invalid_date"
    assert list(error["details"]) == ["due_from", "due_to"]


@pytest.mark.requirement("003-Q3")
async def test_pages_show_each_task_once_during_changes(app: App) -> None:
    await add_many(app, 7)
    page = await call_for_result(app, "list_tasks", limit=3)
    await add_tasks(app, "added between the pages")
    await call_for_result(app, "complete_task", task_ids=["7", "3"])
    cursor = page["next_cursor"]
    last_page = await call_for_result(app, "list_tasks", limit=100, cursor=cursor)
    assert [task["task_id"] for task in page["tasks"] + last_page["tasks"]] == list("7654321")
    assert "next_cursor" not in last_page


async def test_full_last_page_has_no_cursor(app: App) -> None:
    await add_many(app, 4)
    assert "next_cursor" not in await call_for_result(app, "list_tasks", limit=4)


async def test_long_tasks_make_short_pages(app: App) -> None:
    await add_many(app, 30, description="粉" * 1_000)  # three bytes each
    page = await call_for_result(app, "list_tasks", limit=100)
    assert 5 < len(page["tasks"]) < 15
    assert [str(number) for number in range(30, 0, -1)] == await list_ids(app, limit=100)


async def test_search_for_rare_words_is_bounded(app: App) -> None:
    await add_tasks(app, "a needle")
    await add_many(app, MAX_READS + 20)

    answer = await call_at(app, "list_tasks", query="needle")
    assert answer.result
    assert answer.result["tasks"] == []
    assert "next_cursor" in answer.result
    assert answer.receipt.round_trips == MAX_READS // BATCH_SIZE
    assert answer.receipt.documents_read == MAX_READS

    cursor = answer.result["next_cursor"]
    last_page = await call_for_result(app, "list_tasks", query="needle", cursor=cursor)
    assert [task["task_id"] for task in last_page["tasks"]] == ["1"]


async def test_expired_tasks_leave_no_empty_pages(app: App) -> None:
    await add_many(app, 6)
    for expired_id in ("2", "3", "4", "5", "6"):
        await call_for_result(app, "delete_task", task_id=expired_id)
    await call_for_result(app, "delete_task", now=NOON + timedelta(days=40), task_id="1")
    now = NOON + timedelta(days=41)
    assert await list_ids(app, status="deleted", now=now, limit=1) == ["1"]
