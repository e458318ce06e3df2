"""`update_task` changes only the given fields of a task."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.tasks import NOON, add_tasks, call_at, call_for_result, list_all

LATER = NOON + timedelta(hours=1)
ALL_FIELDS: dict[str, Any] = {
    "title": "Bake",
    "description": "Rye.",
    "priority": "High",
    "due_date": "2026-03-12",
}


async def update(app: App, **fields: Any) -> dict[str, Any]:
    """Change the task with the id 1, an hour after noon."""
    return await call_for_result(app, "update_task", now=LATER, task_id="1", **fields)


@pytest.mark.requirement("003-T5")
@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("title", " Bake bread ", "Bake bread"),
        ("description", "Wheat.", "Wheat."),
        ("description", None, None),
        ("description", "", None),
        ("priority", "low", "Low"),
        ("due_date", "2025-01-01", "2025-01-01"),
        ("due_date", None, None),
    ],
)
async def test_only_the_given_field_changes(
    app: App, field: str, value: str | None, stored: str | None
) -> None:
    added_task = (await call_for_result(app, "add_task", **ALL_FIELDS))["task"]
    result = await update(app, **{field: value})

    expected_task = added_task | {field: stored, "updated_at": "2026-03-10T13:00:00Z"}
    if stored is None:
        del expected_task[field]
    assert result["task"] == expected_task
    assert result["changed"] == [field]
    arguments = {"task_id": "1", field: added_task[field]}
    assert result["undo"] == {"tool": "update_task", "arguments": arguments}
    [listed_task] = await list_all(app)
    del listed_task["overdue"]
    assert listed_task == expected_task


@pytest.mark.requirement("003-M5")
async def test_same_values_change_nothing(app: App) -> None:
    added = await call_for_result(app, "add_task", **ALL_FIELDS)
    result = await update(app, **ALL_FIELDS)
    assert result == {"task": added["task"], "changed": []}


async def test_only_differing_fields_are_reported(app: App) -> None:
    await call_for_result(app, "add_task", **ALL_FIELDS)
    result = await update(app, title="Bake", priority="Low")
    assert result["changed"] == ["priority"]
    assert result["undo"]["arguments"] == {"task_id": "1", "priority": "High"}


async def test_completed_task_can_be_changed(app: App) -> None:
    await call_for_result(app, "add_task", **ALL_FIELDS)
    await call_for_result(app, "complete_task", task_id="1")
    assert (await update(app, title="Baked"))["task"]["status"] == "completed"


async def test_concurrent_changes_of_fields_all_apply(app: App) -> None:
    await add_tasks(app, "Bake")
    changes: list[dict[str, Any]] = [
        {"title": "Fry"},
        {"description": "Rye."},
        {"priority": "High"},
        {"due_date": "2026-03-12"},
    ]
    answers = await asyncio.gather(
        *(call_at(app, "update_task", task_id="1", **change) for change in changes),
        call_at(app, "complete_task", task_id="1"),
    )
    assert [answer.error for answer in answers] == [None] * 5
    [task] = await list_all(app)
    assert task["title"] == "Fry"
    assert task["description"] == "Rye."
    assert task["priority"] == "High"
    assert task["due_date"] == "2026-03-12"
    assert task["status"] == "completed"
