"""`update_task` changes only the given fields of a task."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tasks import (
    NOON,
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    undo,
)

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

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


async def test_undo_can_be_undone(app: App) -> None:
    added = await call_for_result(app, "add_task", title="Bake", due_date="2026-03-12")
    updated = await update(app, title="Fry", description="Rye.", due_date=None, priority="Low")
    assert updated["changed"] == ["title", "description", "priority", "due_date"]

    # `undo` calls the tool at noon, as `add_task` was called.
    undone = await undo(app, updated)
    assert undone["task"] == added["task"]
    redone = await undo(app, undone)
    assert redone["task"] == updated["task"] | {"updated_at": undone["task"]["updated_at"]}


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


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({}, "invalid_input", "task_id"),
        ({"title": None}, "invalid_input", "title"),
        ({"title": ""}, "invalid_input", "title"),
        ({"title": "x" * 256}, "invalid_input", "title"),
        ({"description": "x" * 1_001}, "invalid_input", "description"),
        ({"priority": None}, "invalid_priority", "priority"),
        ({"priority": "urgent"}, "invalid_priority", "priority"),
        ({"due_date": "soon"}, "invalid_date", "due_date"),
        ({"due_date": ""}, "invalid_date", "due_date"),
        ({"completed": True}, "invalid_input", "completed"),
        ({"status": "completed"}, "invalid_input", "status"),
        ({"task_id": "x", "title": "x"}, "invalid_input", "task_id"),
    ],
)
async def test_invalid_argument_is_named(
    app: App, arguments: dict[str, Any], code: str, field: str
) -> None:
    added = await call_for_result(app, "add_task", **ALL_FIELDS)
    error = await call_for_error(app, "update_task", **({"task_id": "1"} | arguments))
    assert error["code"] == code
    assert list(error["details"]) == [field]
    assert await list_all(app) == [added["task"] | {"overdue": False}]


async def test_empty_change_lists_the_fields(app: App) -> None:
    error = await call_for_error(app, "update_task", task_id="1")
    assert "title, description, priority, due_date" in error["message"]


async def test_missing_and_deleted_tasks_are_not_found(app: App) -> None:
    await add_tasks(app, "one", "two")
    await call_for_result(app, "delete_task", task_id="2")
    deleted = await call_for_error(app, "update_task", task_id="2", title="x")
    missing = await call_for_error(app, "update_task", task_id="3", title="x")
    of_another_user = await call_for_error(app, "update_task", "ben", task_id="1", title="x")
    assert [error["code"] for error in (deleted, missing, of_another_user)] == ["not_found"] * 3
    assert "restore_task" in deleted["message"]
    assert "restore_task" not in missing["message"]


async def test_null_and_missing_are_different_arguments(app: App) -> None:
    await call_for_result(app, "add_task", **ALL_FIELDS)
    await update(app, title="Fry", idempotency_key="k")
    error = await call_for_error(
        app, "update_task", task_id="1", title="Fry", due_date=None, idempotency_key="k"
    )
    assert error["code"] == "invalid_input"
    assert "idempotency_key" in error["message"]


async def test_same_key_is_replayed(app: App) -> None:
    await call_for_result(app, "add_task", **ALL_FIELDS)
    first = await update(app, due_date=None, idempotency_key="k")
    await update(app, due_date="2026-03-12")
    assert await update(app, due_date=None, idempotency_key="k") == first
    [task] = await list_all(app)
    assert task["due_date"] == "2026-03-12"


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


async def test_updating_takes_two_round_trips(app: App) -> None:
    await add_tasks(app, "Bake")
    receipt = (await call_at(app, "update_task", task_id="1", title="Fry")).receipt
    assert receipt.round_trips == 2
    assert receipt.documents_read == 1
    assert receipt.documents_written == 2
