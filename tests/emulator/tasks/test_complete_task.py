"""`complete_task` completes or reopens a task of its caller."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from functions.gateway.catalog import Catalog
from shared.core.caller import Caller
from shared.runtime.context import App
from tests.support.tasks import NOON, add_tasks, call_at, call_for_result, list_all, list_ids

LATER = NOON + timedelta(hours=1)


@pytest.mark.requirement("003-T3", "003-M3")
async def test_completed_task_has_its_time(app: App) -> None:
    added = await call_for_result(app, "add_task", title="Rest")
    completed = await call_for_result(app, "complete_task", now=LATER, task_id="1")
    later = "2026-03-10T13:00:00Z"
    task = added["task"] | {"status": "completed", "completed_at": later, "updated_at": later}
    undo = {"tool": "complete_task", "arguments": {"task_id": "1", "completed": False}}
    assert completed == {"task": task, "changed": ["status"], "undo": undo}
    assert await list_all(app) == [task]
    repeated = await call_for_result(
        app, "complete_task", now=LATER + timedelta(hours=1), task_id="1"
    )
    assert repeated == {"task": task, "changed": []}

    reopened = await call_for_result(app, "complete_task", now=LATER, task_id="1", completed=False)
    undo["arguments"] = {"task_id": "1", "completed": True}
    open_task = added["task"] | {"updated_at": later}
    assert reopened == {"task": open_task, "changed": ["status"], "undo": undo}


@pytest.mark.requirement("003-M3")
def test_clients_see_that_a_repeated_call_is_safe() -> None:
    tool = Catalog.load().get("complete_task", Caller.of("ada"))
    assert tool is not None
    annotations = tool.to_mcp().annotations
    assert annotations is not None
    assert annotations.idempotent_hint


async def test_key_is_stored_even_if_nothing_changed(app: App) -> None:
    await add_tasks(app, "Rest")
    reopening: dict[str, Any] = {"task_id": "1", "completed": False, "idempotency_key": "k"}
    first = await call_for_result(app, "complete_task", **reopening)
    assert first["changed"] == []

    await call_for_result(app, "complete_task", task_id="1")
    assert await call_for_result(app, "complete_task", **reopening) == first


@pytest.mark.requirement("003-Q2")
async def test_each_of_several_tasks_has_a_result(app: App) -> None:
    await add_tasks(app, "one", "two", "three", "four")
    await call_for_result(app, "complete_task", task_id="2")
    await call_for_result(app, "delete_task", task_id="3")
    task_ids = ["4", "2", "3", "x", "9", "4", 1]
    answer = await call_for_result(app, "complete_task", task_ids=task_ids)
    four, two_again, deleted, invalid, missing, four_again, one = answer["results"]

    successes = [result["success"] for result in answer["results"]]
    assert successes == [True, True, False, False, False, True, True]
    assert four["task"]["task_id"] == "4"
    assert four["changed"] == ["status"]
    assert four_again == four
    assert two_again.keys() == {"success", "task", "changed"}
    assert two_again["changed"] == []
    assert one["undo"]["arguments"] == {"task_id": "1", "completed": False}
    codes = [result["error"]["code"] for result in (deleted, invalid, missing)]
    assert codes == ["not_found", "invalid_input", "not_found"]
    assert "restore_task" in deleted["error"]["message"]
    assert await list_ids(app, status="completed") == ["4", "2", "1"]
    await call_for_result(app, "complete_task", task_ids=["4", "2"], completed=False)
    assert await list_ids(app, status="open") == ["4", "2"]


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
