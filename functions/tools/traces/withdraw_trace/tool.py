"""Withdraw one of the caller's traces, or restore it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import Conflict
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import Change, DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.access import caller_contributed, get_own_trace
from shared.traces.corpus import build_index_entry
from shared.traces.duplicates import require_free_claim
from shared.traces.repository import WITHDRAWN_TRACES, Traces
from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.traces.model import Trace
    from shared.traces.repository import StoredTrace


class In(IdempotentArguments):
    """Which trace, and whether to withdraw or restore it."""

    trace_id: DocumentId = Field(description="A trace of yours.")
    withdrawn: bool = Field(default=True, description="false restores it.")


class Out(Result):
    """The trace after the call."""

    trace_id: str = Field(description="The trace.")
    title: str = Field(description="Its title.")
    status: TraceStatus = Field(description="Its status.")
    superseded_by: str | None = Field(description="The trace that replaced it, if any.")
    changed: bool = Field(description="Whether anything changed.")
    undo: Undo | None = Field(description="How to undo it; missing if nothing changed.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        action = "withdrew" if self.status is TraceStatus.WITHDRAWN else "restored"
        return Change.list_undoable(action, self.trace_id, self.title, self.undo)


async def withdraw_trace(args: In, ctx: Context) -> Out:
    """Remove a trace from the index, or restore it.

    The texts and votes of a withdrawn trace stay stored, and its contributor can read them. Costs
    up to four round trips: the reads of the trace, of the trace that it superseded, of the
    embedding space and of the claim to the text, and the commit.

    Raises:
        NotFound: The trace does not exist.
        Forbidden: Another user contributed the trace.
        Conflict: The trace is to be restored, but would duplicate a newer trace.
    """
    return await ctx.database.retry_on_conflict(lambda: _attempt(args, ctx))


async def _attempt(args: In, ctx: Context) -> Out:
    stored = await get_own_trace(args.trace_id, ctx)
    if args.withdrawn is (stored.trace.withdrawn_at is not None):
        return _build_out(stored.trace, changed=False)
    trace = replace(stored.trace, withdrawn_at=ctx.clock() if args.withdrawn else None)
    writes: list[Write] = []
    if superseded := await _load_superseded(stored, args, ctx):
        successor = None if args.withdrawn else trace.trace_id
        changed_trace = replace(superseded.trace, superseded_by=successor)
        writes += await _build_update(superseded, changed_trace, ctx)
    writes += await _build_update(stored, trace, ctx)
    return await ctx.commit(writes, _build_out(trace, changed=True))


async def _build_update(stored: StoredTrace, trace: Trace, ctx: Context) -> list[Write]:
    if not trace.is_listed:
        return Traces(ctx.database).build_update_writes(stored, trace, None)
    entry = await build_index_entry(trace, ctx)
    # A trace that is no longer superseded is listed even if another has its text by now.
    claim = await require_free_claim(trace, ctx) if stored.trace.withdrawn_at else None
    return Traces(ctx.database).build_update_writes(stored, trace, entry, claim)


async def _load_superseded(stored: StoredTrace, args: In, ctx: Context) -> StoredTrace | None:
    """Load the caller's own trace that this one supersedes, if its `superseded_by` must change.

    While a trace is withdrawn, search finds the trace that it superseded again, unless the
    withdrawn trace is superseded itself: then its successor replaces both.

    Raises:
        Conflict: The restored trace would hide a flagged trace.
    """
    if stored.trace.supersedes is None or (args.withdrawn and stored.trace.superseded_by):
        return None
    superseded = await Traces(ctx.database).get(stored.trace.supersedes)
    if superseded is None or not caller_contributed(superseded, ctx):
        return None
    if superseded.trace.status is TraceStatus.FLAGGED and not superseded.trace.superseded_by:
        raise Conflict(
            "Nothing was changed: the restored trace would replace your trace"
            f" {superseded.trace.trace_id}, which voters warn against. Amend that trace instead, so"
            " that they can change their votes.",
            details={"supersedes": superseded.trace.trace_id},
        )
    if superseded.trace.superseded_by in (None, stored.trace.trace_id):
        return superseded
    return None


def _build_out(trace: Trace, *, changed: bool) -> Out:
    undo_arguments = {"trace_id": trace.trace_id, "withdrawn": trace.withdrawn_at is None}
    return Out(
        trace_id=trace.trace_id,
        title=trace.content.title,
        status=trace.status,
        superseded_by=trace.superseded_by,
        changed=changed,
        undo=Undo(tool="withdraw_trace", arguments=undo_arguments) if changed else None,
    )


def make_message(out: Out) -> str:
    """Say who can find the trace."""
    if out.status is TraceStatus.WITHDRAWN:
        state = "withdrawn"
    elif out.superseded_by:
        state = "replaced, and not found by search"
    else:
        state = "public"
    return f"Now the trace is {state}." if out.changed else f"Nothing changed: it is {state}."


TOOL = Tool(
    name="withdraw_trace",
    title="Withdraw a solved problem",
    description=(
        "Take back a coding trace that you contributed; withdrawn false restores it within"
        f" {WITHDRAWN_TRACES.period}, votes included. To correct it use amend_trace; to warn"
        " against another's vote_trace."
    ),
    input=In,
    output=Out,
    run=withdraw_trace,
    message=make_message,
    effect=Effect.DESTROY,
    tier=Tier.REGISTERED,
    capabilities=frozenset({Capability.EMBEDDING}),
)
