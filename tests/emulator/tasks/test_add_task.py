"""`add_task` adds one or several tasks to the list of its caller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.tools.tasks.add_task.tool import TOOL
from shared.runtime.context import App
from tests.support.tasks import add_tasks, call_at, call_for_result, list_all, list_ids

NOON = "2026-03-10T12:00:00Z"
"""The time of all calls, as results show it."""


def test_description_excludes_notes_and_quotes() -> None:
    """Models used to add quotes and facts that the user wanted to remember as to-dos."""
    assert "remember" not in TOOL.description
    assert "something to do" in TOOL.description
    assert "Do not use it to keep facts, quotes or notes" in TOOL.description


@pytest.mark.requirement("003-T1")
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


@pytest.mark.requirement("003-V3")
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


@pytest.mark.requirement("003-D10")
async def test_ids_ascend_and_are_not_reused(app: App) -> None:
    assert await add_tasks(app, "one", "two") == ["1", "2"]
    await call_for_result(app, "delete_task", task_id="2")
    assert await add_tasks(app, "three") == ["3"]


async def test_ids_of_each_user_start_at_one(app: App) -> None:
    await add_tasks(app, "one", "two")
    assert await add_tasks(app, "one", user="ben@example.com") == ["1"]


@pytest.mark.requirement("003-D10")
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


@pytest.mark.parametrize("priority", ["High", "high", "HIGH", " high "])
async def test_case_of_a_priority_is_ignored(app: App, priority: str) -> None:
    result = await call_for_result(app, "add_task", title="x", priority=priority)
    assert result["task"]["priority"] == "High"


@pytest.mark.requirement("003-V4")
@pytest.mark.parametrize("day", ["1999-12-31", "2024-02-29", "0001-01-01", "9999-12-31"])
async def test_any_calendar_date_is_accepted(app: App, day: str) -> None:
    result = await call_for_result(app, "add_task", title="x", due_date=day)
    assert result["task"]["due_date"] == day


@pytest.mark.requirement("003-T1")
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


@pytest.mark.requirement("003-P3", "003-Q2")
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


@pytest.mark.requirement("003-M1")
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


@pytest.mark.requirement("003-M1")
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
