"""`delete_task`, against the emulator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.tasks import add, ask, did, ids, listed, refused, taken_back

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def test_a_deleted_task_is_unlisted_and_says_how_long_it_is_kept(
    app: App,
) -> None:
    await add(app, "one", "two")
    gone = await did(app, "delete_task", task_id="1")
    assert ("deleted", "2026-04-09T12:00:00Z") == (
        gone["task"]["status"],
        gone["task"]["restorable_until"],
    )
    assert (["status"], {"tool": "restore_task", "arguments": {"task_id": "1"}}) == (
        gone["changed"],
        gone["undo"],
    )
    assert ["2"] == await ids(app)
    assert [gone["task"] | {"overdue": False}] == await listed(app, status="deleted")


async def test_deleting_twice_is_not_found(app: App) -> None:
    await add(app, "one")
    await did(app, "delete_task", task_id="1")
    error = await refused(app, "delete_task", task_id="1")
    assert ("not_found", {"task_id": "1"}) == (error["code"], error["details"])
    assert "restore_task can bring it back" in error["message"]


async def test_of_many_who_delete_at_once_one_does(app: App) -> None:
    await add(app, "one")
    answers = await asyncio.gather(*(ask(app, "delete_task", task_id="1") for _ in range(8)))
    codes = sorted(answer.error.code if answer.error else "" for answer in answers)
    assert ["", *["NOT_FOUND"] * 7] == codes


async def test_the_same_call_again_is_answered_as_the_first_time(app: App) -> None:
    await add(app, "one")
    first = await did(app, "delete_task", task_id="1", idempotency_key="k")
    assert first == await did(app, "delete_task", task_id="1", idempotency_key="k")


async def test_a_missing_task_and_somebody_elses_are_not_found(app: App) -> None:
    await add(app, "one")
    errors = [
        await refused(app, "delete_task", task_id="2"),
        await refused(app, "delete_task", "ben", task_id="1"),
    ]
    assert ["not_found"] * 2 == [each["code"] for each in errors]
    assert ["1"] == await ids(app)


@pytest.mark.parametrize("task_id", ["x", "0", "", None])
async def test_a_wrong_id_is_invalid_input(app: App, task_id: str | None) -> None:
    error = await refused(app, "delete_task", task_id=task_id)
    assert ("invalid_input", ["task_id"]) == (error["code"], list(error["details"]))


async def test_deleting_can_be_undone(app: App) -> None:
    await add(app, "one")
    await taken_back(app, await did(app, "delete_task", task_id="1"))
    assert ["1"] == await ids(app)


async def test_a_call_is_two_round_trips(app: App) -> None:
    await add(app, "one")
    receipt = (await ask(app, "delete_task", task_id="1")).receipt
    assert (2, 1, 2) == (receipt.round_trips, receipt.documents_read, receipt.documents_written)
