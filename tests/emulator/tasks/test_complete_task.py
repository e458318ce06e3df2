"""`complete_task` completes or reopens a task of its caller."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from functions.gateway.catalog import Catalog
from shared.core.caller import Caller
from shared.runtime.context import App
from tests.support.tasks import (
    NOON,
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    list_ids,
)

LATER = NOON + timedelta(hours=1)


@pytest.mark.requirement("003-T3")
async def test_completed_task_has_its_time(app: App) -> None:
    await add_tasks(app, "Rest")
    completed = await call_for_result(app, "complete_task", now=LATER, task_id="1")
    task = completed["task"]
    assert task["status"] == "completed"
    assert task["completed_at"] == "2026-03-10T13:00:00Z"
    assert task["created_at"] == "2026-03-10T12:00:00Z"
    assert task["updated_at"] == "2026-03-10T13:00:00Z"
    expected_undo = {"tool": "complete_task", "arguments": {"task_id": "1", "completed": False}}
    assert completed["changed"] == ["status"]
    assert completed["undo"] == expected_undo
    assert await list_all(app) == [task | {"overdue": False}]


@pytest.mark.requirement("003-M3")
async def test_completing_twice_changes_nothing(app: App) -> None:
    await add_tasks(app, "Rest")
    first = await call_for_result(app, "complete_task", task_id="1")
    repeated = await call_for_result(app, "complete_task", now=LATER, task_id="1")
    assert repeated == {"task": first["task"], "changed": []}


@pytest.mark.requirement("003-M3")
def test_clients_see_that_a_repeated_call_is_safe() -> None:
    tool = Catalog.load().get("complete_task", Caller.of("ada"))
    assert tool is not None
    annotations = tool.to_mcp().annotations
    assert annotations is not None
    assert annotations.idempotent_hint


@pytest.mark.requirement("003-M3", "003-T3")
async def test_completed_task_is_reopened(app: App) -> None:
    await add_tasks(app, "Rest")
    await call_for_result(app, "complete_task", task_id="1")
    reopened = await call_for_result(app, "complete_task", now=LATER, task_id="1", completed=False)
    assert reopened["task"]["status"] == "open"
    assert reopened["task"]["updated_at"] == "2026-03-10T13:00:00Z"
    assert "completed_at" not in reopened["task"]
    assert reopened["undo"]["arguments"] == {"task_id": "1", "completed": True}


async def test_reopening_an_open_task_changes_nothing(app: App) -> None:
    await add_tasks(app, "Rest")
    result = await call_for_result(app, "complete_task", task_id="1", completed=False)
    assert result["changed"] == []


async def test_a_call_without_an_idempotency_key_is_not_replayed(app: App) -> None:
    """The third call is the same as the first, but its answer is not replayed."""
    await add_tasks(app, "Rest")
    for completed, status in ((True, "completed"), (False, "open"), (True, "completed")):
        result = await call_for_result(app, "complete_task", task_id="1", completed=completed)
        assert result["task"]["status"] == status
        assert result["changed"] == ["status"]


async def test_key_is_stored_even_if_nothing_changed(app: App) -> None:
    await add_tasks(app, "Rest")
    reopening: dict[str, Any] = {"task_id": "1", "completed": False, "idempotency_key": "k"}
    first = await call_for_result(app, "complete_task", **reopening)
    assert first["changed"] == []

    await call_for_result(app, "complete_task", task_id="1")
    assert await call_for_result(app, "complete_task", **reopening) == first


async def test_deleted_task_error_offers_restore(app: App) -> None:
    await add_tasks(app, "Rest")
    await call_for_result(app, "delete_task", task_id="1")
    error = await call_for_error(app, "complete_task", task_id="1")
    assert error["code"] == "not_found"
    assert "Until 2026-04-09 12:00 UTC restore_task can bring it back" in error["message"]


@pytest.mark.requirement("003-Q2")
async def test_each_of_several_tasks_has_a_result(app: App) -> None:
    await add_tasks(app, "one", "two", "three", "four")
    await call_for_result(app, "complete_task", task_id="2")
    await call_for_result(app, "delete_task", task_id="3")
    task_ids = ["4", "2", "3", "x", "9", "4", 1]
    answer = await call_for_result(app, "complete_task", task_ids=task_ids)
    four, two_again, deleted, invalid, missing, four_again, one = answer["results"]

    assert four["success"] is True
    assert four["task"]["task_id"] == "4"
    assert four["changed"] == ["status"]
    assert four_again == four
    assert two_again["success"] is True
    assert two_again.keys() == {"success", "task", "changed"}
    assert two_again["changed"] == []
    assert one["success"] is True
    assert one["undo"]["arguments"] == {"task_id": "1", "completed": False}

    assert not any(result["success"] for result in (deleted, invalid, missing))
    assert deleted["error"]["code"] == "not_found"
    assert "restore_task" in deleted["error"]["message"]
    assert invalid["error"]["code"] == "invalid_input"
    assert missing["error"]["code"] == "not_found"
    assert await list_ids(app, status="completed") == ["4", "2", "1"]


async def test_several_tasks_are_reopened(app: App) -> None:
    await add_tasks(app, "one", "two")
    await call_for_result(app, "complete_task", task_ids=["1", "2"])
    await call_for_result(app, "complete_task", task_ids=["2", "1"], completed=False)
    assert await list_ids(app, status="open") == ["2", "1"]


async def test_concurrent_calls_change_tasks_together(app: App) -> None:
    await add_tasks(app, "one", "two")
    calls = [
        call_at(app, "complete_task", task_ids=["1", "2"], completed=number % 2 == 0)
        for number in range(12)
    ]
    for answer in await asyncio.gather(*calls):
        assert answer.result, answer.error
        one, two = answer.result["results"]
        assert one["changed"] == two["changed"]
    first_task, second_task = await list_all(app)
    assert first_task["status"] == second_task["status"]
