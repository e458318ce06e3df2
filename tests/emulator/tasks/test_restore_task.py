"""`restore_task`, against the emulator."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.tasks import NOON, add, ask, did, ids, listed, refused, taken_back

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

LAST_MOMENT = NOON + timedelta(days=30) - timedelta(microseconds=1)
TOO_LATE = NOON + timedelta(days=30)


async def test_a_task_comes_back_open_or_completed_as_it_was(
    app: App,
) -> None:
    await add(app, "one", "two")
    completed = await did(app, "complete_task", task_id="2")
    for task_id, status in (("1", "open"), ("2", "completed")):
        await did(app, "delete_task", task_id=task_id)
        back = await did(app, "restore_task", task_id=task_id)
        assert (status, ["status"]) == (back["task"]["status"], back["changed"])
        assert {"tool": "delete_task", "arguments": {"task_id": task_id}} == back["undo"]
        assert "restorable_until" not in back["task"]
    assert completed["task"] | {"overdue": False} == (await listed(app))[0]
    assert [] == await ids(app, status="deleted")


async def test_a_task_that_is_not_deleted_stays_as_it_is(app: App) -> None:
    added = await did(app, "add_task", title="one")
    back = await did(app, "restore_task", now=LAST_MOMENT, task_id="1")
    assert {"task": added["task"], "changed": []} == back


async def test_thirty_days_are_thirty_days(app: App) -> None:
    await add(app, "one", "two")
    for task_id in ("1", "2"):
        await did(app, "delete_task", task_id=task_id)
    assert ["2", "1"] == await ids(app, status="deleted", now=LAST_MOMENT)
    await did(app, "restore_task", now=LAST_MOMENT, task_id="1")
    assert ["1"] == await ids(app, now=TOO_LATE)
    assert [] == await ids(app, status="deleted", now=TOO_LATE)


@pytest.mark.parametrize("tool", ["restore_task", "complete_task", "delete_task"])
async def test_after_that_a_task_is_gone_though_still_stored(app: App, tool: str) -> None:
    await add(app, "one")
    await did(app, "delete_task", task_id="1")
    error = await refused(app, tool, now=TOO_LATE, task_id="1")
    assert "not_found" == error["code"]
    assert "There is no task 1." in error["message"]


async def test_its_document_says_when_the_database_may_drop_it(app: App) -> None:
    await add(app, "one")
    stored = app.connection.client.document("users/anna/tasks/1")
    assert (await stored.get()).get("purge_at") is None
    await did(app, "delete_task", task_id="1")
    assert TOO_LATE == (await stored.get()).get("purge_at")
    await did(app, "restore_task", task_id="1")
    assert (await stored.get()).get("purge_at") is None


async def test_a_number_is_not_given_again_after_its_task_is_gone(
    app: App,
) -> None:
    await add(app, "one")
    await did(app, "delete_task", task_id="1")
    await app.connection.client.document("users/anna/tasks/1").delete()
    assert ["2"] == await add(app, "two")


async def test_a_missing_task_and_somebody_elses_are_not_found(app: App) -> None:
    await add(app, "one")
    await did(app, "delete_task", task_id="1")
    errors = [
        await refused(app, "restore_task", task_id="2"),
        await refused(app, "restore_task", "ben", task_id="1"),
    ]
    assert ["not_found"] * 2 == [each["code"] for each in errors]


async def test_restoring_can_be_undone(app: App) -> None:
    await add(app, "one")
    await did(app, "delete_task", task_id="1")
    await taken_back(app, await did(app, "restore_task", task_id="1"))
    assert ["1"] == await ids(app, status="deleted")


async def test_a_wrong_id_is_invalid_input(app: App) -> None:
    assert "invalid_input" == (await refused(app, "restore_task", task_id="x"))["code"]


async def test_a_call_is_two_round_trips(app: App) -> None:
    await add(app, "one")
    await did(app, "delete_task", task_id="1")
    receipt = (await ask(app, "restore_task", task_id="1")).receipt
    assert (2, 1, 2) == (receipt.round_trips, receipt.documents_read, receipt.documents_written)
