"""What several tools say of a trace, in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from shared.domain.trust import Status
from shared.runtime.tool import Result

if TYPE_CHECKING:
    from shared.domain.trace import Trace


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


def standing_fields(trace: Trace) -> dict[str, Any]:
    """What `Standing` says of a trace."""
    return {
        "trace_id": trace.trace_id,
        "title": trace.writing.title,
        "tags": list(trace.writing.tags),
        "status": trace.status,
        "trust": round(trace.tally.trust, 2),
        "upvotes": trace.tally.upvotes,
        "downvotes": trace.tally.downvotes,
        "date": f"{trace.updated_at:%Y-%m-%d}",
    }
