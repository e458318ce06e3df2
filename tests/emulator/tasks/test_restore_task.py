"""`restore_task` restores a deleted task of its caller within 30 days."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.runtime.context import App
from tests.support.tasks import NOON, add_tasks, call_for_error, call_for_result, list_all, list_ids

TOO_LATE = NOON + timedelta(days=30)
LAST_MOMENT = TOO_LATE - timedelta(microseconds=1)


async def test_task_is_restored_open_or_completed(app: App) -> None:
    await add_tasks(app, "one", "two")
    completed = await call_for_result(app, "complete_task", task_id="2")
    for task_id, status in (("1", "open"), ("2", "completed")):
        await call_for_result(app, "delete_task", task_id=task_id)
        restored = await call_for_result(app, "restore_task", task_id=task_id)
        assert restored["task"]["status"] == status
        assert restored["changed"] == ["status"]
        assert restored["undo"] == {"tool": "delete_task", "arguments": {"task_id": task_id}}
        assert "restorable_until" not in restored["task"]
    task, _ = await list_all(app)
    assert task == completed["task"] | {"overdue": False}
    assert await list_ids(app, status="deleted") == []


async def test_restoring_an_undeleted_task_changes_nothing(app: App) -> None:
    new_task = await call_for_result(app, "add_task", title="one")
    restored = await call_for_result(app, "restore_task", now=LAST_MOMENT, task_id="1")
    assert restored == {"task": new_task["task"], "changed": []}


@pytest.mark.requirement("003-T4")
async def test_task_is_restorable_for_thirty_days(app: App) -> None:
    await add_tasks(app, "one", "two")
    for task_id in ("1", "2"):
        await call_for_result(app, "delete_task", task_id=task_id)
    assert await list_ids(app, status="deleted", now=LAST_MOMENT) == ["2", "1"]
    await call_for_result(app, "restore_task", now=LAST_MOMENT, task_id="1")
    assert await list_ids(app, now=TOO_LATE) == ["1"]
    assert await list_ids(app, status="deleted", now=TOO_LATE) == []


@pytest.mark.parametrize("tool", ["restore_task", "complete_task", "delete_task"])
async def test_expired_task_is_not_found_while_stored(app: App, tool: str) -> None:
    await add_tasks(app, "one")
    await call_for_result(app, "delete_task", task_id="1")
    error = await call_for_error(app, tool, now=TOO_LATE, task_id="1")
    assert error["code"] == "not_found"
    assert "There is no task 1." in error["message"]


async def test_document_has_its_expiry_time(app: App) -> None:
    await add_tasks(app, "one")
    document = app.connection.client.document("users/anna/tasks/1")
    assert (await document.get()).get("purge_at") is None
    await call_for_result(app, "delete_task", task_id="1")
    assert (await document.get()).get("purge_at") == TOO_LATE
    await call_for_result(app, "restore_task", task_id="1")
    assert (await document.get()).get("purge_at") is None


async def test_number_of_an_expired_task_is_not_reused(app: App) -> None:
    await add_tasks(app, "one")
    await call_for_result(app, "delete_task", task_id="1")
    await app.connection.client.document("users/anna/tasks/1").delete()
    assert await add_tasks(app, "two") == ["2"]
