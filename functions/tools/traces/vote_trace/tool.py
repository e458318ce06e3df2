"""Vote on a trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from shared.core.caller import Tier
from shared.core.errors import Forbidden, InvalidInput
from shared.core.text_validation import validate_prose
from shared.firestore.database import WriteConflict
from shared.runtime.schemas import Change, DocumentId, IdempotentArguments, Undo
from shared.runtime.tool import Effect, Tool
from shared.screening.screen import require_shareable_texts
from shared.traces.access import caller_contributed, get_readable_trace
from shared.traces.repository import Traces
from shared.traces.trust import ContributorRecord, FeedbackTag, Vote, VoteTally, VoteType
from shared.traces.views import TraceSummary, build_trace_view

if TYPE_CHECKING:
    from datetime import tzinfo

    from shared.runtime.context import Context
    from shared.traces.repository import StoredTrace


class VoteChoice(StrEnum):
    """A vote, or none."""

    UP = "up"
    DOWN = "down"
    NONE = "none"


def _validate_text(text: str) -> str | None:
    return validate_prose(text) if text.strip() else None


def _drop_blank(tag: Any) -> Any:
    """Treat a blank tag as missing, because some clients send a string for every argument."""
    return None if isinstance(tag, str) and not tag.strip() else tag


class In(IdempotentArguments):
    """A vote."""

    trace_id: DocumentId = Field(description="From search_traces.")
    vote_type: VoteChoice = Field(description="none withdraws your vote.")
    feedback_tag: Annotated[FeedbackTag | None, BeforeValidator(_drop_blank)] = Field(
        default=None, description="Required for down, and only then."
    )
    feedback_text: (
        Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_validate_text)] | None
    ) = Field(
        default=None,
        description="Why; readers see it if the vote is down.",
    )


class Out(TraceSummary):
    """The trace after the vote."""

    vote: VoteType | None = Field(description="Your vote now; missing if you have none.")
    former: VoteType | None = Field(description="Your vote before, if you had one.")
    changed: bool = Field(description="Whether anything changed.")
    undo: Undo | None = Field(description="How to undo it; missing if nothing changed.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        action = "voted on" if self.vote else "withdrew the vote on"
        return Change.list_undoable(action, self.trace_id, self.title, self.undo)


async def vote_trace(args: In, ctx: Context) -> Out:
    """Replace the caller's vote, the tally and the contributor's record in one commit.

    Costs two round trips: the reads of the trace, of the vote and of the caller's own record, and
    the commit. Both are repeated if others vote at the same moment.

    Raises:
        NotFound: The trace does not exist.
        Forbidden: The caller contributed the trace.
        InvalidInput: The feedback does not fit the vote, or contains a secret.
    """
    _require_fitting_feedback(args)
    if args.feedback_text:
        await require_shareable_texts({"feedback_text": args.feedback_text})
    return await ctx.database.retry_on_conflict(lambda: _attempt(args, ctx))


async def _attempt(args: In, ctx: Context) -> Out:
    voter = str(ctx.caller.user_id)
    traces = Traces(ctx.database)
    stored, own_vote, record = await asyncio.gather(
        get_readable_trace(args.trace_id, ctx),
        traces.get_vote(args.trace_id, voter),
        traces.get_record(voter),
    )
    trace = stored.trace
    if caller_contributed(stored, ctx):
        raise Forbidden(
            "You contributed this trace, so you cannot vote on it. You may amend or withdraw it."
        )
    former_vote = own_vote.vote
    is_counted = former_vote and trace.counts_vote(former_vote, own_vote.revision)
    before = former_vote if is_counted else None
    after = _build_vote(args, record)
    # A vote on an earlier text can be repeated for this text, or withdrawn from the record.
    is_outdated = former_vote is not None and own_vote.revision < trace.text_revision
    is_same = _is_same(before, after) and (after is None or args.feedback_text == own_vote.text)
    if is_same and not is_outdated:
        return _build_out(stored, before, after, None, ctx.zone)
    tally = _replace_vote(trace.tally, before, after)
    if not tally.is_possible:
        raise WriteConflict("The tally was read before the vote that is to be subtracted from it.")
    writes = [
        traces.build_vote_write(
            own_vote, after, args.feedback_text, trace.text_revision, ctx.clock()
        )
        if after
        else traces.build_vote_deletion_write(own_vote),
        traces.build_tally_write(stored, tally),
        # The contributor's record counts each voter of a trace once, whatever the revision.
        *traces.build_credit_writes(trace.contributor, former_vote, after),
    ]
    with_vote = replace(stored, trace=replace(trace, tally=tally))
    undo = _build_undo(args.trace_id, before, own_vote.text)
    return await ctx.commit(writes, _build_out(with_vote, before, after, undo, ctx.zone))


def _require_fitting_feedback(args: In) -> None:
    is_down = args.vote_type is VoteChoice.DOWN
    errors = {}
    if is_down and args.feedback_tag is None:
        tags = ", ".join(FeedbackTag)
        errors["feedback_tag"] = f"required when vote_type is down: one of {tags}"
    if not is_down and args.feedback_tag is not None:
        errors["feedback_tag"] = "only when vote_type is down"
    if args.vote_type is VoteChoice.NONE and args.feedback_text is not None:
        errors["feedback_text"] = "only when vote_type is up or down"
    if errors:
        reasons = "; ".join(f"{field}: {reason}" for field, reason in errors.items())
        message = f"vote_trace was not run. {reasons}. Correct this and call it again."
        raise InvalidInput(message, details=errors)


def _build_vote(args: In, record: ContributorRecord) -> Vote | None:
    if args.vote_type is VoteChoice.NONE:
        return None
    return Vote(VoteType(args.vote_type), args.feedback_tag, record.weight)


def _is_same(before: Vote | None, after: Vote | None) -> bool:
    """Return whether two votes are the same, apart from their weights."""
    if before is None or after is None:
        return before is after
    return before.type is after.type and before.tag is after.tag


def _replace_vote(tally: VoteTally, before: Vote | None, after: Vote | None) -> VoteTally:
    reduced = tally.minus(before) if before else tally
    return reduced.plus(after) if after else reduced


def _build_out(
    stored: StoredTrace,
    before: Vote | None,
    after: Vote | None,
    undo: Undo | None,
    zone: tzinfo,
) -> Out:
    return build_trace_view(
        Out,
        stored.trace,
        zone,
        vote=after.type if after else None,
        former=before.type if before else None,
        changed=undo is not None,
        undo=undo,
    )


def _build_undo(trace_id: str, before: Vote | None, text: str | None) -> Undo:
    vote_type = before.type if before else VoteChoice.NONE
    arguments: dict[str, str] = {"trace_id": trace_id, "vote_type": vote_type}
    if before and before.tag:
        arguments["feedback_tag"] = before.tag
    if before and text:
        arguments["feedback_text"] = text
    return Undo(tool="vote_trace", arguments=arguments)


def make_message(out: Out) -> str:
    """Say what became of the vote."""
    if not out.changed:
        state = f"your vote already is {out.vote}" if out.vote else "you have no vote on it"
        return f"Nothing changed: {state}."
    if out.vote:
        return f"Vote recorded: {out.vote}vote on trace {out.trace_id}."
    return f"Vote withdrawn from trace {out.trace_id}."


TOOL = Tool(
    name="vote_trace",
    title="Vote on a solved problem",
    description=(
        "Say whether a coding trace helped once you tried it: up, or down with a feedback_tag."
        " You have one vote a trace, none on your own. Votes decide its trust and rank."
    ),
    input=In,
    output=Out,
    run=vote_trace,
    message=make_message,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
)
