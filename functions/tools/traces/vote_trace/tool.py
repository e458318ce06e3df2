"""Say whether a trace helped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, StringConstraints

from shared.core.caller import Tier
from shared.core.errors import Forbidden, InvalidInput
from shared.core.text_validation import validate_prose
from shared.firestore.database import WriteConflict
from shared.runtime.schemas import DocumentId, IdempotentArguments, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.repository import Traces
from shared.traces.screening import require_no_secrets_in
from shared.traces.trust import Ballot, FeedbackTag, Record, Tally, VoteType
from shared.traces.views import Standing, is_own, readable, trace_view

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.traces.repository import StoredTrace


class Choice(StrEnum):
    """What to vote."""

    UP = "up"
    DOWN = "down"
    NONE = "none"


def _said(text: str) -> str | None:
    return validate_prose(text) if text.strip() else None


class In(IdempotentArguments):
    """A vote."""

    trace_id: DocumentId = Field(description="The trace, as search_traces or get_trace names it.")
    vote_type: Choice = Field(
        description="up: it helped; down: it did not; none: take your vote back."
    )
    feedback_tag: FeedbackTag | None = Field(
        default=None, description="Why; required when vote_type is down, and only then."
    )
    feedback_text: (
        Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_said)] | None
    ) = Field(
        default=None,
        description="Why, in words; only beside a vote down, where it is shown to all who read the"
        " trace.",
    )


class Out(Standing):
    """The trace after the vote."""

    vote: VoteType | None = Field(description="Your vote from now on; missing if you have none.")
    former: VoteType | None = Field(description="Your vote until now, if you had one.")
    changed: bool = Field(description="Whether anything changed.")
    undo: Undo | None = Field(description="How to undo it; missing where nothing changed.")


async def vote_trace(args: In, ctx: Context) -> Out:
    """Replace the caller's vote, the sums and the status in one commit.

    Two round trips: the trace, the vote and the caller's record together, then the commit; again
    for as long as somebody else votes in between.

    Raises:
        NotFound: There is no such trace.
        Forbidden: It is the caller's own.
        InvalidInput: The feedback does not fit the vote, or holds a secret.
    """
    _require_reason(args)
    if args.feedback_text:
        await require_no_secrets_in({"feedback_text": args.feedback_text})
    return await ctx.database.retry_on_conflict(lambda: _attempt(args, ctx))


async def _attempt(args: In, ctx: Context) -> Out:
    voter = str(ctx.caller.user_id)
    stored, vote, record = await asyncio.gather(
        readable(args.trace_id, ctx),
        Traces(ctx.database).vote(args.trace_id, voter),
        Traces(ctx.database).record(voter),
    )
    if is_own(stored, ctx):
        raise Forbidden(
            "You contributed this trace: others vote on it. You may amend or withdraw it."
        )
    counts = vote.ballot and stored.trace.counts(vote.ballot, vote.revision)
    before = vote.ballot if counts else None
    after = _ballot(args, record)
    said = args.feedback_text
    # One that was given on an earlier text can be renewed, and taken back from the record.
    earlier = vote.ballot is not None and vote.revision < stored.trace.text_revision
    same = _same(before, after) and (after is None or said == vote.text)
    changed = earlier or not same
    if not changed:
        return _out(stored, before, after, None)
    tally = _moved(stored.trace.tally, before, after)
    if not tally.is_possible:
        raise WriteConflict("The sums were read before the vote that they are of.")
    moved = replace(stored, trace=replace(stored.trace, tally=tally))
    traces = Traces(ctx.database)
    revised = replace(vote, revision=stored.trace.text_revision)
    writes = [
        traces.cast(revised, after, said, ctx.clock()) if after else traces.uncast(vote),
        traces.tallied(stored, tally),
        # The record knows each voter of a trace once, whichever texts they voted on.
        *traces.credited(stored.trace.contributor, vote.ballot, after),
    ]
    undo = _undo(args.trace_id, before, vote.text)
    return await ctx.commit(writes, _out(moved, before, after, undo))


def _require_reason(args: In) -> None:
    down = args.vote_type is Choice.DOWN
    wrong = {}
    if down and args.feedback_tag is None:
        tags = ", ".join(FeedbackTag)
        wrong["feedback_tag"] = f"required when vote_type is down: one of {tags}"
    if not down and args.feedback_tag is not None:
        wrong["feedback_tag"] = "only when vote_type is down"
    if not down and args.feedback_text is not None:
        wrong["feedback_text"] = "only when vote_type is down"
    if wrong:
        told = "; ".join(f"{field}: {problem}" for field, problem in wrong.items())
        message = f"vote_trace was not run. {told}. Correct this and call it again."
        raise InvalidInput(message, details=wrong)


def _ballot(args: In, record: Record) -> Ballot | None:
    if args.vote_type is Choice.NONE:
        return None
    return Ballot(VoteType(args.vote_type), args.feedback_tag, record.weight)


def _same(before: Ballot | None, after: Ballot | None) -> bool:
    """Whether they say the same: that the voter's weight changed since is no other vote."""
    if before is None or after is None:
        return before is after
    return (before.vote, before.tag) == (after.vote, after.tag)


def _moved(tally: Tally, before: Ballot | None, after: Ballot | None) -> Tally:
    rest = tally.minus(before) if before else tally
    return rest.plus(after) if after else rest


def _out(
    stored: StoredTrace, before: Ballot | None, after: Ballot | None, undo: Undo | None
) -> Out:
    return trace_view(
        Out,
        stored.trace,
        vote=after.vote if after else None,
        former=before.vote if before else None,
        changed=undo is not None,
        undo=undo,
    )


def _undo(trace_id: str, before: Ballot | None, said: str | None) -> Undo:
    vote_type = before.vote if before else Choice.NONE
    arguments: dict[str, str] = {"trace_id": trace_id, "vote_type": vote_type}
    if before and before.tag:
        arguments["feedback_tag"] = before.tag
    if before and said:
        arguments["feedback_text"] = said
    return Undo(tool="vote_trace", arguments=arguments)


def in_words(out: Out) -> str:
    """Confirm it."""
    if not out.changed:
        had = f"your vote is {out.vote} already" if out.vote else "you have no vote on it"
        return f"Nothing changed on trace {out.trace_id}: {had}."
    done = (
        f"Vote recorded: {out.vote}vote on trace {out.trace_id}."
        if out.vote
        else f"Vote taken back from trace {out.trace_id}."
    )
    return (
        f"{done} It has {out.upvotes} up and {out.downvotes} down now, trust {out.trust:.2f},"
        f" status {out.status}. {out.undo.in_words() if out.undo else ''}"
    )


TOOL = Tool(
    name="vote_trace",
    title="Vote on a solved problem",
    description=(
        "Say whether a coding trace helped, after you tried it: up, or down with a feedback_tag and"
        " words that tell others why. You have one vote for each trace and may change it or take"
        " it back (none); on your own you have none. Votes decide how far a trace is trusted and"
        " where it ranks. When its contributor changes a text of it, votes for it begin anew, and"
        " votes against it stay."
    ),
    input=In,
    output=Out,
    run=vote_trace,
    text=in_words,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
)
