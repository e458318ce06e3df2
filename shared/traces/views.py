"""Traces as tools show them, and those that a caller may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from shared.core.errors import Forbidden, NotFound
from shared.runtime.schemas import Result
from shared.traces.repository import Traces
from shared.traces.trust import Status

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.traces.model import Trace
    from shared.traces.repository import StoredTrace


class Standing(Result):
    """A trace, and what others think of it."""

    trace_id: str = Field(description="Its id, for get_trace and vote_trace.")
    title: str = Field(description="What it is about.")
    tags: list[str] = Field(description="Its tags.")
    status: Status = Field(
        description="pending: few votes, or voters disagree; validated: voters are for it; flagged:"
        " voters warn of it; withdrawn: its contributor took it back."
    )
    trust: float = Field(
        description="How sure it is that voters are for it, 0 to 1; 0 while there are no votes."
    )
    upvotes: int = Field(description="Votes for it.")
    downvotes: int = Field(description="Votes against it.")
    date: str = Field(description="When it was contributed, or last amended: YYYY-MM-DD, in UTC.")


def votes_in_words(standing: Standing) -> str:
    """The votes, for who reads: no votes are not the same as no trust."""
    if not (standing.upvotes or standing.downvotes):
        return "no votes yet"
    return f"{standing.upvotes} up, {standing.downvotes} down"


StandingT = TypeVar("StandingT", bound=Standing)


def trace_view(kind: type[StandingT], trace: Trace, **given: Any) -> StandingT:
    """Show a trace, and what others think of it."""
    return kind.of(
        trace,
        title=trace.writing.title,
        tags=trace.writing.tags,
        trust=round(trace.tally.trust, 2),
        upvotes=trace.tally.upvotes,
        downvotes=trace.tally.downvotes,
        date=f"{trace.updated_at:%Y-%m-%d}",
        **given,
    )


async def readable(trace_id: str, ctx: Context) -> StoredTrace:
    """The trace, unless it was withdrawn: then its contributor alone still reads it.

    One round trip.

    Raises:
        NotFound: There is none, or no more.
    """
    stored = await Traces(ctx.database).get(trace_id)
    if stored is None or (stored.trace.withdrawn_at and not is_own(stored, ctx)):
        raise NotFound(
            f"There is no trace {trace_id!r}, or its contributor withdrew it. Search with"
            " search_traces, and copy the trace_id from there.",
            details={"trace_id": trace_id},
        )
    return stored


async def own(trace_id: str, ctx: Context) -> StoredTrace:
    """The trace, if the caller contributed it. One round trip.

    Raises:
        NotFound: There is none, or no more.
        Forbidden: It is somebody else's.
    """
    stored = await readable(trace_id, ctx)
    if not is_own(stored, ctx):
        raise Forbidden(
            "Only who contributed this trace may amend or withdraw it. Vote on it with vote_trace,"
            " or contribute a better one with contribute_trace and supersedes.",
            details={"trace_id": trace_id},
        )
    return stored


def is_own(stored: StoredTrace, ctx: Context) -> bool:
    """Whether the caller contributed it."""
    return stored.trace.contributor == ctx.caller.user_id
