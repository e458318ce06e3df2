"""Errors for tools that are down or too slow, with advice on how to continue.

The caller can skip or repeat a read, and repeat an idempotent write. Before repeating any other
write, the caller must know whether the first call took effect. The message says what is known in
words, and `details.outcome` in a code for programs: `nothing_done` or `unknown`.
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

RETRY_AFTER_SECONDS: Final = 5.0
"""The default time to wait before the next call, in which a new instance starts."""


class WriteState(StrEnum):
    """What is known about the effect of a failed call."""

    NOTHING_DONE = "nothing_done"
    UNKNOWN = "unknown"


class CalledTool(Protocol):
    """The attributes of a tool that determine the advice."""

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
        """Whether a failed call may be repeated although the tool writes."""
        ...


def make_outage_error(
    tool: CalledTool,
    request: CallRequest,
    problem: str,
    write_state: WriteState,
    retry_after: float = RETRY_AFTER_SECONDS,
) -> Unavailable:
    """Make the error for a tool that could not be reached, or ran out of time.

    Args:
        request: The failed call, which is safe to repeat if it has an idempotency key.
        problem: The problem, without a full stop: `get_chunk is temporarily unreachable`.
        write_state: What is known about the call's effect.
        retry_after: Seconds to wait before the next call.
    """
    is_read = tool.effect is Effect.READ
    advice = _make_advice(tool, request, write_state, retry_after)
    message = f"{problem}: {advice}" if is_read else f"{problem}. {_capitalize_first(advice)}"
    return _make_unavailable(tool, message, write_state, {"tool": tool.name}, retry_after)


def add_advice(
    tool: CalledTool, request: CallRequest, error: Unavailable, write_state: WriteState
) -> Unavailable:
    """Return a tool's error with advice added to its message.

    An outcome in the error's `details` takes precedence over `write_state`.
    """
    write_state = WriteState(error.details.get("outcome", write_state))
    retry_after = error.retry_after or RETRY_AFTER_SECONDS
    advice = _make_advice(tool, request, write_state, retry_after, subject=tool.name)
    message = f"{error.message} {_capitalize_first(advice)}"
    return _make_unavailable(tool, message, write_state, error.details, retry_after)


def _make_advice(
    tool: CalledTool,
    request: CallRequest,
    write_state: WriteState,
    retry_after: float,
    subject: str = "it",
) -> str:
    """Return the advice as a sentence that starts in lower case.

    `subject` is the tool's name, or "it" if the sentence before names the tool.
    """
    retry_advice = f"call it again in {math.ceil(retry_after)} s"
    if tool.effect is Effect.READ:
        return f"continue without {subject}, or {retry_advice}."
    if tool.idempotent:
        return f"{retry_advice}: what is done stays done."
    if write_state is WriteState.NOTHING_DONE:
        return f"nothing was stored: {retry_advice}."
    if request.arguments.get(IDEMPOTENCY_KEY) is None:
        return f"it is unknown whether {subject} took effect: check before you call it again."
    replay_advice = f"send the same call again with the same {IDEMPOTENCY_KEY}"
    return f"it is unknown whether {subject} took effect: check, or {replay_advice}."


def _make_unavailable(
    tool: CalledTool,
    message: str,
    write_state: WriteState,
    details: dict[str, Any],
    retry_after: float,
) -> Unavailable:
    """Make the error. Calls that are safe to repeat need no outcome in `details`."""
    is_repeatable = tool.idempotent or tool.effect is Effect.READ
    outcome = {} if is_repeatable else {"outcome": write_state.value}
    return Unavailable(message, details=details | outcome, retry_after=retry_after)


def _capitalize_first(sentence: str) -> str:
    """Capitalize the first letter of a sentence, without changing the other letters."""
    return sentence[0].upper() + sentence[1:]
