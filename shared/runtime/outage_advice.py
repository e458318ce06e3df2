"""Errors for tools that are down or too slow, with advice on how to continue.

A read can be skipped or repeated, and an idempotent write repeated. For any other write, the caller
must know whether it took effect, which `details` also tells programs: `nothing_done` or `unknown`.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from shared.core.errors import Unavailable
from shared.runtime.schemas import IDEMPOTENCY_KEY
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from shared.runtime.messages import CallRequest

RETRY_AFTER: Final = 5.0
"""Seconds to wait before the next call, which is enough for a new instance to start."""


class WriteState(StrEnum):
    """Whether a call that failed has written."""

    NOTHING_DONE = "nothing_done"
    UNKNOWN = "unknown"


class CalledTool(Protocol):
    """The attributes of a tool that decide on the advice."""

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def effect(self) -> Effect:
        """The effect of the tool on data."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether a failed call may be sent again although the tool writes."""
        ...


def outage_error(
    tool: CalledTool,
    request: CallRequest,
    problem: str,
    outcome: WriteState,
    retry_after: float = RETRY_AFTER,
) -> Unavailable:
    """Make the error for a tool that could not be reached, or ran out of time.

    Args:
        tool: The tool.
        request: The call.
        problem: The problem, without a full stop: `get_chunk is temporarily unreachable`.
        outcome: Whether the call has written.
        retry_after: Seconds to wait before the next call.
    """
    reads = tool.effect is Effect.READ
    advice = _advice(tool, request, outcome, retry_after)
    message = f"{problem}: {advice}" if reads else f"{problem}. {_sentence(advice)}"
    return _unavailable(tool, message, outcome, {"tool": tool.name}, retry_after)


def with_advice(
    tool: CalledTool, request: CallRequest, error: Unavailable, outcome: WriteState
) -> Unavailable:
    """Add advice to an error that a tool raised. Its `details` may state the outcome."""
    outcome = WriteState(error.details.get("outcome", outcome))
    retry_after = error.retry_after or RETRY_AFTER
    advice = _sentence(_advice(tool, request, outcome, retry_after, name=tool.name))
    message = f"{error.message} {advice}"
    return _unavailable(tool, message, outcome, error.details, retry_after)


def _advice(
    tool: CalledTool,
    request: CallRequest,
    outcome: WriteState,
    retry_after: float,
    name: str = "it",
) -> str:
    retry_advice = f"call it again in {math.ceil(retry_after)} s."
    if tool.effect is Effect.READ:
        return f"go on without {name}, or {retry_advice}"
    if tool.idempotent:
        return f"call it again in {math.ceil(retry_after)} s: it continues where it stopped."
    if outcome is WriteState.NOTHING_DONE:
        return f"nothing was stored: {retry_advice}"
    if request.arguments.get(IDEMPOTENCY_KEY) is None:
        return f"it is unknown whether {name} took effect: check before you call it again."
    replay_advice = f"send the same call again with the same {IDEMPOTENCY_KEY}"
    return f"it is unknown whether {name} took effect: check, or {replay_advice}."


def _unavailable(
    tool: CalledTool, message: str, outcome: WriteState, details: dict[str, Any], retry_after: float
) -> Unavailable:
    repeatable = tool.idempotent or tool.effect is Effect.READ
    extra = {} if repeatable else {"outcome": outcome.value}
    return Unavailable(message, details=details | extra, retry_after=retry_after)


def _sentence(advice: str) -> str:
    return advice[0].upper() + advice[1:]
