"""Every result and every exception of a tool becomes an answer with a receipt."""

import asyncio
import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from pydantic import Field, ValidationError

from shared.core.caller import Caller, Tier
from shared.core.errors import Conflict, PlatformFault, RateLimited, Unavailable
from shared.core.meter import Meter
from shared.firestore.documents import Reference
from shared.firestore.writes import Set
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.runtime.capabilities import Capability
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke, parse_arguments
from shared.runtime.messages import CallAnswer, CallRequest, WireError
from shared.runtime.outcome import Outcome
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool
from tests.support.monotonic_clock import MonotonicClock

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


async def read_and_write(_args: In, ctx: Context) -> Out:
    """Read three documents in two round trips, and write one."""
    await asyncio.gather(Chunks(ctx.database).get("a"), Chunks(ctx.database).get("b"))
    await Clusters(ctx.database).get_many(["c"])
    note = Reference("notes", "a")
    await ctx.database.commit([Set(note, {})])
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


def make_failing_tool(error: Exception) -> Tool[In, Out]:
    async def fail(_args: In, _context: Context) -> Out:
        raise error

    return replace(TOOL, run=fail)


def make_request(seconds: float = 60, **arguments: Any) -> CallRequest:
    """Return an anonymous request with a deadline in `seconds`."""
    return CallRequest(
        call_id="call-7", arguments=arguments, caller=Caller(), deadline=time.time() + seconds
    )


async def call_error(tool: Tool[In, Out], request: CallRequest, app: App) -> dict[str, Any]:
    answer = await invoke(tool, request, app)
    assert answer.result is None
    assert answer.error is not None
    return answer.error.model_dump(exclude_none=True)


async def test_a_receipt_counts_documents_and_round_trips(app: App) -> None:
    """It also has the handler's price, in place of the tool's."""

    async def charge(args: In, ctx: Context) -> Outcome[Out]:
        return Outcome(await read_and_write(args, ctx), price=42)

    tool = replace(TOOL, run=charge, price=100, effect=Effect.WRITE)
    receipt = (await invoke(tool, make_request(word="so"), app)).receipt
    assert (receipt.documents_read, receipt.documents_written, receipt.round_trips) == (3, 1, 3)
    assert receipt.price == 42


async def test_a_receipt_has_times_only_of_the_parts_used(app: App) -> None:
    async def embed(_args: In, ctx: Context) -> Out:
        await ctx.embed_query("bread")
        return Out(words=[])

    tool = replace(TOOL, run=embed, capabilities=frozenset({Capability.EMBEDDING}))
    receipt = (await invoke(tool, make_request(word="so"), app)).receipt
    assert receipt.embedding_ms is not None
    assert 0 <= receipt.embedding_ms <= receipt.milliseconds
    assert receipt.bm25_ms is None
    assert receipt.price is None

    receipt = (await invoke(tool, make_request(word="so"), app)).receipt
    assert receipt.embedding_ms is None  # the vector is cached


async def test_several_uses_of_a_part_are_added_up(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first use takes 2 ms, and the second one 3 ms.
    monkeypatch.setattr(time, "perf_counter", iter([1.0, 1.002, 2.0, 2.003]).__next__)
    ctx = app.context(Caller(), Meter())
    for _ in range(2):
        with ctx.timed("bm25"):
            pass
    assert ctx.milliseconds["bm25"] == 2 + 3


@pytest.mark.parametrize(
    ("outcome", "advice"),
    [
        (None, ": continue without it, or call it again in 5 s."),
        ("nothing_done", ". Nothing was stored: call it again in 5 s."),
        ("unknown", ". It is unknown whether it took effect: check before you call it again."),
    ],
)
async def test_a_call_that_times_out_says_what_to_do(
    app: App, monotonic: MonotonicClock, outcome: str | None, advice: str
) -> None:
    """A write may or may not have stored something before."""

    async def hang(args: In, ctx: Context) -> Out:
        if outcome == "unknown":
            await read_and_write(args, ctx)
        monotonic.advance(60)
        await asyncio.Event().wait()
        raise AssertionError

    tool = replace(TOOL, run=hang, effect=Effect.WRITE if outcome else Effect.READ)
    error = await call_error(tool, make_request(word="so"), app)
    assert error["code"] == "UNAVAILABLE"
    assert error["details"] == {"tool": "repeat_word"} | ({"outcome": outcome} if outcome else {})
    # The time is that which was left when the handler began.
    pattern = rf"repeat_word did not finish within (60|5\d\.\d|5\d) s{re.escape(advice)}"
    assert re.fullmatch(pattern, error["message"]), error["message"]
    assert error["retry_after"] == 5


async def test_a_call_past_its_deadline_is_not_run(app: App) -> None:
    error = await call_error(
        replace(TOOL, effect=Effect.WRITE), make_request(-3600, word="so"), app
    )
    assert error["details"] == {"tool": "repeat_word", "outcome": "nothing_done"}
    assert error["message"] == (
        "repeat_word was not run: no time was left. Nothing was stored: call it again in 5 s."
    )


@pytest.mark.requirement("001-L3")
async def test_an_unavailable_read_has_advice(app: App) -> None:
    failure = Unavailable("The oven is off.", details={"oven": "off"}, retry_after=9)
    error = await call_error(make_failing_tool(failure), make_request(word="so"), app)
    assert error["details"] == {"oven": "off"}
    assert error["retry_after"] == 9
    assert error["message"] == (
        "The oven is off. Continue without repeat_word, or call it again in 9 s."
    )


@pytest.mark.parametrize("outcome", ["nothing_done", "unknown"])
async def test_a_write_may_state_its_outcome(app: App, outcome: str) -> None:
    failure = Unavailable("The oven is off.", details={"outcome": outcome})
    tool = replace(make_failing_tool(failure), effect=Effect.WRITE)
    error = await call_error(tool, make_request(word="so"), app)
    assert error["details"] == {"outcome": outcome}
    assert error["retry_after"] == 5


@pytest.mark.requirement("000-E4", "003-L4")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        PlatformFault(SECRET, details={"where": SECRET}),
        TimeoutError(SECRET),  # inside the handler
    ],
)
async def test_a_fault_reveals_only_the_call_id(
    app: App, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    error_body = await call_error(make_failing_tool(error), make_request(word="so"), app)
    assert error_body["code"] == "INTERNAL_ERROR"
    assert error_body["details"] == {"call_id": "call-7"}
    assert "call-7" in error_body["message"]
    assert SECRET not in json.dumps(error_body) + capsys.readouterr().err


@pytest.mark.requirement("001-L1")
async def test_a_fault_is_logged_with_its_stack(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    await call_error(make_failing_tool(RuntimeError(SECRET)), make_request(word="so"), app)
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    [fault] = [entry for entry in entries if entry["message"] == "fault"]
    assert fault["severity"] == "ERROR"
    assert fault["error"] == "RuntimeError"
    assert fault["call_id"] == "call-7"
    assert fault["stack"][-1].endswith(" fail")


@pytest.mark.parametrize(
    "failure",
    [Conflict("It is taken.", details={"word": "taken"}), RateLimited("Wait.", retry_after=9)],
)
async def test_a_failure_is_answered_unchanged(app: App, failure: Conflict) -> None:
    error = await call_error(make_failing_tool(failure), make_request(word="so"), app)
    assert error == failure.to_wire()


@pytest.mark.requirement("003-L3")
async def test_each_invalid_argument_is_reported(app: App) -> None:
    error = await call_error(TOOL, make_request(times=9, wrod="so"), app)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"] == {
        "word": "required, but missing",
        "times": "Input should be less than or equal to 3",
        "wrod": "not a parameter; did you mean word? repeat_word takes word, times, tier",
    }
    assert error["message"].startswith("repeat_word was not run. word: required, but missing; ")


@pytest.mark.requirement("003-L1", "003-L3")
async def test_arguments_are_not_logged(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    await invoke(TOOL, make_request(word=SECRET), app)
    await invoke(TOOL, make_request(times=SECRET, **{SECRET: 1}), app)
    assert SECRET not in capsys.readouterr().err


@pytest.mark.requirement("001-L4")
async def test_a_successful_call_is_not_logged_by_the_function(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await invoke(TOOL, make_request(word="so", times=2), app)
    assert answer.result == {"words": ["so", "so"]}
    assert answer.error is None
    assert answer.receipt.milliseconds > 0
    assert capsys.readouterr().err == ""


def test_an_enum_is_passed_by_its_value() -> None:
    parsed = parse_arguments(In, {"word": "so", "tier": "registered"}, "repeat_word")
    assert parsed == In(word="so", tier=Tier.REGISTERED)


ERROR = WireError(code="NOT_FOUND", message="There is none.", details={})


@pytest.mark.parametrize("parts", [{}, {"result": {}, "error": ERROR}])
def test_an_answer_has_either_a_result_or_an_error(parts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="a result or an error"):
        CallAnswer(**parts)


async def test_only_the_first_problems_are_listed(app: App) -> None:
    unknown_arguments = {f"{number}{'x' * 500}": 0 for number in range(50)}
    error = await call_error(TOOL, make_request(word="so", **unknown_arguments), app)
    assert len(error["details"]) == 20
    assert all(len(name) <= 80 for name in error["details"])
    assert "; and 30 more." in error["message"]
    assert len(error["message"]) < 4_000


async def test_too_many_arguments_are_refused_unread(app: App) -> None:
    many_arguments = {f"k{number}": 0 for number in range(100_000)}
    for arguments in (many_arguments, {"word": many_arguments}, {"word": [many_arguments]}):
        error = await call_error(TOOL, make_request(**arguments), app)
        assert error["details"] == {"arguments": "an object has more than 100 fields"}
