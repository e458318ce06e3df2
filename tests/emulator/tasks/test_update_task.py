"""`update_task` changes only the given fields of a task."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.tasks import NOON, add_tasks, call_at, call_for_result, list_all

ALL_FIELDS: dict[str, Any] = {
    "title": "Bake",
    "description": "Rye.",
    "priority": "High",
    "due_date": "2026-03-12",
}


async def update(app: App, **fields: Any) -> dict[str, Any]:
    """Change the task with the id 1, an hour after noon."""
    return await call_for_result(
        app, "update_task", now=NOON + timedelta(hours=1), task_id="1", **fields
    )


@pytest.mark.requirement("003-T5")
async def test_only_the_given_field_changes(app: App) -> None:
    task = (await call_for_result(app, "add_task", **ALL_FIELDS))["task"]
    result = await update(app, title=" Bake ", description="", priority="low")
    del task["description"]
    task |= {"priority": "Low", "updated_at": "2026-03-10T13:00:00Z"}
    arguments = {"task_id": "1", "description": "Rye.", "priority": "High"}
    undo = {"tool": "update_task", "arguments": arguments}
    assert result == {"task": task, "changed": ["description", "priority"], "undo": undo}
    assert await list_all(app) == [task]


@pytest.mark.requirement("003-M5")
async def test_same_values_change_nothing(app: App) -> None:
    added = await call_for_result(app, "add_task", **ALL_FIELDS)
    result = await update(app, **ALL_FIELDS)
    assert result == {"task": added["task"], "changed": []}


async def test_concurrent_changes_of_fields_all_apply(app: App) -> None:
    await add_tasks(app, "Fry")
    answers = await asyncio.gather(
        *(
            call_at(app, "update_task", task_id="1", **{field: value})
            for field, value in ALL_FIELDS.items()
        ),
        call_at(app, "complete_task", task_id="1"),
    )
    assert [answer.error for answer in answers] == [None] * 5
    [task] = await list_all(app)
    expected = ALL_FIELDS | {"status": "completed"}
    assert {name: task[name] for name in expected} == expected
