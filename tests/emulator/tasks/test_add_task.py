"""`add_task` adds one or several tasks to the list of its caller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.tasks.add_task.tool import TOOL
from tests.support.tasks import (
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    list_ids,
    undo,
)

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

NOON = "2026-03-10T12:00:00Z"
"""The time of all calls, as results show it."""


def test_description_excludes_notes_and_quotes() -> None:
    """Models used to add quotes and facts that the user wanted to remember as to-dos."""
    assert "remember" not in TOOL.description
    assert "something to do" in TOOL.description
    assert "Do not use it to keep facts, quotes or notes" in TOOL.description


async def test_result_has_the_stored_task(app: App) -> None:
    result = await call_for_result(
        app,
        "add_task",
        title="  Buy flour \t",
        description="Rye,\nnot wheat. 🌾",
        priority="High",
        due_date="2026-03-12",
    )
    task = {
        "task_id": "1",
        "title": "Buy flour",
        "description": "Rye,\nnot wheat. 🌾",
        "status": "open",
        "priority": "High",
        "due_date": "2026-03-12",
        "created_at": NOON,
        "updated_at": NOON,
    }
    assert result == {
        "task": task,
        "changed": ["title", "description", "priority", "due_date", "status"],
        "undo": {"tool": "delete_task", "arguments": {"task_id": "1"}},
    }
    assert await list_all(app) == [task | {"overdue": False}]


async def test_title_is_enough(app: App) -> None:
    result = await call_for_result(app, "add_task", title="Rest")
    assert result["task"]["priority"] == "Medium"
    assert not {"description", "due_date", "completed_at"} & result["task"].keys()
    assert result["changed"] == ["title", "priority", "status"]


async def test_blanks_and_nulls_count_as_missing(app: App) -> None:
    result = await call_for_result(
        app,
        "add_task",
        title="Rest",
        description=" \n ",
        priority=None,
        due_date=None,
        tasks=None,
        idempotency_key=None,
    )
    assert result["changed"] == ["title", "priority", "status"]


async def test_nulls_and_defaults_are_ignored_in_a_batch(app: App) -> None:
    defaults: dict[str, Any] = {"title": None, "priority": "Medium", "due_date": None}
    answer = await call_for_result(app, "add_task", tasks=[{"title": "Rest"}], **defaults)
    assert [result["success"] for result in answer["results"]] == [True]


async def test_undo_deletes_the_task(app: App) -> None:
    result = await call_for_result(app, "add_task", title="Rest")
    await undo(app, result)
    assert await list_ids(app) == []


async def test_ids_ascend_and_are_not_reused(app: App) -> None:
    assert await add_tasks(app, "one", "two") == ["1", "2"]
    await call_for_result(app, "delete_task", task_id="2")
    assert await add_tasks(app, "three") == ["3"]


async def test_ids_of_each_user_start_at_one(app: App) -> None:
    await add_tasks(app, "one", "two")
    assert await add_tasks(app, "one", user="ben@example.com") == ["1"]


async def test_twenty_concurrent_adds_are_all_stored(app: App) -> None:
    titles = {f"task {number}" for number in range(20)}
    answers = await asyncio.gather(*(call_at(app, "add_task", title=title) for title in titles))
    assert [answer.error for answer in answers] == [None] * 20

    tasks = await list_all(app, limit=100)
    assert [task["task_id"] for task in tasks] == [str(number) for number in range(20, 0, -1)]
    assert {task["title"] for task in tasks} == titles
    added_tasks = [answer.result["task"] for answer in answers if answer.result]
    titles_by_id = {task["task_id"]: task["title"] for task in tasks}
    assert {task["task_id"]: task["title"] for task in added_tasks} == titles_by_id


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "title"),
        ({"title": None}, "title"),
        ({"title": ""}, "title"),
        ({"title": " \t\u3000 "}, "title"),
        ({"title": "\u200b"}, "title"),
        ({"title": "x" * 256}, "title"),
        ({"title": "two\nlines"}, "title"),
        ({"title": "nothing\0more"}, "title"),
        ({"title": 5}, "title"),
        ({"title": "half \ud83c"}, "arguments"),
        ({"title": "x", "description": "x" * 1_001}, "description"),
        ({"title": "x", "description": "\0"}, "description"),
        ({"title": "x", "user_id": "ben"}, "user_id"),
        ({"title": "x", "due_date": "soon", "priority": "High!"}, "due_date"),
        ({"tasks": []}, "tasks"),
        ({"tasks": [{"title": "x"}] * 26}, "tasks"),
        ({"tasks": [{"title": "x"}], "title": "y"}, "tasks"),
        ({"tasks": [{"title": "x"}], "priority": "Low"}, "tasks"),
        ({"title": "x", "idempotency_key": ""}, "idempotency_key"),
    ],
)
async def test_invalid_argument_is_named(app: App, arguments: dict[str, Any], field: str) -> None:
    error = await call_for_error(app, "add_task", **arguments)
    assert error["code"] == "invalid_input"
    assert field in error["details"]
    assert await list_ids(app) == []


@pytest.mark.parametrize("priority", ["urgent", "", "Hi", 1, True, ["High"], {"High": 1}])
async def test_invalid_priority_has_its_own_code(app: App, priority: Any) -> None:
    error = await call_for_error(app, "add_task", title="x", priority=priority)
    assert error["code"] == "invalid_priority"
    assert error["details"] == {"priority": "must be one of Low, Medium, High"}


@pytest.mark.parametrize("priority", ["High", "high", "HIGH", " high "])
async def test_case_of_a_priority_is_ignored(app: App, priority: str) -> None:
    result = await call_for_result(app, "add_task", title="x", priority=priority)
    assert result["task"]["priority"] == "High"


@pytest.mark.parametrize(
    "day",
    [
        *("tomorrow", "", "2026-02-30", "2026-13-01", "0000-01-01", "20260310", "2026-3-10"),
        *("2026-W10-2", "2026-03-10T12:00:00Z", "2026-03-10 ", "1773100800", "10.03.2026"),
        *(20260310, 1773100800.0, True, ["2026-03-10"]),
        "\u0662\u0660\u0662\u0666-03-10",  # 2026 in Arabic digits
    ],
)
async def test_invalid_date_has_its_own_code(app: App, day: Any) -> None:
    error = await call_for_error(app, "add_task", title="x", due_date=day)
    assert error["code"] == "invalid_date"
    assert "YYYY-MM-DD" in error["details"]["due_date"]
    assert "YYYY-MM-DD" in error["message"]


@pytest.mark.parametrize("day", ["1999-12-31", "2024-02-29", "0001-01-01", "9999-12-31"])
async def test_any_calendar_date_is_accepted(app: App, day: str) -> None:
    result = await call_for_result(app, "add_task", title="x", due_date=day)
    assert result["task"]["due_date"] == day


async def test_longest_texts_are_accepted(app: App) -> None:
    title = "👩" * 255
    description = "ß" * 1_000
    result = await call_for_result(app, "add_task", title=f" {title} ", description=description)
    assert result["task"]["title"] == title
    assert result["task"]["description"] == description


async def test_several_tasks_are_added_in_order(app: App) -> None:
    await add_tasks(app, "before")
    answer = await call_at(
        app,
        "add_task",
        tasks=[{"title": "one", "priority": "low"}, {"title": "two", "due_date": "2026-03-12"}],
    )
    assert answer.result
    first, second = answer.result["results"]
    assert set(answer.result) == {"results", "failed"}
    assert answer.result["failed"] == 0
    assert first["success"] is True
    assert second["success"] is True
    assert first["task"]["task_id"] == "2"
    assert first["task"]["title"] == "one"
    assert first["task"]["priority"] == "Low"
    assert second["task"]["task_id"] == "3"
    assert second["task"]["due_date"] == "2026-03-12"
    assert second["undo"] == {"tool": "delete_task", "arguments": {"task_id": "3"}}
    assert "error" not in first
    assert await list_ids(app) == ["3", "2", "1"]


async def test_invalid_item_does_not_stop_the_others(app: App) -> None:
    invalid: list[Any] = [
        {"title": "x", "priority": "urgent"},
        {"title": "x", "due_date": "soon"},
        {"title": " "},
        {"description": "no title"},
        {"title": "x", "owner": "ben"},
        {"title": "x", "priority": "urgent", "due_date": "soon"},
        "just a title",
        None,
    ]
    tasks = [{"title": "a"}, *invalid, {"title": "b"}]
    answer = await call_for_result(app, "add_task", tasks=tasks)
    first, *failures, last = answer["results"]
    assert first["task"]["task_id"] == "1"
    assert last["task"]["task_id"] == "2"
    assert [result["error"]["code"] for result in failures] == [
        "invalid_priority",
        "invalid_date",
        *["invalid_input"] * 6,
    ]
    assert [set(result) for result in failures] == [{"success", "error"}] * 8
    assert failures[2]["error"]["details"] == {"title": "must not be blank"}
    assert failures[2]["error"]["message"] == "title: must not be blank"
    assert await list_ids(app) == ["2", "1"]


async def test_no_task_is_added_if_all_items_are_invalid(app: App) -> None:
    answer = await call_for_result(app, "add_task", tasks=[{"title": ""}, {}])
    assert [result["success"] for result in answer["results"]] == [False, False]
    assert await add_tasks(app, "the first") == ["1"]


async def test_same_key_adds_once(app: App) -> None:
    batch: dict[str, Any] = {"tasks": [{"title": "a"}, {"title": "b"}], "idempotency_key": "k"}
    first, repeated = [await call_at(app, "add_task", **batch) for _ in range(2)]
    assert first.result == repeated.result
    assert first.receipt.replayed is None
    assert repeated.receipt.replayed is True
    assert await list_ids(app) == ["2", "1"]


async def test_open_task_is_not_added_again(app: App) -> None:
    first = await call_for_result(app, "add_task", title="Buy flour")
    repeated = await call_for_result(app, "add_task", title="buy flour.")
    assert repeated == {"task": first["task"], "changed": []}
    assert await list_ids(app) == ["1"]


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Buy rye"},
        {"description": "2 kg"},
        {"priority": "Low"},
        {"due_date": "2026-03-12"},
    ],
)
async def test_task_that_says_something_else_is_added(app: App, change: dict[str, Any]) -> None:
    await call_for_result(app, "add_task", title="Buy flour")
    await call_for_result(app, "add_task", **{"title": "Buy flour"} | change)
    assert await list_ids(app) == ["2", "1"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("complete_task", {}), ("delete_task", {}), ("update_task", {"title": "Buy rye"})],
)
async def test_task_that_is_done_or_changed_is_added_again(
    app: App, tool: str, arguments: dict[str, Any]
) -> None:
    await add_tasks(app, "Buy flour")
    await call_for_result(app, tool, task_id="1", **arguments)
    assert await add_tasks(app, "Buy flour") == ["2"]


async def test_equal_tasks_of_one_call_are_all_added(app: App) -> None:
    await call_for_result(app, "add_task", tasks=[{"title": "a"}, {"title": "a"}])
    assert await list_ids(app) == ["2", "1"]


async def test_key_reused_for_another_task_is_refused(app: App) -> None:
    await call_for_result(app, "add_task", title="a", idempotency_key="k")
    error = await call_for_error(app, "add_task", title="b", idempotency_key="k")
    assert error["code"] == "invalid_input"
    assert "idempotency_key" in error["message"]


async def test_adding_takes_two_round_trips(app: App) -> None:
    for count in (1, 25):
        tasks = [{"title": f"{number} of {count}"} for number in range(count)]
        receipt = (await call_at(app, "add_task", tasks=tasks)).receipt
        assert receipt.round_trips == 2
        assert receipt.documents_read == 1  # the counter of ids
        assert receipt.documents_written == count + 2  # also the counter and the answer
