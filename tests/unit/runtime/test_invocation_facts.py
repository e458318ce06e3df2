"""What a tool learns of its call beside its arguments, and tells of it beside its result."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.runtime.invocation import call
from shared.runtime.messages import CallAnswer, Receipt
from tests.support.note_tools import TOOLS, Notes, Nothing
from tests.support.tool_calls import request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.runtime.context import Backend, Deps

pytestmark = pytest.mark.anyio

WRITE, READ, *_ = TOOLS
ANNA = Caller.of("anna", task="thesis")


async def receipt_of(backend: Backend, work: Callable[[Deps], None], caller: Caller) -> Receipt:
    """The receipt of a call that does this."""

    async def run(_args: Nothing, deps: Deps) -> Notes:
        work(deps)
        return Notes(texts=[])

    tool = replace(READ, run=run)
    return (await call(tool, request_of(tool, caller, {}), backend)).receipt


def nothing(_deps: Deps) -> None:
    pass


async def test_notes_of_a_call_travel_with_its_receipt(backend: Backend) -> None:
    def work(deps: Deps) -> None:
        deps.note(passages=7, known=False)
        deps.note(passages=8, scores=(0.5, 0.25))

    noted = (await receipt_of(backend, work, ANNA)).notes
    assert {"passages": 8, "known": False, "scores": [0.5, 0.25]} == noted


async def test_a_call_that_fails_keeps_what_it_noted_before(backend: Backend) -> None:
    def work(deps: Deps) -> None:
        deps.note(passages=7)
        deps.note(text="what nobody may read")

    assert {"passages": 7} == (await receipt_of(backend, work, ANNA)).notes


async def test_a_call_works_in_the_task_of_its_credential(
    backend: Backend,
) -> None:
    def work(deps: Deps) -> None:
        deps.task = "other"

    found = [
        (await receipt_of(backend, each, caller)).task
        for each, caller in ((nothing, ANNA), (nothing, Caller.of("anna")), (work, ANNA))
    ]
    assert ["thesis", None, "other"] == found


async def test_a_call_knows_until_when_somebody_waits(backend: Backend, deps: Deps) -> None:
    seen: list[float | None] = []
    await receipt_of(backend, lambda own: seen.append(own.deadline), ANNA)
    [deadline] = seen
    assert deadline
    assert time.time() < deadline <= time.time() + 30
    assert deps.deadline is None


async def test_notes_survive_the_way_from_a_function_to_the_gateway() -> None:
    notes = {"known": True, "passages": 7, "score": 0.5, "rounded": 1.0, "ids": ["a", 1]}
    sent = CallAnswer(result={}, receipt=Receipt(task="thesis", notes=notes))
    received = CallAnswer.model_validate_json(sent.model_dump_json())
    assert sent == received
    assert [bool, int, float, float, list] == [
        type(each) for each in received.receipt.notes.values()
    ]


async def test_a_function_of_before_tells_neither_notes_nor_task() -> None:
    answer = CallAnswer.model_validate_json('{"result": {}, "receipt": {"documents_read": 3}}')
    assert ({}, None) == (answer.receipt.notes, answer.receipt.task)


async def test_a_caller_is_told_what_a_call_cost_and_no_notes() -> None:
    receipt = Receipt(documents_read=3, price=5, task="thesis", notes={"passages": 7})
    told = {"documents_read": 3, "documents_written": 0, "round_trips": 0, "milliseconds": 0.0}
    assert told | {"price": 5} == receipt.cost()
