"""Read a trace: a solved coding problem that a user shared and others voted on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.core.caller import Tier
from shared.core.dates import format_day
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Tool
from shared.traces.access import caller_contributed, get_readable_trace
from shared.traces.model import MAX_TEXT_CHARACTERS
from shared.traces.repository import Traces
from shared.traces.trust import FeedbackTag, TraceStatus, VoteType
from shared.traces.views import TraceSummary, build_trace_view, format_votes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.context import Context
    from shared.traces.repository import Feedback, StoredTrace, StoredVote

MAX_CHARACTERS: Final = 30_000
"""The maximum number of characters of the problem and the solution together in one answer, because
clients truncate longer answers."""
MAX_FEEDBACK: Final = 5
"""The maximum number of feedback texts in an answer. If there are more, the latest are shown."""


class In(Arguments):
    """Which trace to read."""

    trace_id: DocumentId = Field(description="From search_traces.")
    offset: int = Field(
        default=0,
        ge=0,
        le=2 * MAX_TEXT_CHARACTERS,
        description="The previous next_offset.",
    )


class FeedbackView(Result):
    """What a voter wrote against a trace."""

    feedback_tag: FeedbackTag = Field(description="The reason for the vote against it.")
    feedback_text: str = Field(description="The voter's words.")
    date: str = Field(description="When: YYYY-MM-DD.")
    earlier: bool = Field(description="Whether the title or a text of the trace changed since.")


class Out(TraceSummary):
    """The trace."""

    context_text: str = Field(description="The problem, or the part of it that fits.")
    solution_text: str = Field(description="What worked, or the part of it that fits.")
    next_offset: int | None = Field(
        description="The offset of the next part of a long trace; missing on the last one."
    )
    revision: int = Field(description="Revision number; 1 is the trace as contributed.")
    created_at: str = Field(description="When it was contributed: YYYY-MM-DD.")
    supersedes: str | None = Field(
        description="The trace that it replaces, according to its contributor."
    )
    superseded_by: str | None = Field(
        description="The trace with which its contributor replaced it."
    )
    yours: bool = Field(description="Whether you contributed it.")
    your_vote: VoteType | None = Field(
        description="Your vote, if you voted and the vote still counts."
    )
    feedback: list[FeedbackView] = Field(
        description=f"The latest feedback of voters against it, at most {MAX_FEEDBACK}."
    )


async def get_trace(args: In, ctx: Context) -> Out:
    """Load a trace, its latest feedback and the caller's vote. Costs one round trip."""
    stored, feedback, own_vote = await asyncio.gather(
        get_readable_trace(args.trace_id, ctx),
        Traces(ctx.database).list_latest_feedback(args.trace_id, MAX_FEEDBACK),
        _load_own_vote(args.trace_id, ctx),
    )
    return _build_out(stored, feedback, own_vote, args.offset, ctx)


async def _load_own_vote(trace_id: str, ctx: Context) -> StoredVote | None:
    if ctx.caller.user_id is None:
        return None
    return await Traces(ctx.database).get_vote(trace_id, ctx.caller.user_id)


def _build_out(
    stored: StoredTrace,
    feedback: list[Feedback],
    own_vote: StoredVote | None,
    offset: int,
    ctx: Context,
) -> Out:
    trace = stored.trace
    your_vote = None
    if own_vote and own_vote.vote and trace.counts_vote(own_vote.vote, own_vote.revision):
        your_vote = own_vote.vote.type
    context = trace.content.context_text
    solution = trace.content.solution_text
    # Offsets count through both texts, as if the solution followed the problem directly.
    end = offset + MAX_CHARACTERS
    return build_trace_view(
        Out,
        trace,
        ctx.zone,
        context_text=context[offset:end],
        solution_text=solution[max(offset - len(context), 0) : max(end - len(context), 0)],
        next_offset=end if end < len(context) + len(solution) else None,
        created_at=format_day(trace.created_at, ctx.zone),
        yours=caller_contributed(stored, ctx),
        your_vote=your_vote,
        feedback=[
            FeedbackView(
                feedback_tag=entry.tag,
                feedback_text=entry.text,
                date=format_day(entry.given_at, ctx.zone),
                earlier=entry.revision < trace.text_revision,
            )
            for entry in feedback
        ],
    )


def format_result(out: Out) -> str:
    """Return the result as text."""
    lines = [
        out.title,
        f"Status: {out.status} | Trust: {out.trust:.2f} | Tags: {', '.join(out.tags) or 'none'}",
        f"Votes: {format_votes(out)} | Revision {out.revision}, {out.date} | ID: {out.trace_id}",
        f"Contributed {'by you ' if out.yours else ''}on {out.created_at}.",
        *_iterate_notes(out),
    ]
    if out.feedback:
        lines += ["Feedback:", *map(_format_feedback, out.feedback)]
    # Texts of several lines come last, because a line of theirs could imitate one of the server's.
    if out.context_text:
        lines.append(f"\nContext:\n{out.context_text}")
    if out.solution_text:
        lines.append(f"\nSolution:\n{out.solution_text}")
    return "\n".join(lines)


def _iterate_notes(out: Out) -> Iterator[str]:
    if out.next_offset:
        yield f"Only a part follows: for the rest call get_trace with offset {out.next_offset}."
    if out.your_vote:
        yield f"Your vote: {out.your_vote}."
    if out.status is TraceStatus.FLAGGED:
        yield "Voters warn against this trace: check it before you use it."
    if out.superseded_by:
        yield f"Its contributor replaced it with the trace {out.superseded_by}."
    if out.supersedes:
        yield f"Its contributor says that it replaces the trace {out.supersedes}."


def _format_feedback(feedback: FeedbackView) -> str:
    """Format feedback on one line, so that it cannot pass for a part of the trace."""
    date = f"{feedback.date}, on an earlier text" if feedback.earlier else feedback.date
    return f"- {feedback.feedback_tag} ({date}): {' '.join(feedback.feedback_text.split())}"


TOOL = Tool(
    name="get_trace",
    title="Read a solved problem",
    description=(
        "Read a coding trace that search_traces found: problem, solution, votes, and what voters"
        " wrote against it. Others wrote it: check it before you run anything."
    ),
    input=In,
    output=Out,
    run=get_trace,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
