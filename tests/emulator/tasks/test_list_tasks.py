"""`list_tasks`, against the emulator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.tasks.list_tasks.tool import BLOCK, MOST_READ
from tests.support.tasks import NOON, add, ask, did, ids, listed, refused

if TYPE_CHECKING:
    from shared.runtime.context import Backend

pytestmark = pytest.mark.anyio

TODAY = NOON.date().isoformat()


async def fill(backend: Backend, number: int, **fields: Any) -> None:
    """Add as many tasks as this."""
    for first in range(0, number, 25):
        some = range(first, min(first + 25, number))
        tasks = [{"title": f"task {each}", **fields} for each in some]
        await did(backend, "add_task", tasks=tasks)


async def household(backend: Backend) -> None:
    """Seven tasks: 1 to 5 are open, 6 is completed, 7 is deleted."""
    for title, priority, due_date in (
        ("Bake bread", "Low", None),
        ("Buy flour", "High", "2026-03-09"),
        ("Pay rent", "High", "2026-03-10"),
        ("Call Ida", "Medium", "2026-03-11"),
        ("Plan summer", "Low", "2026-06-01"),
        ("Mend coat", "High", "2026-03-01"),
        ("Sell boat", "High", "2026-03-01"),
    ):
        await add(backend, title, priority=priority, due_date=due_date)
    await did(backend, "complete_task", task_id="6")
    await did(backend, "delete_task", task_id="7")


async def test_a_list_begins_empty(backend: Backend) -> None:
    expected = {"tasks": [], "today": TODAY, "time_zone": "UTC"}
    assert expected == await did(backend, "list_tasks")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "654321"),
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
async def test_all_that_is_asked_must_hold_and_the_newest_come_first(
    backend: Backend, arguments: dict[str, Any], expected: str
) -> None:
    await household(backend)
    assert list(expected) == await ids(backend, **arguments)


async def test_each_task_says_whether_it_is_overdue(backend: Backend) -> None:
    await household(backend)
    assert [False, False, False, False, True, False] == [
        each["overdue"] for each in await listed(backend)
    ]
    [deleted] = await listed(backend, status="deleted")
    assert (False, "2026-04-09T12:00:00Z") == (deleted["overdue"], deleted["restorable_until"])


async def test_words_are_found_in_descriptions_in_any_case_and_width(backend: Backend) -> None:
    texts = ["Straße", "\uff26LOUR 粉", "Crème brûlée", "İzmir", "a line\nand another"]
    for text in texts:
        await add(backend, "x", description=text)
    for query, expected in (
        ("STRASSE", "1"),
        ("flour", "2"),
        ("粉", "2"),
        ("BRÛLÉE crème", "3"),
        ("another line x", "5"),
        ("x", "54321"),
    ):
        assert list(expected) == await ids(backend, query=query)


async def test_what_is_today_depends_on_where_one_is(backend: Backend) -> None:
    await add(backend, "yesterday", due_date="2026-03-09")
    await add(backend, "today", due_date="2026-03-10")
    late = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
    for zone, today, expected in (
        (None, "2026-03-10", ["1"]),
        ("Asia/Tokyo", "2026-03-11", ["2", "1"]),
        ("Pacific/Kiritimati", "2026-03-11", ["2", "1"]),
        ("America/Los_Angeles", "2026-03-10", ["1"]),
        ("Etc/GMT+12", "2026-03-10", ["1"]),
    ):
        answer = await did(backend, "list_tasks", now=late, overdue=True, time_zone=zone)
        assert (today, zone or "UTC") == (answer["today"], answer["time_zone"])
        assert expected == [each["task_id"] for each in answer["tasks"]]


async def test_the_setting_decides_where_no_argument_does(backend: Backend) -> None:
    backend.settings = backend.settings.model_copy(update={"time_zone": "Asia/Tokyo"})
    late = datetime(2026, 3, 10, 23, 30, tzinfo=UTC)
    for zone, today in ((None, "2026-03-11"), ("UTC", "2026-03-10")):
        answer = await did(backend, "list_tasks", now=late, time_zone=zone)
        assert (today, zone or "Asia/Tokyo") == (answer["today"], answer["time_zone"])


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({"status": "done"}, "invalid_input", "status"),
        ({"status": 1}, "invalid_input", "status"),
        ({"status": None}, "invalid_input", "status"),
        ({"priority": "urgent"}, "invalid_priority", "priority"),
        ({"due_from": "yesterday"}, "invalid_date", "due_from"),
        ({"due_to": "2026-02-29"}, "invalid_date", "due_to"),
        ({"due_from": "2026-03-11", "due_to": "2026-03-10"}, "invalid_date", "due_from"),
        ({"overdue": "yes"}, "invalid_input", "overdue"),
        ({"query": "x" * 201}, "invalid_input", "query"),
        ({"limit": 0}, "invalid_input", "limit"),
        ({"limit": 101}, "invalid_input", "limit"),
        ({"cursor": "nonsense"}, "invalid_input", "cursor"),
        ({"time_zone": "Berlin"}, "invalid_input", "time_zone"),
        ({"time_zone": "America"}, "invalid_input", "time_zone"),
        ({"time_zone": "../../etc/passwd"}, "invalid_input", "time_zone"),
        ({"time_zone": ""}, "invalid_input", "time_zone"),
        ({"time_zone": "\0"}, "invalid_input", "time_zone"),
        ({"time_zone": "x" * 5_000}, "invalid_input", "time_zone"),
        ({"user_id": "ben"}, "invalid_input", "user_id"),
    ],
)
async def test_what_is_wrong_is_named_by_its_field(
    backend: Backend, arguments: dict[str, Any], code: str, field: str
) -> None:
    error = await refused(backend, "list_tasks", **arguments)
    assert (code, [field]) == (error["code"], list(error["details"]))


async def test_two_wrong_dates_are_still_invalid_date(backend: Backend) -> None:
    error = await refused(backend, "list_tasks", due_from="x", due_to="y")
    assert ("invalid_date", ["due_from", "due_to"]) == (error["code"], list(error["details"]))


async def test_nobody_sees_what_somebody_else_has(backend: Backend) -> None:
    await household(backend)
    for status in ("all", "deleted"):
        assert [] == await ids(backend, "ben", status=status)


async def test_pages_show_each_task_once_while_others_change(
    backend: Backend,
) -> None:
    await fill(backend, 7)
    page = await did(backend, "list_tasks", limit=3)
    await add(backend, "meanwhile")
    await did(backend, "complete_task", task_ids=["7", "3"])
    cursor = page["next_cursor"]
    rest = await did(backend, "list_tasks", limit=100, cursor=cursor)
    assert list("7654321") == [each["task_id"] for each in page["tasks"] + rest["tasks"]]
    assert "next_cursor" not in rest


async def test_a_cursor_belongs_to_its_arguments(backend: Backend) -> None:
    await fill(backend, 5)
    cursor = (await did(backend, "list_tasks", limit=2))["next_cursor"]
    error = await refused(backend, "list_tasks", status="open", cursor=cursor)
    assert ("invalid_input", ["cursor"]) == (error["code"], list(error["details"]))


async def test_a_full_last_page_has_no_next_one(backend: Backend) -> None:
    await fill(backend, 4)
    assert "next_cursor" not in await did(backend, "list_tasks", limit=4)


async def test_long_tasks_make_short_pages(backend: Backend) -> None:
    await fill(backend, 30, description="粉" * 1_000)
    page = await did(backend, "list_tasks", limit=100)
    assert 5 < len(page["tasks"]) < 15
    assert [str(number) for number in range(30, 0, -1)] == await ids(backend, limit=100)


async def test_a_page_reads_one_task_more_than_it_shows(backend: Backend) -> None:
    await fill(backend, 30)
    receipt = (await ask(backend, "list_tasks", limit=10, priority="Medium")).receipt
    assert (1, 11, 0) == (receipt.round_trips, receipt.documents_read, receipt.documents_written)


async def test_words_that_are_rare_are_looked_for_a_stretch_at_a_time(backend: Backend) -> None:
    await add(backend, "a needle")
    await fill(backend, MOST_READ + 20)
    answer = await ask(backend, "list_tasks", query="needle")
    assert answer.result
    assert ([], True) == (answer.result["tasks"], "next_cursor" in answer.result)
    assert (MOST_READ // BLOCK, MOST_READ) == (
        answer.receipt.round_trips,
        answer.receipt.documents_read,
    )
    cursor = answer.result["next_cursor"]
    rest = await did(backend, "list_tasks", query="needle", cursor=cursor)
    assert ["1"] == [each["task_id"] for each in rest["tasks"]]


async def test_what_was_deleted_long_ago_makes_no_page_longer_to_reach(backend: Backend) -> None:
    await fill(backend, 6)
    for number in range(1, 7):
        moment = NOON + timedelta(days=40) if number == 1 else NOON
        await did(backend, "delete_task", now=moment, task_id=str(number))
    now = NOON + timedelta(days=41)
    assert ["1"] == await ids(backend, status="deleted", now=now, limit=1)
