"""Views of traces in tool results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from shared.core.dates import format_day
from shared.runtime.schemas import Result
from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from datetime import tzinfo

    from shared.traces.model import Trace


class TraceSummary(Result):
    """A trace and its votes, without the texts of its problem and solution."""

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
    date: str = Field(description="When it was contributed or last amended: YYYY-MM-DD.")


def format_votes(summary: TraceSummary) -> str:
    """Format the numbers of votes for people, such as `3 up, 1 down`."""
    if not (summary.upvotes or summary.downvotes):
        return "no votes yet"
    return f"{summary.upvotes} up, {summary.downvotes} down"


SummaryT = TypeVar("SummaryT", bound=TraceSummary)


def build_trace_view(
    view_type: type[SummaryT], trace: Trace, zone: tzinfo, **extra_fields: Any
) -> SummaryT:
    """Build a view of a trace."""
    return view_type.of(
        trace,
        title=trace.content.title,
        tags=trace.content.tags,
        trust=round(trace.tally.trust, 2),
        upvotes=trace.tally.upvotes,
        downvotes=trace.tally.downvotes,
        date=format_day(trace.updated_at, zone),
        **extra_fields,
    )
