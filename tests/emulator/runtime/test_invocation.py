"""One call of a tool: whatever happens becomes an answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import Field, ValidationError

from shared.core.caller import Caller, Tier
from shared.core.errors import Conflict, InvalidInput, PlatformFault, RateLimited, Unavailable
from shared.core.meter import Meter
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.runtime.capabilities import Capability
from shared.runtime.invocation import invoke, parse_arguments
from shared.runtime.messages import CallAnswer, CallRequest, WireError
from shared.runtime.outcome import Outcome
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import App, Context
    from tests.support.monotonic_clock import Monotonic

pytestmark = pytest.mark.anyio

SECRET = "what-nobody-may-read"


class In(Arguments):
    """A number of times."""

    word: str = Field(description="What to say.")
    times: int = Field(default=1, ge=1, le=3, description="How often.")
    tier: Tier = Field(default=Tier.PUBLIC, description="An enumeration.")


class Out(Result):
    """What was said."""

    words: list[str] = Field(description="The word, again and again.")


async def repeat(args: In, _context: Context) -> Out:
    return Out(words=[args.word] * args.times)


async def look_around(_args: In, ctx: Context) -> Out:
    await asyncio.gather(Chunks(ctx.database).get("a"), Chunks(ctx.database).get("b"))
    await Clusters(ctx.database).get_all(["c"])
    note = ctx.database.document("notes", "a")
    await ctx.database.commit([lambda batch: batch.set(note, {})])
    return Out(words=[])


TOOL = Tool(
    name="repeat_word",
    title="Repeat a word",
    description="For the model.",
    input=In,
    output=Out,
    run=repeat,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)


def hanging(monotonic: Monotonic) -> Tool[In, Out]:
    """It never answers, and a minute is over at once."""

    async def hang(_args: In, _context: Context) -> Out:
        monotonic.turn(60)
        await asyncio.Event().wait()
        raise AssertionError

    return replace(TOOL, run=hang)


def writing(tool: Tool[In, Out]) -> Tool[In, Out]:
    return replace(tool, effect=Effect.WRITE)


def raising(error: Exception) -> Tool[In, Out]:
    async def fail(_args: In, _context: Context) -> Out:
        raise error

    return replace(TOOL, run=fail)


def request(seconds: float = 60, **arguments: Any) -> CallRequest:
    return CallRequest(
        call_id="call-7", arguments=arguments, caller=Caller(), deadline=time.time() + seconds
    )


async def refused(tool: Tool[In, Out], wanted: CallRequest, app: App) -> dict[str, Any]:
    answer = await invoke(tool, wanted, app)
    assert answer.result is None
    assert answer.error is not None
    return answer.error.model_dump(exclude_none=True)


async def test_a_result_comes_with_a_receipt(app: App) -> None:
    answer = await invoke(TOOL, request(word="so", times=2), app)
    assert answer.result == {"words": ["so", "so"]}
    assert answer.error is None
    assert answer.receipt.milliseconds > 0


async def test_a_receipt_counts_documents_and_how_deep_a_call_went(app: App) -> None:
    tool = replace(TOOL, run=look_around, effect=Effect.WRITE)
    receipt = (await invoke(tool, request(word="so"), app)).receipt
    assert (receipt.documents_read, receipt.documents_written, receipt.round_trips) == (3, 1, 3)


async def test_a_receipt_times_only_the_parts_that_a_call_needed(
    app: App,
) -> None:
    async def embed(_args: In, ctx: Context) -> Out:
        await ctx.query_vector("bread")
        return Out(words=[])

    tool = replace(TOOL, run=embed, capabilities=frozenset({Capability.EMBEDDING}))
    first, again = [(await invoke(tool, request(word="so"), app)).receipt for _ in range(2)]
    assert first.embedding_ms is not None
    assert 0 <= first.embedding_ms <= first.milliseconds
    assert (None, None, None) == (first.bm25_ms, first.price, again.embedding_ms)


async def test_a_part_that_takes_several_turns_is_timed_together(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "perf_counter", iter([1.0, 1.002, 2.0, 2.003]).__next__)
    ctx = app.context(Caller(), Meter())
    for _ in range(2):
        with ctx.timed("bm25"):
            pass
    assert ctx.milliseconds["bm25"] == 5


async def test_a_receipt_says_what_the_handler_charged(app: App) -> None:
    async def charge(_args: In, _context: Context) -> Outcome[Out]:
        return Outcome(Out(words=[]), price=42)

    answer = await invoke(replace(TOOL, run=charge, price=100), request(word="so"), app)
    assert 42 == answer.receipt.price


def too_late(error: dict[str, Any]) -> str:
    """The message of an error, having checked that it names the time, which began before."""
    pattern = r"repeat_word did not finish within (60|5\d\.\d|5\d) s"
    message, count = re.subn(pattern, "It did not finish", error["message"])
    assert 1 == count, error
    return message


async def test_a_read_that_takes_too_long_is_gone_on_without(
    app: App, monotonic: Monotonic
) -> None:
    error = await refused(hanging(monotonic), request(60, word="so"), app)
    assert "It did not finish: go on without it, or call it again in 5 s." == too_late(error)
    assert ("UNAVAILABLE", {"tool": "repeat_word"}) == (error["code"], error["details"])
    assert 5 == error["retry_after"]


async def test_a_write_out_of_time_before_it_writes_did_nothing(
    app: App, monotonic: Monotonic
) -> None:
    error = await refused(writing(hanging(monotonic)), request(60, word="so"), app)
    assert {"tool": "repeat_word", "outcome": "nothing_done"} == error["details"]
    assert "It did not finish. Nothing was stored: call it again in 5 s." == too_late(error)


async def test_what_a_write_that_takes_too_long_did_is_unknown(
    app: App, monotonic: Monotonic
) -> None:
    async def write_and_hang(args: In, ctx: Context) -> Out | Outcome[Out]:
        await look_around(args, ctx)
        return await hanging(monotonic).run(args, ctx)

    tool = writing(replace(TOOL, run=write_and_hang))
    error = await refused(tool, request(60, word="so"), app)
    assert {"tool": "repeat_word", "outcome": "unknown"} == error["details"]
    expected = (
        "It did not finish. It is unknown whether it took effect: check before you call it again."
    )
    assert expected == too_late(error)


async def test_a_call_whose_deadline_has_passed_is_not_begun(app: App) -> None:
    error = await refused(writing(TOOL), request(-3600, word="so"), app)
    assert {"tool": "repeat_word", "outcome": "nothing_done"} == error["details"]
    assert error["message"] == (
        "repeat_word was not run: no time was left. Nothing was stored: call it again in 5 s."
    )


async def test_what_a_read_cannot_have_is_told_with_how_to_go_on(
    app: App,
) -> None:
    failure = Unavailable("The oven is off.", details={"oven": "off"}, retry_after=9)
    error = await refused(raising(failure), request(word="so"), app)
    assert ({"oven": "off"}, 9) == (error["details"], error["retry_after"])
    assert error["message"] == (
        "The oven is off. Go on without repeat_word, or call it again in 9 s."
    )


@pytest.mark.parametrize("outcome", ["nothing_done", "unknown"])
async def test_a_write_may_know_what_became_of_it(app: App, outcome: str) -> None:
    failure = Unavailable("The oven is off.", details={"outcome": outcome})
    error = await refused(writing(raising(failure)), request(word="so"), app)
    assert ({"outcome": outcome}, 5) == (error["details"], error["retry_after"])


async def test_a_write_that_ends_unknown_is_not_to_be_trusted(
    app: App,
) -> None:
    async def write_and_fail(args: In, ctx: Context) -> Out:
        await look_around(args, ctx)
        raise Unavailable("Off.")

    tool = writing(replace(TOOL, run=write_and_fail))
    error = await refused(tool, request(word="so"), app)
    assert {"outcome": "unknown"} == error["details"]
    assert "Off. It is unknown whether repeat_word took effect: check before" in error["message"]


async def test_a_time_out_that_is_not_the_calls_is_a_fault(app: App) -> None:
    error = await refused(raising(TimeoutError(SECRET)), request(word="so"), app)
    assert error["code"] == "INTERNAL_ERROR"


@pytest.mark.parametrize(
    "error", [RuntimeError(SECRET), PlatformFault(SECRET, details={"where": SECRET})]
)
async def test_of_a_fault_of_ours_only_the_calls_id_is_told(
    app: App, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    told = await refused(raising(error), request(word="so"), app)
    assert (told["code"], told["details"]) == ("INTERNAL_ERROR", {"call_id": "call-7"})
    assert "call-7" in told["message"]
    assert SECRET not in json.dumps(told) + capsys.readouterr().err


async def test_a_fault_is_logged_with_the_lines_it_passed(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    await refused(raising(RuntimeError(SECRET)), request(word="so"), app)
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    fault = next(entry for entry in logged if entry["message"] == "fault")
    assert (fault["severity"], fault["error"], fault["call_id"]) == (
        "ERROR",
        "RuntimeError",
        "call-7",
    )
    assert fault["stack"][-1].endswith(" fail")


@pytest.mark.parametrize(
    "failure",
    [Conflict("It is taken.", details={"word": "taken"}), RateLimited("Wait.", retry_after=9)],
)
async def test_a_failure_is_told_as_it_is(app: App, failure: Conflict) -> None:
    assert failure.to_wire() == await refused(raising(failure), request(word="so"), app)


async def test_what_is_wrong_with_the_arguments_is_told_for_each(app: App) -> None:
    error = await refused(TOOL, request(times=9, wrod="so"), app)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"] == {
        "word": "required, but missing",
        "times": "Input should be less than or equal to 3",
        "wrod": "not a parameter; repeat_word takes word, times, tier",
    }
    assert error["message"].startswith("repeat_word was not run. word: required, but missing; ")


async def test_arguments_are_not_logged(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    await invoke(TOOL, request(word=SECRET), app)
    await invoke(TOOL, request(times=SECRET, **{SECRET: 1}), app)
    assert SECRET not in capsys.readouterr().err


async def test_what_goes_well_is_the_gateways_to_log(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    await invoke(TOOL, request(word="so"), app)
    assert "" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"word": "so", "times": "2"}, "times"),
        ({"word": "so", "times": True}, "times"),
        ({"word": "so", "times": 2.5}, "times"),
        ({"word": 1}, "word"),
        ({"word": None}, "word"),
        ({"word": "so", "tier": "royal"}, "tier"),
    ],
)
def test_types_are_not_guessed(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_arguments(In, arguments, "repeat_word")
    assert list(caught.value.details) == [field]


def test_an_enumeration_is_its_string() -> None:
    parsed = parse_arguments(In, {"word": "so", "tier": "registered"}, "repeat_word")
    assert In(word="so", tier=Tier.REGISTERED) == parsed


WRONG = WireError(code="NOT_FOUND", message="There is none.", details={})


@pytest.mark.parametrize("parts", [{}, {"result": {}, "error": WRONG}])
def test_an_answer_is_a_result_or_an_error(parts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="a result or an error"):
        CallAnswer(**parts)


async def test_of_many_problems_the_first_are_told_and_others_counted(app: App) -> None:
    odd = {f"{number}{'x' * 500}": 0 for number in range(50)}
    error = await refused(TOOL, request(word="so", **odd), app)
    assert 20 == len(error["details"])
    assert all(len(name) <= 80 for name in error["details"])
    assert len(error["message"]) < 4_000


async def test_too_many_arguments_are_not_even_looked_at(app: App) -> None:
    many = {f"k{n}": 0 for n in range(100_000)}
    for arguments in (many, {"word": many}, {"word": [many]}):
        error = await refused(TOOL, request(**arguments), app)
        assert {"arguments": "an object has more than 100 fields"} == error["details"]
