"""`list_tasks` returns the tasks of its caller that match all filters, page by page."""

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.tools.tasks.list_tasks.tool import BATCH_SIZE, MAX_READS
from shared.runtime.context import App
from shared.tasks.model import DELETED_TASKS
from tests.support.tasks import (
    NOON,
    add_tasks,
    call_at,
    call_for_result,
    list_ids,
)


async def add_many(app: App, count: int, **fields: Any) -> None:
    """Add a number of tasks that differ only in their titles, 25 with each call."""
    for start in range(0, count, 25):
        numbers = range(start, min(start + 25, count))
        tasks = [{"title": f"task {number}", **fields} for number in numbers]
        await call_for_result(app, "add_task", tasks=tasks)


async def test_words_match_in_any_case_and_width(app: App) -> None:
    """A model of the list tests all other filters."""
    texts = ["Straße", "\uff26LOUR 粉", "Crème brûlée", "İzmir", "a line\nand another"]
    for text in texts:
        await add_tasks(app, "x", description=text)
    for query, ids in (
        ("STRASSE", "1"),
        ("flour", "2"),
        ("粉", "2"),
        ("BRÛLÉE crème", "3"),
        ("another line x", "5"),
        (" ", "54321"),
    ):
        assert await list_ids(app, query=query, status="ALL ", overdue=None) == list(ids)


@pytest.mark.parametrize(
    ("setting", "zone", "today"),
    [
        ("UTC", None, "2026-03-10"),
        ("UTC", "Asia/Tokyo", "2026-03-11"),
        ("UTC", "Etc/GMT+12", "2026-03-10"),
        ("Asia/Tokyo", None, "2026-03-11"),
        ("Asia/Tokyo", "UTC", "2026-03-10"),
    ],
)
async def test_today_depends_on_the_time_zone(
    app: App, setting: str, zone: str | None, today: str
) -> None:
    app.settings = app.settings.model_copy(update={"time_zone": setting})
    late = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
    expected = {"total": 0, "tasks": [], "today": today, "time_zone": zone or setting}
    assert await call_for_result(app, "list_tasks", now=late, time_zone=zone) == expected
    await add_tasks(app, "Rest", due_date="2026-03-10")
    ids = await list_ids(app, now=late, time_zone=zone, overdue=True)
    assert ids == (["1"] if today == "2026-03-11" else [])


async def test_the_first_page_says_how_many_tasks_there_are(app: App) -> None:
    await add_many(app, 4, due_date="2026-03-10")
    await add_tasks(app, "without a day")
    cases: tuple[tuple[dict[str, Any], int | None], ...] = (
        ({}, 5),
        ({"order": "due"}, 5),
        ({"order": "due", "due_from": "2026-03-01"}, 4),
        ({"priority": "High"}, 0),
        ({"priority": "Medium", "order": "due"}, 5),
        ({"query": "task"}, None),  # the database cannot count them
        ({"query": "day"}, 1),  # all were read
    )
    for arguments, total in cases:
        page = await call_for_result(app, "list_tasks", limit=2, **arguments)
        assert page.get("total") == total, arguments
    cursor = (await call_for_result(app, "list_tasks", limit=2))["next_cursor"]
    assert "total" not in await call_for_result(app, "list_tasks", limit=2, cursor=cursor)


@pytest.mark.requirement("003-Q3")
async def test_pages_show_each_task_once_during_changes(app: App) -> None:
    await add_many(app, 7)
    page = await call_for_result(app, "list_tasks", limit=3)
    await add_tasks(app, "added between the pages")
    await call_for_result(app, "complete_task", task_ids=["7", "3"])
    cursor = page["next_cursor"]
    last_page = await call_for_result(app, "list_tasks", limit=4, cursor=cursor)
    assert [task["task_id"] for task in page["tasks"] + last_page["tasks"]] == list("7654321")
    assert "next_cursor" not in last_page


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
    await call_for_result(app, "delete_task", now=NOON + 2 * DELETED_TASKS.duration, task_id="1")
    now = NOON + 2 * DELETED_TASKS.duration
    assert await list_ids(app, status="deleted", now=now, limit=1) == ["1"]
