"""`update_task`, against the emulator."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tasks import NOON, add, ask, did, listed, refused, taken_back

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
    return await did(app, "update_task", now=LATER, task_id="1", **fields)


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
async def test_a_field_is_changed_and_the_others_stay(
    app: App, field: str, value: str | None, stored: str | None
) -> None:
    before = await did(app, "add_task", **FULL)
    after = await update(app, **{field: value})
    expected = before["task"] | {field: stored, "updated_at": "2026-03-10T13:00:00Z"}
    assert {name: held for name, held in expected.items() if held} == after["task"]
    arguments = {"task_id": "1", field: before["task"][field]}
    assert ([field], {"tool": "update_task", "arguments": arguments}) == (
        after["changed"],
        after["undo"],
    )
    [snapshot] = await listed(app)
    assert after["task"] == {name: held for name, held in snapshot.items() if name != "overdue"}


async def test_a_change_can_be_undone_and_that_as_well(app: App) -> None:
    before = await did(app, "add_task", title="Bake", due_date="2026-03-12")
    after = await update(app, title="Fry", description="Rye.", due_date=None, priority="Low")
    assert ["title", "description", "priority", "due_date"] == after["changed"]
    undone = await taken_back(app, after)
    assert before["task"] == undone["task"]  # and so at the same moment as then
    assert (
        after["task"] | {"updated_at": undone["task"]["updated_at"]}
        == (await taken_back(app, undone))["task"]
    )


async def test_what_changes_nothing_is_no_change(app: App) -> None:
    before = await did(app, "add_task", **FULL)
    after = await update(app, **FULL)
    assert {"task": before["task"], "changed": []} == after


async def test_only_what_differs_is_said_to_have_changed(app: App) -> None:
    await did(app, "add_task", **FULL)
    after = await update(app, title="Bake", priority="Low")
    assert (["priority"], {"task_id": "1", "priority": "High"}) == (
        after["changed"],
        after["undo"]["arguments"],
    )


async def test_a_completed_task_is_changed_too(app: App) -> None:
    await did(app, "add_task", **FULL)
    await did(app, "complete_task", task_id="1")
    assert "completed" == (await update(app, title="Baked"))["task"]["status"]


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
async def test_what_is_wrong_is_named_by_its_field(
    app: App, arguments: dict[str, Any], code: str, field: str
) -> None:
    before = await did(app, "add_task", **FULL)
    error = await refused(app, "update_task", **({"task_id": "1"} | arguments))
    assert (code, [field]) == (error["code"], list(error["details"]))
    assert [before["task"] | {"overdue": False}] == await listed(app)


async def test_whoever_gives_nothing_to_change_is_told_what_there_is(app: App) -> None:
    error = await refused(app, "update_task", task_id="1")
    assert "title, description, priority, due_date" in error["message"]


async def test_missing_deleted_and_other_peoples_tasks_are_not_found(app: App) -> None:
    await add(app, "one", "two")
    await did(app, "delete_task", task_id="2")
    deleted = await refused(app, "update_task", task_id="2", title="x")
    missing = await refused(app, "update_task", task_id="3", title="x")
    theirs = await refused(app, "update_task", "ben", task_id="1", title="x")
    assert ["not_found"] * 3 == [each["code"] for each in (deleted, missing, theirs)]
    assert ("restore_task" in deleted["message"], "restore_task" in missing["message"]) == (
        True,
        False,
    )


async def test_a_null_and_an_absent_field_are_different_calls(app: App) -> None:
    await did(app, "add_task", **FULL)
    await update(app, title="Fry", idempotency_key="k")
    error = await refused(
        app, "update_task", task_id="1", title="Fry", due_date=None, idempotency_key="k"
    )
    assert ("invalid_input", True) == (error["code"], "idempotency_key" in error["message"])


async def test_the_same_call_again_is_answered_as_the_first_time(app: App) -> None:
    await did(app, "add_task", **FULL)
    first = await update(app, due_date=None, idempotency_key="k")
    await update(app, due_date="2026-03-12")
    assert first == await update(app, due_date=None, idempotency_key="k")
    [task] = await listed(app)
    assert "2026-03-12" == task["due_date"]


async def test_changes_of_different_fields_at_once_all_hold(app: App) -> None:
    await add(app, "Bake")
    changes: list[dict[str, Any]] = [
        {"title": "Fry"},
        {"description": "Rye."},
        {"priority": "High"},
        {"due_date": "2026-03-12"},
    ]
    answers = await asyncio.gather(
        *(ask(app, "update_task", task_id="1", **each) for each in changes),
        ask(app, "complete_task", task_id="1"),
    )
    assert [None] * 5 == [answer.error for answer in answers]
    [task] = await listed(app)
    assert {"title": "Fry", "description": "Rye.", "priority": "High", "status": "completed"} == {
        name: task[name] for name in ("title", "description", "priority", "status")
    }
    assert "2026-03-12" == task["due_date"]


async def test_a_call_is_two_round_trips(app: App) -> None:
    await add(app, "Bake")
    receipt = (await ask(app, "update_task", task_id="1", title="Fry")).receipt
    assert (2, 1, 2) == (receipt.round_trips, receipt.documents_read, receipt.documents_written)
