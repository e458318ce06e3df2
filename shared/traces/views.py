"""Views of traces in tool results, and the checks of who may read or change one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from shared.core.errors import Forbidden, NotFound
from shared.runtime.schemas import Result
from shared.traces.repository import Traces
from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.traces.model import Trace
    from shared.traces.repository import StoredTrace


class TraceSummary(Result):
    """A trace and its votes, but not its problem and solution texts."""

    trace_id: str = Field(description="Its id, for get_trace and vote_trace.")
    title: str = Field(description="The problem in one line.")
    tags: list[str] = Field(description="Its tags.")
    status: TraceStatus = Field(
        description="pending: few votes, or voters disagree; validated: voters confirm it; flagged:"
        " voters warn against it; withdrawn: its contributor withdrew it."
    )
    trust: float = Field(
        description="Confidence that the trace is good, judged from its votes: 0 to 1, and 0 if it"
        " has none."
    )
    upvotes: int = Field(description="Number of votes for it.")
    downvotes: int = Field(description="Number of votes against it.")
    date: str = Field(description="When it was contributed or last amended: YYYY-MM-DD, in UTC.")


def format_votes(summary: TraceSummary) -> str:
    """Format the votes, and say so if there are none yet."""
    if not (summary.upvotes or summary.downvotes):
        return "no votes yet"
    return f"{summary.upvotes} up, {summary.downvotes} down"


SummaryT = TypeVar("SummaryT", bound=TraceSummary)


def build_trace_view(view_type: type[SummaryT], trace: Trace, **extra_fields: Any) -> SummaryT:
    """Build a view of a trace, of a type that extends `TraceSummary`."""
    return view_type.of(
        trace,
        title=trace.content.title,
        tags=trace.content.tags,
        trust=round(trace.tally.trust, 2),
        upvotes=trace.tally.upvotes,
        downvotes=trace.tally.downvotes,
        date=f"{trace.updated_at:%Y-%m-%d}",
        **extra_fields,
    )


async def get_readable_trace(trace_id: str, ctx: Context) -> StoredTrace:
    """Load a trace that the caller may read: a withdrawn one only if it is the caller's own.

    One round trip.

    Raises:
        NotFound: The trace does not exist, or another user contributed and withdrew it.
    """
    stored = await Traces(ctx.database).get(trace_id)
    if stored is None or (stored.trace.withdrawn_at and not is_contributor(stored, ctx)):
        raise NotFound(
            f"There is no trace {trace_id!r}, or its contributor withdrew it. Find one with"
            " search_traces and copy its trace_id.",
            details={"trace_id": trace_id},
        )
    return stored


async def get_own_trace(trace_id: str, ctx: Context) -> StoredTrace:
    """Load a trace that the caller contributed. Costs one Firestore round trip.

    Raises:
        NotFound: The trace does not exist, or another user contributed and withdrew it.
        Forbidden: Someone else contributed it.
    """
    stored = await get_readable_trace(trace_id, ctx)
    if not is_contributor(stored, ctx):
        raise Forbidden(
            "Only its contributor can amend or withdraw a trace. Vote on it with vote_trace, or"
            " contribute a better one by calling contribute_trace with its id as supersedes.",
            details={"trace_id": trace_id},
        )
    return stored


def is_contributor(stored: StoredTrace, ctx: Context) -> bool:
    """Return whether the caller contributed the trace."""
    return stored.trace.contributor == ctx.caller.user_id
