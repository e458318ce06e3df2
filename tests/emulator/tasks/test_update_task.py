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
FULL: dict[str, Any] = {
    "title": "Bake",
    "description": "Rye.",
    "priority": "High",
    "due_date": "2026-03-12",
}


async def update(app: App, **fields: Any) -> dict[str, Any]:
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
    before = await call_for_result(app, "add_task", **FULL)
    after = await update(app, **{field: value})
    expected = before["task"] | {field: stored, "updated_at": "2026-03-10T13:00:00Z"}
    assert after["task"] == {name: text for name, text in expected.items() if text}
    arguments = {"task_id": "1", field: before["task"][field]}
    assert after["changed"] == [field]
    assert after["undo"] == {"tool": "update_task", "arguments": arguments}
    [task] = await list_all(app)
    assert after["task"] == {name: task[name] for name in task if name != "overdue"}


async def test_undo_can_be_undone(app: App) -> None:
    before = await call_for_result(app, "add_task", title="Bake", due_date="2026-03-12")
    after = await update(app, title="Fry", description="Rye.", due_date=None, priority="Low")
    assert after["changed"] == ["title", "description", "priority", "due_date"]
    undone = await undo(app, after)
    assert before["task"] == undone["task"]  # and so at the same moment as then
    assert (
        after["task"] | {"updated_at": undone["task"]["updated_at"]}
        == (await undo(app, undone))["task"]
    )


async def test_same_values_change_nothing(app: App) -> None:
    before = await call_for_result(app, "add_task", **FULL)
    after = await update(app, **FULL)
    assert after == {"task": before["task"], "changed": []}


async def test_only_differing_fields_are_reported(app: App) -> None:
    await call_for_result(app, "add_task", **FULL)
    after = await update(app, title="Bake", priority="Low")
    assert after["changed"] == ["priority"]
    assert after["undo"]["arguments"] == {"task_id": "1", "priority": "High"}


async def test_completed_task_can_be_changed(app: App) -> None:
    await call_for_result(app, "add_task", **FULL)
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
    before = await call_for_result(app, "add_task", **FULL)
    error = await call_for_error(app, "update_task", **({"task_id": "1"} | arguments))
    assert error["code"] == code
    assert list(error["details"]) == [field]
    assert await list_all(app) == [before["task"] | {"overdue": False}]


async def test_empty_change_lists_the_fields(app: App) -> None:
    error = await call_for_error(app, "update_task", task_id="1")
    assert "title, description, priority, due_date" in error["message"]


async def test_missing_deleted_and_foreign_tasks_are_not_found(app: App) -> None:
    await add_tasks(app, "one", "two")
    await call_for_result(app, "delete_task", task_id="2")
    deleted = await call_for_error(app, "update_task", task_id="2", title="x")
    missing = await call_for_error(app, "update_task", task_id="3", title="x")
    foreign = await call_for_error(app, "update_task", "ben", task_id="1", title="x")
    assert [error["code"] for error in (deleted, missing, foreign)] == ["not_found"] * 3
    assert "restore_task" in deleted["message"]
    assert "restore_task" not in missing["message"]


async def test_null_and_missing_are_different_arguments(app: App) -> None:
    await call_for_result(app, "add_task", **FULL)
    await update(app, title="Fry", idempotency_key="k")
    error = await call_for_error(
        app, "update_task", task_id="1", title="Fry", due_date=None, idempotency_key="k"
    )
    assert error["code"] == "invalid_input"
    assert "idempotency_key" in error["message"]


async def test_same_key_is_replayed(app: App) -> None:
    await call_for_result(app, "add_task", **FULL)
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
    assert {name: task[name] for name in ("title", "description", "priority", "status")} == {
        "title": "Fry",
        "description": "Rye.",
        "priority": "High",
        "status": "completed",
    }
    assert task["due_date"] == "2026-03-12"


async def test_updating_takes_two_round_trips(app: App) -> None:
    await add_tasks(app, "Bake")
    receipt = (await call_at(app, "update_task", task_id="1", title="Fry")).receipt
    assert receipt.round_trips == 2
    assert receipt.documents_read == 1
    assert receipt.documents_written == 2
