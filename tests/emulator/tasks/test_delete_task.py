"""`delete_task` deletes a task of its caller, which can be restored."""

from __future__ import annotations

import asyncio

import pytest

from shared.runtime.context import App
from tests.support.tasks import (
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    list_ids,
)


@pytest.mark.requirement("003-T4")
async def test_deleted_task_is_unlisted_and_restorable(app: App) -> None:
    await add_tasks(app, "one", "two")
    deleted = await call_for_result(app, "delete_task", task_id="1")
    assert deleted["task"]["status"] == "deleted"
    assert deleted["task"]["restorable_until"] == "2026-04-09T12:00:00Z"
    assert deleted["changed"] == ["status"]
    assert deleted["undo"] == {"tool": "restore_task", "arguments": {"task_id": "1"}}
    assert await list_ids(app) == ["2"]
    assert await list_all(app, status="deleted") == [deleted["task"] | {"overdue": False}]


@pytest.mark.requirement("003-M4")
async def test_deleting_twice_is_not_found(app: App) -> None:
    await add_tasks(app, "one")
    await call_for_result(app, "delete_task", task_id="1")
    error = await call_for_error(app, "delete_task", task_id="1")
    assert error["code"] == "not_found"
    assert error["details"] == {"task_id": "1"}
    assert "restore_task can bring it back" in error["message"]


async def test_concurrent_deletes_succeed_once(app: App) -> None:
    await add_tasks(app, "one")
    answers = await asyncio.gather(*(call_at(app, "delete_task", task_id="1") for _ in range(8)))
    errors = [answer.error for answer in answers if answer.error]
    assert [error.code for error in errors] == ["NOT_FOUND"] * 7
