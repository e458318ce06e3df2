"""The error for an unavailable tool says whether the caller may call it again."""

from typing import Any, NamedTuple

import pytest

from shared.core.caller import Caller
from shared.runtime.messages import CallRequest
from shared.runtime.outage_advice import WriteState, make_outage_error
from shared.runtime.tool import Effect

NOTHING_DONE = ". Nothing was stored: call it again in 8 s."
UNKNOWN = ". It is unknown whether it took effect: check"


class FakeTool(NamedTuple):
    """The attributes of a tool that determine the advice."""

    name: str
    effect: Effect
    idempotent: bool = False


def make_error(tool: FakeTool, state: WriteState, **arguments: Any) -> dict[str, Any]:
    """Return the error for a tool that could not be reached."""
    request = CallRequest(call_id="c-1", arguments=arguments, caller=Caller(), deadline=0)
    return make_outage_error(tool, request, f"{tool.name} is unreachable", state, 7.2).to_wire()


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.DESTROY])
@pytest.mark.parametrize(
    ("arguments", "state", "outcome", "advice"),
    [
        ({"idempotency_key": "k"}, WriteState.NOTHING_DONE, "nothing_done", NOTHING_DONE),
        ({}, WriteState.NOTHING_DONE, "nothing_done", NOTHING_DONE),
        ({}, WriteState.UNKNOWN, "unknown", f"{UNKNOWN} before you call it again."),
        (
            {"idempotency_key": None},
            WriteState.UNKNOWN,
            "unknown",
            f"{UNKNOWN} before you call it again.",
        ),
        (
            {"idempotency_key": "k"},
            WriteState.UNKNOWN,
            "unknown",
            f"{UNKNOWN}, or send the same call again with the same idempotency_key.",
        ),
    ],
)
def test_a_write_may_be_repeated_if_that_is_safe(
    effect: Effect, arguments: dict[str, Any], state: WriteState, outcome: str, advice: str
) -> None:
    assert make_error(FakeTool("add_note", effect), state, **arguments) == {
        "code": "UNAVAILABLE",
        "message": f"add_note is unreachable{advice}",
        "details": {"tool": "add_note", "outcome": outcome},
        "retry_after": 7.2,
    }


@pytest.mark.parametrize("state", WriteState)
@pytest.mark.parametrize(
    ("tool", "advice"),
    [
        (FakeTool("n", Effect.READ), ": continue without it, or call it again in 8 s."),
        (
            FakeTool("n", Effect.WRITE, idempotent=True),
            ". Call it again in 8 s: what is done stays done.",
        ),
    ],
)
def test_a_read_or_an_idempotent_write_may_always_be_repeated(
    tool: FakeTool, advice: str, state: WriteState
) -> None:
    assert make_error(tool, state) == {
        "code": "UNAVAILABLE",
        "message": f"n is unreachable{advice}",
        "details": {"tool": "n"},
        "retry_after": 7.2,
    }
