"""What callers are told when a tool could not do its work."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from shared.core.caller import Caller
from shared.runtime.messages import CallRequest
from shared.runtime.outage_advice import WriteState, outage_error
from shared.runtime.tool import Effect


class Called(NamedTuple):
    """A tool, as far as it matters."""

    name: str
    effect: Effect
    idempotent: bool = False


def told(effect: Effect, outcome: WriteState, **arguments: Any) -> dict[str, Any]:
    """The error for a tool that could not be reached."""
    request = CallRequest(call_id="c-1", arguments=arguments, caller=Caller(), deadline=0)
    problem = "add_note is temporarily unreachable"
    return outage_error(Called("add_note", effect), request, problem, outcome, 7.2).to_wire()


@pytest.mark.parametrize("outcome", WriteState)
def test_a_read_is_let_go_of_or_called_again(outcome: WriteState) -> None:
    assert told(Effect.READ, outcome) == {
        "code": "UNAVAILABLE",
        "message": "add_note is temporarily unreachable: go on without it, or call it again in"
        " 8 s.",
        "details": {"tool": "add_note"},
        "retry_after": 7.2,
    }


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.DESTROY])
def test_a_write_that_never_began_is_called_again(effect: Effect) -> None:
    error = told(effect, WriteState.NOTHING_DONE, idempotency_key="k")
    assert {"tool": "add_note", "outcome": "nothing_done"} == error["details"]
    assert error["message"] == (
        "add_note is temporarily unreachable. Nothing was stored: call it again in 8 s."
    )


@pytest.mark.parametrize("arguments", [{}, {"idempotency_key": None}])
def test_a_write_of_which_nothing_is_known_is_looked_after(arguments: dict[str, Any]) -> None:
    error = told(Effect.WRITE, WriteState.UNKNOWN, **arguments)
    assert {"tool": "add_note", "outcome": "unknown"} == error["details"]
    assert error["message"] == (
        "add_note is temporarily unreachable. Whether it did anything is unknown: look before you"
        " call it again."
    )


def test_a_write_that_can_be_sent_again_safely_may_be() -> None:
    assert told(Effect.WRITE, WriteState.UNKNOWN, idempotency_key="k")["message"] == (
        "add_note is temporarily unreachable. Whether it did anything is unknown: look first, or"
        " send the same call again with the same idempotency_key."
    )


def test_a_write_that_does_nothing_twice_is_called_again() -> None:
    request = CallRequest(call_id="c-1", arguments={}, caller=Caller(), deadline=0)
    tool = Called("keep_note", Effect.WRITE, idempotent=True)
    error = outage_error(
        tool, request, "keep_note is unreachable", WriteState.UNKNOWN, 7.2
    ).to_wire()
    assert error == {
        "code": "UNAVAILABLE",
        "message": "keep_note is unreachable. Call it again in 8 s, and it goes on where it"
        " stopped.",
        "details": {"tool": "keep_note"},
        "retry_after": 7.2,
    }
