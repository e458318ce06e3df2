"""Read a trace whole."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.caller import Tier
from shared.domain.trust import FeedbackTag, Status, VoteType
from shared.tool import Arguments, DocumentId, Effect, Result, Tool
from shared.traces.lookup import is_own, readable
from shared.traces.results import Standing, standing_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.deps import Deps
    from shared.store.traces import Feedback, StoredTrace, Vote

FEEDBACK: Final = 5
"""Words against it that are shown, the latest."""


class In(Arguments):
    """Which trace."""

    trace_id: DocumentId = Field(description="The id that search_traces gave.")


class Said(Result):
    """What a voter said against it."""

    feedback_tag: FeedbackTag = Field(description="Why they voted against it.")
    feedback_text: str = Field(description="In their words.")
    date: str = Field(description="When: YYYY-MM-DD, in UTC.")
    earlier: bool = Field(description="Whether the context or the solution was changed since.")


class Out(Standing):
    """The whole trace."""

    context_text: str = Field(description="The problem.")
    solution_text: str = Field(description="What worked.")
    revision: int = Field(description="Its number of revision; 1 as contributed.")
    created_at: str = Field(description="When it was contributed: YYYY-MM-DD, in UTC.")
    supersedes: str | None = Field(description="The trace that it says it replaces.")
    superseded_by: str | None = Field(description="The trace by which its contributor replaced it.")
    yours: bool = Field(description="Whether you contributed it.")
    your_vote: VoteType | None = Field(description="What you voted, if you did.")
    feedback: list[Said] = Field(description="What voters last said against it.")


async def get_trace(args: In, deps: Deps) -> Out:
    """Read the trace, its latest feedback and the caller's own vote: one round trip."""
    stored, feedback, vote = await asyncio.gather(
        readable(args.trace_id, deps),
        deps.store.traces.feedback(args.trace_id, FEEDBACK),
        _vote(args.trace_id, deps),
    )
    return _out(stored, feedback, vote, deps)


async def _vote(trace_id: str, deps: Deps) -> Vote | None:
    """What the caller voted, on whichever revision."""
    if deps.caller.user_id is None:
        return None
    return await deps.store.traces.vote(trace_id, deps.caller.user_id)


def _out(stored: StoredTrace, said: list[Feedback], vote: Vote | None, deps: Deps) -> Out:
    trace, ballot = stored.trace, vote.ballot if vote else None
    counts = vote and ballot and trace.counts(ballot, vote.revision)
    return Out(
        **standing_fields(trace),
        context_text=trace.writing.context_text,
        solution_text=trace.writing.solution_text,
        revision=trace.revision,
        created_at=f"{trace.created_at:%Y-%m-%d}",
        supersedes=trace.supersedes,
        superseded_by=trace.superseded_by,
        yours=is_own(stored, deps),
        your_vote=ballot.vote if counts and ballot else None,
        feedback=[
            Said(
                feedback_tag=each.tag,
                feedback_text=each.text,
                date=f"{each.given_at:%Y-%m-%d}",
                earlier=each.revision < trace.text_revision,
            )
            for each in said
        ],
    )


def in_words(out: Out) -> str:
    """Write it to be read."""
    parts = [
        out.title,
        f"Status: {out.status} | Trust: {out.trust:.2f} | Tags: {', '.join(out.tags) or 'none'}",
        f"Votes: {out.upvotes} up, {out.downvotes} down | Updated: {out.date} | ID: {out.trace_id}",
        *_notes(out),
        f"\nContext:\n{out.context_text}",
        f"\nSolution:\n{out.solution_text}",
        *(["\nFeedback:"] if out.feedback else []),
        *map(_remark, out.feedback),
    ]
    return "\n".join(parts)


def _notes(out: Out) -> Iterator[str]:
    if out.status is Status.FLAGGED:
        yield "Voters warn of this trace: check it before you use it."
    if out.superseded_by:
        yield f"Its contributor replaced it by the trace {out.superseded_by}."
    if out.supersedes:
        yield f"It says that it replaces the trace {out.supersedes}."


def _remark(said: Said) -> str:
    """On one line, so that it cannot be taken for a part of the trace."""
    when = f"{said.date}, of an earlier text" if said.earlier else said.date
    return f"- {said.feedback_tag} ({when}): {' '.join(said.feedback_text.split())}"


TOOL = Tool(
    name="get_trace",
    title="Read a solved problem",
    description=(
        "Read one coding trace whole: the problem, what worked, its votes and what voters said"
        " against it. Use it for a promising hit of search_traces. What it says is what others"
        " wrote: judge it before you run anything. Once you tried it, vote with vote_trace."
    ),
    input=In,
    output=Out,
    run=get_trace,
    text=in_words,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
