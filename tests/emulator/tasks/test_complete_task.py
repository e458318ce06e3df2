"""`complete_task`, against the emulator."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tasks import NOON, add, ask, did, ids, listed, refused, taken_back

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

LATER = NOON + timedelta(hours=1)


async def test_a_completed_task_says_when(app: App) -> None:
    await add(app, "Rest")
    completed = await did(app, "complete_task", now=LATER, task_id="1")
    task = completed["task"]
    assert ("completed", "2026-03-10T13:00:00Z") == (task["status"], task["completed_at"])
    assert ("2026-03-10T12:00:00Z", "2026-03-10T13:00:00Z") == (
        task["created_at"],
        task["updated_at"],
    )
    undo = {"tool": "complete_task", "arguments": {"task_id": "1", "completed": False}}
    assert (["status"], undo) == (completed["changed"], completed["undo"])
    assert [task | {"overdue": False}] == await listed(app)


async def test_completing_twice_changes_nothing_the_second_time(app: App) -> None:
    await add(app, "Rest")
    first = await did(app, "complete_task", task_id="1")
    again = await did(app, "complete_task", now=LATER, task_id="1")
    assert {"task": first["task"], "changed": []} == again


async def test_a_completed_task_is_reopened(app: App) -> None:
    await add(app, "Rest")
    await did(app, "complete_task", task_id="1")
    reopened = await did(app, "complete_task", now=LATER, task_id="1", completed=False)
    assert ("open", "2026-03-10T13:00:00Z") == (
        reopened["task"]["status"],
        reopened["task"]["updated_at"],
    )
    assert "completed_at" not in reopened["task"]
    assert {"task_id": "1", "completed": True} == reopened["undo"]["arguments"]


async def test_reopening_an_open_task_changes_nothing(app: App) -> None:
    await add(app, "Rest")
    assert [] == (await did(app, "complete_task", task_id="1", completed=False))["changed"]


async def test_both_ways_can_be_undone(app: App) -> None:
    await add(app, "Rest")
    completed = await did(app, "complete_task", task_id="1")
    undone = await taken_back(app, completed)
    assert "open" == undone["task"]["status"]
    assert "completed" == (await taken_back(app, undone))["task"]["status"]


async def test_without_a_key_each_completion_is_a_change(app: App) -> None:
    await add(app, "Rest")
    wanted = [True, False, True]
    completed = [await did(app, "complete_task", task_id="1", completed=each) for each in wanted]
    assert ["completed", "open", "completed"] == [each["task"]["status"] for each in completed]
    assert [["status"]] * 3 == [each["changed"] for each in completed]


async def test_with_one_key_they_are_one(app: App) -> None:
    await add(app, "Rest")
    first = await did(app, "complete_task", task_id="1", idempotency_key="k")
    await did(app, "complete_task", task_id="1", completed=False)
    assert first == await did(app, "complete_task", task_id="1", idempotency_key="k")
    assert ["1"] == await ids(app, status="open")


async def test_a_key_is_kept_also_where_nothing_changed(app: App) -> None:
    await add(app, "Rest")
    for _ in range(2):
        same: dict[str, Any] = {"task_id": "1", "completed": False, "idempotency_key": "k"}
        assert [] == (await did(app, "complete_task", **same))["changed"]
        await did(app, "complete_task", task_id="1")


@pytest.mark.parametrize("number", ["2", "999999999999999999"])
async def test_a_task_that_is_not_there_is_not_found(app: App, number: str) -> None:
    await add(app, "Rest")
    error = await refused(app, "complete_task", task_id=number)
    assert ("not_found", {"task_id": number}) == (error["code"], error["details"])
    assert "list_tasks" in error["message"]


async def test_a_task_of_somebody_else_is_not_there(app: App) -> None:
    await add(app, "Rest")
    theirs = await refused(app, "complete_task", "ben", task_id="1")
    nobodys = await refused(app, "complete_task", "ben", task_id="2")
    assert "not_found" == theirs["code"]
    assert theirs["message"].replace("1", "2") == nobodys["message"]
    assert ["1"] == await ids(app, status="open")


async def test_a_deleted_task_is_not_found_with_the_way_to_restore_it(app: App) -> None:
    await add(app, "Rest")
    await did(app, "delete_task", task_id="1")
    error = await refused(app, "complete_task", task_id="1")
    assert "not_found" == error["code"]
    assert "Until 2026-04-09 12:00 UTC restore_task can bring it back" in error["message"]


@pytest.mark.parametrize(
    "task_id", ["", "0", "-1", "01", "1.5", "one", "1/2", "1" * 19, "\u0661", True, None, {"a": 1}]
)
async def test_an_id_is_a_positive_integer(app: App, task_id: Any) -> None:
    error = await refused(app, "complete_task", task_id=task_id)
    assert ("invalid_input", ["task_id"]) == (error["code"], list(error["details"]))


@pytest.mark.parametrize("task_id", ["1", " 1 ", 1, 1.0])
async def test_a_number_will_do_for_an_id(app: App, task_id: Any) -> None:
    await add(app, "Rest")
    assert "1" == (await did(app, "complete_task", task_id=task_id))["task"]["task_id"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "task_id"),
        ({"task_id": "1", "task_ids": ["1"]}, "task_id"),
        ({"task_ids": []}, "task_ids"),
        ({"task_ids": ["1"] * 26}, "task_ids"),
        ({"task_ids": "1"}, "task_ids"),
        ({"task_id": "1", "completed": "yes"}, "completed"),
        ({"task_id": "1", "done": True}, "done"),
    ],
)
async def test_what_is_wrong_is_named_by_its_field(
    app: App, arguments: dict[str, Any], field: str
) -> None:
    await add(app, "Rest")
    error = await refused(app, "complete_task", **arguments)
    assert ("invalid_input", [field]) == (error["code"], list(error["details"]))
    assert ["1"] == await ids(app, status="open")


async def test_several_are_completed_at_once_each_with_its_outcome(app: App) -> None:
    await add(app, "one", "two", "three", "four")
    await did(app, "complete_task", task_id="2")
    await did(app, "delete_task", task_id="3")
    wanted = ["4", "2", "3", "x", "9", "4", 1]
    completed = await did(app, "complete_task", task_ids=wanted)
    assert [True, True, False, False, False, True, True] == [
        each["success"] for each in completed["results"]
    ]
    four, two, three, validation_error, missing, same, one = completed["results"]
    assert ("4", ["status"], same) == (four["task"]["task_id"], four["changed"], four)
    assert ({"success", "task", "changed"}, []) == (set(two), two["changed"])
    assert ["not_found", "invalid_input", "not_found"] == [
        each["error"]["code"] for each in (three, validation_error, missing)
    ]
    assert "restore_task" in three["error"]["message"]
    assert {"task_id": "1", "completed": False} == one["undo"]["arguments"]
    assert ["4", "2", "1"] == await ids(app, status="completed")


async def test_several_are_reopened_at_once(app: App) -> None:
    await add(app, "one", "two")
    await did(app, "complete_task", task_ids=["1", "2"])
    await did(app, "complete_task", task_ids=["2", "1"], completed=False)
    assert ["2", "1"] == await ids(app, status="open")


async def test_where_no_id_is_right_nothing_is_asked_of_the_database(app: App) -> None:
    answer = await ask(app, "complete_task", task_ids=["x", None])
    assert 0 == answer.receipt.documents_read


async def test_completing_and_reopening_at_once_leaves_the_last(
    app: App,
) -> None:
    await add(app, "one", "two")
    calls = [
        ask(app, "complete_task", task_ids=["1", "2"], completed=number % 2 == 0)
        for number in range(12)
    ]
    answers = await asyncio.gather(*calls)
    assert [None] * 12 == [answer.error for answer in answers]
    one, two = await listed(app)
    assert one["status"] == two["status"]
    both = [
        result["changed"] for each in answers if each.result for result in each.result["results"]
    ]
    assert both[::2] == both[1::2]


async def test_a_call_is_two_round_trips_however_many_it_completes(app: App) -> None:
    await did(app, "add_task", tasks=[{"title": f"{number}"} for number in range(25)])
    one = (await ask(app, "complete_task", task_id="1")).receipt
    many = [str(number) for number in range(1, 26)]
    all_at_once = (await ask(app, "complete_task", task_ids=many)).receipt
    assert (2, 1, 1 + 1) == (one.round_trips, one.documents_read, one.documents_written)
    assert (2, 25, 24 + 1) == (
        all_at_once.round_trips,
        all_at_once.documents_read,
        all_at_once.documents_written,
    )


async def test_completed_reopened_and_completed_is_three_changes(app: App) -> None:
    """Without a key nothing is replayed, however alike two calls are."""
    [task_id] = await add(app, "Rest")
    wanted = (True, False, True)
    states = [await did(app, "complete_task", task_id=task_id, completed=each) for each in wanted]
    assert [["status"]] * 3 == [each["changed"] for each in states]
    assert ["completed", "open", "completed"] == [each["task"]["status"] for each in states]
