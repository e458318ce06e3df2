"""What a caller is told when a tool could not do its work: how to go on without it.

A read is let go of, or called again; a write that does nothing twice is called again too. Of any
other write one must know what became of it, which `details` says to programs too: `nothing_done` or
`unknown`.
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
"""Seconds after which calling again makes sense: an instance of a function starts in less."""


class WriteState(StrEnum):
    """What became of a call that was not answered as it should have been."""

    NOTHING_DONE = "nothing_done"
    UNKNOWN = "unknown"


class CalledTool(Protocol):
    """A tool, as far as it matters here."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def effect(self) -> Effect:
        """What it does to data."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether a call that failed may simply be sent again, though it writes."""
        ...


def outage_error(
    tool: CalledTool,
    request: CallRequest,
    problem: str,
    outcome: WriteState,
    retry_after: float = RETRY_AFTER,
) -> Unavailable:
    """The error for a tool that could not be reached, or had no time.

    Args:
        tool: The tool.
        request: The call.
        problem: What is wrong, without a full stop: `get_chunk is temporarily unreachable`.
        outcome: What became of the call.
        retry_after: Seconds until another call makes sense.
    """
    reads = tool.effect is Effect.READ
    advice = _advice(tool, request, outcome, retry_after)
    message = f"{problem}: {advice}" if reads else f"{problem}. {_sentence(advice)}"
    return _unavailable(tool, message, outcome, {"tool": tool.name}, retry_after)


def with_advice(
    tool: CalledTool, request: CallRequest, error: Unavailable, outcome: WriteState
) -> Unavailable:
    """What a tool itself raised, with how to go on. It may know better, in `details`."""
    outcome = WriteState(error.details.get("outcome", outcome))
    retry_after = error.retry_after or RETRY_AFTER
    advice = _sentence(_advice(tool, request, outcome, retry_after, it=tool.name))
    message = f"{error.message} {advice}"
    return _unavailable(tool, message, outcome, error.details, retry_after)


def _advice(
    tool: CalledTool, request: CallRequest, outcome: WriteState, retry_after: float, it: str = "it"
) -> str:
    again = f"call it again in {math.ceil(retry_after)} s."
    if tool.effect is Effect.READ:
        return f"go on without {it}, or {again}"
    if tool.idempotent:
        return f"call it again in {math.ceil(retry_after)} s, and it goes on where it stopped."
    if outcome is WriteState.NOTHING_DONE:
        return f"nothing was stored: {again}"
    if request.arguments.get(IDEMPOTENCY_KEY) is None:
        return f"whether {it} did anything is unknown: look before you call it again."
    same = f"send the same call again with the same {IDEMPOTENCY_KEY}"
    return f"whether {it} did anything is unknown: look first, or {same}."


def _unavailable(
    tool: CalledTool, message: str, outcome: WriteState, details: dict[str, Any], retry_after: float
) -> Unavailable:
    told = {} if _may_be_repeated(tool) else {"outcome": outcome.value}
    return Unavailable(message, details=details | told, retry_after=retry_after)


def _may_be_repeated(tool: CalledTool) -> bool:
    return tool.idempotent or tool.effect is Effect.READ


def _sentence(advice: str) -> str:
    return advice[0].upper() + advice[1:]
