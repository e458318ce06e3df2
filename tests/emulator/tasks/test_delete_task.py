"""`delete_task` deletes a task of its caller, which can be restored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.tasks import (
    add_tasks,
    call_at,
    call_for_error,
    call_for_result,
    list_all,
    list_ids,
    undo,
)

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def test_deleted_task_is_unlisted_and_restorable(app: App) -> None:
    await add_tasks(app, "one", "two")
    deleted = await call_for_result(app, "delete_task", task_id="1")
    assert deleted["task"]["status"] == "deleted"
    assert deleted["task"]["restorable_until"] == "2026-04-09T12:00:00Z"
    assert deleted["changed"] == ["status"]
    assert deleted["undo"] == {"tool": "restore_task", "arguments": {"task_id": "1"}}
    assert await list_ids(app) == ["2"]
    assert await list_all(app, status="deleted") == [deleted["task"] | {"overdue": False}]


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


async def test_same_key_is_replayed(app: App) -> None:
    await add_tasks(app, "one")
    first = await call_for_result(app, "delete_task", task_id="1", idempotency_key="k")
    assert await call_for_result(app, "delete_task", task_id="1", idempotency_key="k") == first


async def test_missing_tasks_and_those_of_others_are_not_found(app: App) -> None:
    await add_tasks(app, "one")
    errors = [
        await call_for_error(app, "delete_task", task_id="2"),
        await call_for_error(app, "delete_task", "ben", task_id="1"),
    ]
    assert [error["code"] for error in errors] == ["not_found"] * 2
    assert await list_ids(app) == ["1"]


@pytest.mark.parametrize("task_id", ["x", "0", "", None])
async def test_invalid_id_is_refused(app: App, task_id: str | None) -> None:
    error = await call_for_error(app, "delete_task", task_id=task_id)
    assert error["code"] == "invalid_input"
    assert list(error["details"]) == ["task_id"]


async def test_undo_restores_the_task(app: App) -> None:
    await add_tasks(app, "one")
    await undo(app, await call_for_result(app, "delete_task", task_id="1"))
    assert await list_ids(app) == ["1"]


async def test_deleting_takes_two_round_trips(app: App) -> None:
    await add_tasks(app, "one")
    receipt = (await call_at(app, "delete_task", task_id="1")).receipt
    assert receipt.round_trips == 2
    assert receipt.documents_read == 1
    assert receipt.documents_written == 2
