"""`add_task` adds one or several tasks to the list of its caller."""

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
        priority=" hIGH ",
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
    assert await list_all(app) == [task]


@pytest.mark.requirement("003-V3", "003-M1")
async def test_title_is_enough(app: App) -> None:
    missing: dict[str, Any] = {
        "description": " \n ",
        **dict.fromkeys(("priority", "due_date", "tasks", "idempotency_key")),
    }
    result = await call_for_result(app, "add_task", title="Rest", **missing)
    assert result["changed"] == ["title", "priority", "status"]
    assert result["task"]["priority"] == "Medium"
    assert not {"description", "due_date", "completed_at"} & result["task"].keys()
    repeated = await call_for_result(app, "add_task", title="rest.")
    assert repeated == {"task": result["task"], "changed": []}


@pytest.mark.requirement("003-D10")
async def test_twenty_concurrent_adds_are_all_stored(app: App) -> None:
    titles = {f"task {number}" for number in range(20)}
    answers = await asyncio.gather(*(call_at(app, "add_task", title=title) for title in titles))
    tasks = await list_all(app, limit=100)
    assert [task["task_id"] for task in tasks] == [str(number) for number in range(20, 0, -1)]
    added_tasks = [answer.result["task"] for answer in answers if answer.result]
    stored_titles = {task["task_id"]: task["title"] for task in tasks}
    assert {task["task_id"]: task["title"] for task in added_tasks} == stored_titles
    assert set(stored_titles.values()) == titles


@pytest.mark.requirement("003-T1")
async def test_several_tasks_are_added_in_order(app: App) -> None:
    """Nulls and defaults beside them are ignored, and equal ones are all added."""
    await add_tasks(app, "before")
    items = [{"title": "one", "priority": "low"}, {"title": "one", "priority": "Low"}]
    defaults: dict[str, Any] = {"title": None, "priority": "Medium", "due_date": None}
    answer = await call_for_result(app, "add_task", tasks=items, **defaults)
    tasks = await list_all(app)
    assert not any("overdue" in task for task in tasks)
    assert answer == {
        "results": [
            {
                "success": True,
                "task": task,
                "changed": ["title", "priority", "status"],
                "undo": {"tool": "delete_task", "arguments": {"task_id": task_id}},
            }
            for task_id, task in zip("23", tasks[1::-1], strict=True)
        ],
        "failed": 0,
    }
    priorities = {task["task_id"]: task["priority"] for task in tasks}
    assert priorities == {"3": "Low", "2": "Low", "1": "Medium"}


@pytest.mark.requirement("003-P3", "003-Q2")
async def test_invalid_item_does_not_stop_the_others(app: App) -> None:
    answer = await call_for_result(app, "add_task", tasks=[{"title": ""}, {}])
    assert [result["success"] for result in answer["results"]] == [False, False]
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
    answer = await call_for_result(
        app, "add_task", tasks=[{"title": "a"}, *invalid, {"title": "b"}]
    )
    first, *failures, last = answer["results"]
    assert [first["task"]["task_id"], last["task"]["task_id"]] == ["1", "2"]
    codes = ["invalid_priority", "invalid_date", *["invalid_input"] * 6]
    assert [result["error"]["code"] for result in failures] == codes
    assert [set(result) for result in failures] == [{"success", "error"}] * 8
    assert failures[2]["error"]["details"] == {"title": "must not be blank"}
    assert failures[2]["error"]["message"] == "title: must not be blank"
    assert await list_ids(app) == ["2", "1"]
