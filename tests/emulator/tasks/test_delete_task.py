"""`delete_task` deletes a task of its caller, which can be restored for some time."""

import asyncio
from datetime import timedelta

import pytest

from shared.runtime.context import App
from shared.tasks.model import DELETED_TASKS
from tests.support.tasks import (
    NOON,
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    list_ids,
)

TOO_LATE = NOON + DELETED_TASKS.duration
LAST_MOMENT = TOO_LATE - timedelta(microseconds=1)


@pytest.mark.requirement("003-T4")
async def test_deleted_task_is_unlisted_and_restorable(app: App) -> None:
    added = await call_for_result(app, "add_task", title="one")
    deleted = await call_for_result(app, "delete_task", task_id="1")
    task = added["task"] | {"status": "deleted", "restorable_until": f"{TOO_LATE:%FT%TZ}"}
    undo = {"tool": "restore_task", "arguments": {"task_id": "1"}}
    assert deleted == {"task": task, "changed": ["status"], "undo": undo}
    assert await list_ids(app) == []
    assert await list_all(app, status="deleted") == [task]

    restored = await call_for_result(app, "restore_task", task_id="1")
    assert restored["task"] == added["task"]


@pytest.mark.requirement("003-M4")
async def test_deleting_twice_is_not_found(app: App) -> None:
    await add_tasks(app, "one")
    answers = await asyncio.gather(*(call_at(app, "delete_task", task_id="1") for _ in range(8)))
    assert [answer.error for answer in answers].count(None) == 1
    error = await call_for_error(app, "delete_task", task_id="1")
    assert error["code"] == "not_found"
    assert error["details"] == {"task_id": "1"}
    assert f"Until {TOO_LATE:%F %H:%M} UTC restore_task can bring it back" in error["message"]


@pytest.mark.requirement("003-T4")
async def test_task_is_restorable_until_its_time(app: App) -> None:
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
    """The number of a task whose document is gone is not used again."""
    await add_tasks(app, "one")
    document = app.connection.client.document("users/anna/tasks/1")
    for tool, purge_at in (("delete_task", TOO_LATE), ("restore_task", None)):
        await call_for_result(app, tool, task_id="1")
        assert (await document.get()).get("purge_at") == purge_at
    await document.delete()
    assert await add_tasks(app, "two") == ["2"]
