"""The error for an unavailable tool says whether the caller may call it again."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from shared.core.caller import Caller
from shared.runtime.messages import CallRequest
from shared.runtime.outage_advice import WriteState, make_outage_error
from shared.runtime.tool import Effect


class FakeTool(NamedTuple):
    """The attributes of a tool that determine the advice."""

    name: str
    effect: Effect
    idempotent: bool = False


def make_error(effect: Effect, write_state: WriteState, **arguments: Any) -> dict[str, Any]:
    """Return the error for a tool that could not be reached."""
    request = CallRequest(call_id="c-1", arguments=arguments, caller=Caller(), deadline=0)
    problem = "add_note is temporarily unreachable"
    return make_outage_error(
        FakeTool("add_note", effect), request, problem, write_state, 7.2
    ).to_wire()


@pytest.mark.parametrize("write_state", WriteState)
def test_a_failed_read_may_be_skipped_or_repeated(write_state: WriteState) -> None:
    assert make_error(Effect.READ, write_state) == {
        "code": "UNAVAILABLE",
        "message": "add_note is temporarily unreachable: continue without it, or call it again in"
        " 8 s.",
        "details": {"tool": "add_note"},
        "retry_after": 7.2,
    }


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.DESTROY])
def test_a_write_that_never_began_may_be_repeated(effect: Effect) -> None:
    error = make_error(effect, WriteState.NOTHING_DONE, idempotency_key="k")
    assert error["details"] == {"tool": "add_note", "outcome": "nothing_done"}
    assert error["message"] == (
        "add_note is temporarily unreachable. Nothing was stored: call it again in 8 s."
    )


@pytest.mark.parametrize("arguments", [{}, {"idempotency_key": None}])
def test_a_write_with_an_unknown_outcome_must_be_checked(arguments: dict[str, Any]) -> None:
    error = make_error(Effect.WRITE, WriteState.UNKNOWN, **arguments)
    assert error["details"] == {"tool": "add_note", "outcome": "unknown"}
    assert error["message"] == (
        "add_note is temporarily unreachable. It is unknown whether it took effect: check before"
        " you call it again."
    )


def test_a_write_with_a_key_may_be_sent_again() -> None:
    assert make_error(Effect.WRITE, WriteState.UNKNOWN, idempotency_key="k")["message"] == (
        "add_note is temporarily unreachable. It is unknown whether it took effect: check, or"
        " send the same call again with the same idempotency_key."
    )


def test_an_idempotent_write_may_be_repeated() -> None:
    request = CallRequest(call_id="c-1", arguments={}, caller=Caller(), deadline=0)
    tool = FakeTool("keep_note", Effect.WRITE, idempotent=True)
    error = make_outage_error(
        tool, request, "keep_note is unreachable", WriteState.UNKNOWN, 7.2
    ).to_wire()

    assert error == {
        "code": "UNAVAILABLE",
        "message": "keep_note is unreachable. Call it again in 8 s: what is done stays done.",
        "details": {"tool": "keep_note"},
        "retry_after": 7.2,
    }
