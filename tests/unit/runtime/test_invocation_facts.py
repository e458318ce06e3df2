"""A call's receipt has its task, its cost and its audit facts, which the gateway logs."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.core.caller import Caller
from shared.core.errors import NotFound, Unavailable
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallAnswer, Receipt
from shared.runtime.outcome import Outcome
from tests.support.monotonic_clock import MonotonicClock
from tests.support.notebook_tools import TOOLS, Notes, Nothing
from tests.support.tool_calls import make_call_request

WRITE, READ, *_ = TOOLS
ANNA = Caller.of("anna", task="thesis")
NO_NOTES = Notes(texts=[])


async def run_handler(
    app: App, handler: Callable[[Context], Outcome[Notes]], caller: Caller
) -> Receipt:
    """Call a tool with this handler; return the receipt."""

    async def run(_args: Nothing, ctx: Context) -> Outcome[Notes]:
        return handler(ctx)

    tool = replace(READ, run=run)
    return (await invoke(tool, make_call_request(tool, caller, {}), app)).receipt


async def test_a_receipt_has_the_facts_and_the_task_of_the_call(app: App) -> None:
    def handler(_context: Context) -> Outcome[Notes]:
        return Outcome(NO_NOTES, facts={"passages": 8, "known": False, "scores": (0.5, 0.25)})

    receipt = await run_handler(app, handler, ANNA)
    assert receipt.notes == {"passages": 8, "known": False, "scores": [0.5, 0.25]}
    assert receipt.task == "thesis"
    assert (await run_handler(app, handler, Caller.of("anna"))).task is None
    with pytest.raises(ValueError, match="an audit fact is a code"):  # before a commit
        Outcome(NO_NOTES, facts={"text": "some private text"})


@pytest.mark.parametrize(
    ("facts", "notes"), [({"passages": 7}, {"passages": 7}), ({"text": "some private text"}, {})]
)
async def test_a_failure_carries_its_facts(
    app: App, facts: dict[str, Any], notes: dict[str, Any]
) -> None:
    """Without those that could be content."""

    def handler(_context: Context) -> Outcome[Notes]:
        failure = Unavailable("The notebook is closed.")
        failure.facts = facts
        raise failure

    receipt = await run_handler(app, handler, ANNA)
    assert (receipt.task, receipt.notes) == ("thesis", notes)


@pytest.mark.parametrize("end", [TimeoutError, RuntimeError, NotFound])
async def test_a_receipt_has_the_task_of_a_failed_call(app: App, end: type[Exception]) -> None:
    async def run(_args: Nothing, _context: Context) -> Notes:
        raise end("no answer")

    tool = replace(READ, run=run, task=lambda _args, caller: f"{caller.user_id}'s own")
    answer = await invoke(tool, make_call_request(tool, ANNA, {}), app)
    assert answer.error
    assert answer.receipt.task == "anna's own"


async def test_a_receipt_has_the_task_after_a_timeout(app: App, monotonic: MonotonicClock) -> None:
    async def run(_args: Nothing, _context: Context) -> Notes:
        monotonic.advance_soon(60)
        await asyncio.Event().wait()
        raise AssertionError

    tool = replace(READ, run=run, task=lambda _args, _caller: "other")
    answer = await invoke(tool, make_call_request(tool, ANNA, {}), app)
    assert answer.error
    assert answer.error.code == "UNAVAILABLE"
    assert answer.receipt.task == "other"


async def test_a_calls_context_has_its_deadline(app: App, ctx: Context) -> None:
    deadlines: list[float | None] = []

    def handler(call_context: Context) -> Outcome[Notes]:
        deadlines.append(call_context.deadline)
        return Outcome(NO_NOTES)

    await run_handler(app, handler, ANNA)
    [deadline] = deadlines
    assert deadline
    assert time.time() < deadline <= time.time() + 30
    assert ctx.deadline is None


async def test_facts_keep_their_types_when_serialized() -> None:
    notes = {"known": True, "passages": 7, "score": 0.5, "rounded": 1.0, "ids": ["a", 1]}
    receipt = Receipt(documents_read=3, price=5, task="thesis", notes=notes)
    call_answer = CallAnswer(result={}, receipt=receipt)
    parsed_answer = CallAnswer.model_validate_json(call_answer.model_dump_json())
    assert parsed_answer == call_answer
    fact_types = [type(fact) for fact in parsed_answer.receipt.notes.values()]
    assert fact_types == [bool, int, float, float, list]
    cost = {"documents_read": 3, "documents_written": 0, "round_trips": 0, "milliseconds": 0.0}
    assert receipt.cost() == cost | {"price": 5}

    old = CallAnswer.model_validate_json('{"result": {}, "receipt": {"documents_read": 3}}')
    assert (old.receipt.notes, old.receipt.task) == ({}, None)
