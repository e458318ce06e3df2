"""Take one's own trace back, or put it back again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import Conflict
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.corpus import index_entry
from shared.traces.duplicates import require_no_duplicate
from shared.traces.repository import Traces
from shared.traces.trust import Status
from shared.traces.views import is_own, own

if TYPE_CHECKING:
    from shared.firestore.database import Write
    from shared.runtime.context import Context
    from shared.traces.model import Trace
    from shared.traces.repository import StoredTrace


class In(IdempotentArguments):
    """Which trace."""

    trace_id: DocumentId = Field(description="The id of a trace that you contributed.")
    withdrawn: bool = Field(
        default=True, description="false puts a trace back that you withdrew before."
    )


class Out(Result):
    """What became of it."""

    trace_id: str = Field(description="The trace.")
    title: str = Field(description="Its title.")
    status: Status = Field(description="Its status now.")
    superseded_by: str | None = Field(description="The trace that took its place, if any did.")
    changed: bool = Field(description="Whether anything changed.")
    undo: Undo | None = Field(description="How to undo it; missing where nothing changed.")


async def withdraw_trace(args: In, ctx: Context) -> Out:
    """Take a trace out of all lists, or put it back: five round trips.

    The trace, what it replaced, the embedding space, what says the same, the commit. Its text and
    its votes stay, for its contributor.

    Raises:
        NotFound: There is no such trace.
        Forbidden: It is somebody else's.
        Conflict: It is to be put back, and a trace says the same by now.
    """
    return await ctx.database.retry_on_conflict(lambda: _attempt(args, ctx))


async def _attempt(args: In, ctx: Context) -> Out:
    stored = await own(args.trace_id, ctx)
    changed = args.withdrawn is (stored.trace.withdrawn_at is None)
    if not changed:
        return _out(stored.trace, changed=False)
    trace = replace(stored.trace, withdrawn_at=ctx.clock() if args.withdrawn else None)
    replaced = await _replaced(stored, args, ctx)
    if replaced:
        by = None if args.withdrawn else trace.trace_id
        writes = await _changed(replaced, replace(replaced.trace, superseded_by=by), ctx)
    else:
        writes = []
    writes += await _changed(stored, trace, ctx)
    return await ctx.commit(writes, _out(trace, changed=True))


async def _changed(stored: StoredTrace, trace: Trace, ctx: Context) -> list[Write]:
    entry = await index_entry(trace, ctx) if trace.is_listed else None
    if entry and stored.trace.withdrawn_at:
        await require_no_duplicate(trace, entry, ctx)
    return Traces(ctx.database).changed(stored, trace, entry)


async def _replaced(stored: StoredTrace, args: In, ctx: Context) -> StoredTrace | None:
    """What it replaces, and stands for itself again while it is withdrawn: one's own alone.

    Behind one that is replaced itself nothing comes back: its successor stands for both.
    """
    if stored.trace.supersedes is None or (args.withdrawn and stored.trace.superseded_by):
        return None
    former = await Traces(ctx.database).get(stored.trace.supersedes)
    if former is None or not is_own(former, ctx):
        return None
    if former.trace.status is Status.FLAGGED and not former.trace.superseded_by:
        raise Conflict(
            f"It would replace your trace {former.trace.trace_id}, of which voters warn: amend that"
            " one, and let them change their votes. Nothing was changed.",
            details={"supersedes": former.trace.trace_id},
        )
    return former if former.trace.superseded_by in (None, stored.trace.trace_id) else None


def _out(trace: Trace, *, changed: bool) -> Out:
    back = {"trace_id": trace.trace_id, "withdrawn": trace.withdrawn_at is None}
    return Out(
        trace_id=trace.trace_id,
        title=trace.writing.title,
        status=trace.status,
        superseded_by=trace.superseded_by,
        changed=changed,
        undo=Undo(tool="withdraw_trace", arguments=back) if changed else None,
    )


def in_words(out: Out) -> str:
    """Confirm it."""
    state = "withdrawn" if out.status is Status.WITHDRAWN else "there for everybody"
    if out.superseded_by and out.status is not Status.WITHDRAWN:
        state = f"replaced by the trace {out.superseded_by}, and not found by search"
    if not out.changed:
        return f'Nothing changed: the trace "{out.title}" (ID: {out.trace_id}) is {state} already.'
    done = f'The trace "{out.title}" (ID: {out.trace_id}) is {state} now, status {out.status}.'
    return f"{done} {out.undo.in_words()}" if out.undo else done


TOOL = Tool(
    name="withdraw_trace",
    title="Withdraw a solved problem",
    description=(
        "Take back a coding trace that you contributed: nobody finds or reads it any more but you."
        " withdrawn false puts it back within 30 days, votes and all. To correct one, use"
        " amend_trace; of others' traces say what is wrong with vote_trace."
    ),
    input=In,
    output=Out,
    run=withdraw_trace,
    text=in_words,
    effect=Effect.DESTROY,
    tier=Tier.REGISTERED,
    capabilities=frozenset({Capability.EMBEDDING}),
)
