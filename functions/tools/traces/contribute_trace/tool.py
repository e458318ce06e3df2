"""Contribute a trace."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import Conflict, NotFound
from shared.firestore.claims import load_claim
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import Change, DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.access import caller_contributed, get_readable_trace
from shared.traces.corpus import build_index_entry
from shared.traces.duplicates import find_holder, find_similar_traces
from shared.traces.model import Trace, TraceContent, TraceText, TraceTitle
from shared.traces.repository import Traces
from shared.traces.screening import require_shareable
from shared.traces.tags import MAX_TAG_INPUTS, MAX_TAGS, TagInput, normalize_tags
from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from shared.traces.duplicates import SimilarTraces
    from shared.traces.repository import StoredTrace, TraceIndexEntry


class In(IdempotentArguments):
    """A solved problem."""

    title: TraceTitle = Field(description="The problem in one line, with the software.")
    context_text: TraceText = Field(description="What was tried, the error message, the versions.")
    solution_text: TraceText = Field(description="What worked, and why.")
    tags: list[TagInput] = Field(
        default=[],
        max_length=MAX_TAG_INPUTS,
        description=f"Up to {MAX_TAGS}: language, framework, tool ...",
    )
    supersedes: DocumentId | None = Field(
        default=None,
        description="A trace that this one replaces.",
    )


class SimilarTrace(Result):
    """A trace whose problem may be the same."""

    trace_id: str = Field(description="Its id, for get_trace.")
    title: str = Field(description="The problem in one line.")
    similarity: float = Field(description="How near the traces are in meaning, from 0 to 1.")


class Out(Result):
    """The stored trace, or the existing duplicate."""

    trace_id: str = Field(description="Its id; of a duplicate, the id of the existing trace.")
    status: TraceStatus = Field(description="pending until others have voted for it.")
    duplicate: bool = Field(
        description="Whether a trace that says the same already exists: then nothing was stored."
    )
    title: str = Field(description="The title of the stored or existing trace.")
    tags: list[str] = Field(description="Its tags, normalized.")
    supersedes: str | None = Field(description="The trace that it replaces.")
    yours: bool = Field(description="Whether you contributed the stored or existing trace.")
    similar: list[SimilarTrace] = Field(description="Others whose problem may be the same.")
    undo: Undo | None = Field(description="How to undo it; missing if nothing was stored.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        action = "contributed"
        return Change.list_undoable(action, self.trace_id, self.title, self.undo)


async def contribute_trace(args: In, ctx: Context) -> Out:
    """Store and index a trace, so that search finds it at once.

    A call takes three round trips: it reads the embedding space, then the nearest traces and the
    superseded trace, and then commits. A fourth one reads a trace with the same text that is not
    among the nearest. Most writes of the commit are postings.
    """
    content = TraceContent(
        title=args.title,
        context_text=args.context_text,
        solution_text=args.solution_text,
        tags=normalize_tags(args.tags),
    )
    await require_shareable(content)
    now = ctx.clock()
    trace = Trace(
        trace_id=secrets.token_hex(8),
        content=content,
        contributor=str(ctx.caller.user_id),
        created_at=now,
        updated_at=now,
        supersedes=args.supersedes,
    )
    entry = await build_index_entry(trace, ctx)
    return await ctx.database.retry_on_conflict(lambda: _attempt(trace, entry, ctx))


async def _attempt(trace: Trace, entry: TraceIndexEntry, ctx: Context) -> Out:
    superseded, similar, claim = await asyncio.gather(
        _load_superseded(trace, ctx),
        find_similar_traces(trace, entry, ctx),
        load_claim(ctx.database, trace.content.claim_id),
    )
    candidates = [*similar.same, superseded.trace] if superseded else similar.same
    holder = await find_holder(claim, candidates, ctx)
    if existing := _find_blocking_duplicate(similar, holder, superseded, ctx):
        return _build_out(existing, [], ctx, duplicate=True)
    writes = Traces(ctx.database).build_creation_writes(trace, entry, None if holder else claim)
    if superseded and caller_contributed(superseded, ctx):
        replaced = replace(superseded.trace, superseded_by=trace.trace_id)
        writes += Traces(ctx.database).build_update_writes(superseded, replaced, None)
    return await ctx.commit(writes, _build_out(trace, similar.related, ctx, duplicate=False))


def _find_blocking_duplicate(
    similar: SimilarTraces, holder: Trace | None, superseded: StoredTrace | None, ctx: Context
) -> Trace | None:
    """Return the trace that prevents storing the new one, or None.

    That is a trace with the same text, unless the new one supersedes another. It is also the
    caller's own flagged trace if the new one is nearly the same, because a copy would clear the
    warnings.
    """
    blocking = [
        trace
        for trace in similar.near
        if trace.status is TraceStatus.FLAGGED and trace.contributor == ctx.caller.user_id
    ]
    if not superseded:
        blocking += [*similar.same, *([holder] if holder else [])]
    return blocking[0] if blocking else None


async def _load_superseded(trace: Trace, ctx: Context) -> StoredTrace | None:
    """Load the trace that this one supersedes, which must be in the index.

    Raises:
        NotFound: The superseded trace does not exist, or another user withdrew it.
        Conflict: The superseded trace is itself superseded or withdrawn, or is flagged and the
            caller's own.
    """
    if trace.supersedes is None:
        return None
    try:
        stored = await get_readable_trace(trace.supersedes, ctx)
    except NotFound as error:
        raise NotFound(error.message, details={"supersedes": trace.supersedes}) from None
    if not stored.trace.is_listed:
        successor = stored.trace.superseded_by
        reason = (
            f"is replaced by {successor} already: give that id instead"
            if successor
            else "is withdrawn: leave supersedes out"
        )
    elif stored.trace.status is TraceStatus.FLAGGED and caller_contributed(stored, ctx):
        reason = (
            "is yours, and voters warn against it: amend it, so that they can change their votes"
        )
    else:
        return stored
    message = f"contribute_trace was not run. The trace in supersedes {reason}."
    raise Conflict(message, details={"supersedes": reason})


def _build_out(
    trace: Trace, related: Sequence[tuple[Trace, float]], ctx: Context, *, duplicate: bool
) -> Out:
    undo = Undo(tool="withdraw_trace", arguments={"trace_id": trace.trace_id})
    return Out(
        trace_id=trace.trace_id,
        status=trace.status,
        duplicate=duplicate,
        title=trace.content.title,
        tags=list(trace.content.tags),
        supersedes=trace.supersedes,
        yours=trace.contributor == ctx.caller.user_id,
        similar=[
            SimilarTrace(trace_id=other.trace_id, title=other.content.title, similarity=similarity)
            for other, similarity in related
        ],
        undo=None if duplicate else undo,
    )


def make_message(out: Out) -> str:
    """Say what became of the trace."""
    if not out.duplicate:
        return (
            f"Trace submitted successfully (ID: {out.trace_id}). Status: {out.status} — it will be"
            " validated after community review."
        )
    nearly = ", or nearly" if out.yours and out.status is TraceStatus.FLAGGED else ""
    return f"Nothing was stored: this trace already says the same{nearly}. {_give_advice(out)}"


def _give_advice(out: Out) -> str:
    """Say what to do about the existing trace that prevented storing the new one."""
    if out.status is TraceStatus.FLAGGED:
        return (
            "Voters warn against that trace: read why with get_trace before you contribute it"
            " again."
        )
    if out.yours:
        return "If yours is better, change that one with amend_trace."
    return (
        "Read it with get_trace, and vote for it with vote_trace if it helped. If yours is"
        f' better, send it again with "supersedes": "{out.trace_id}".'
    )


TOOL = Tool(
    name="contribute_trace",
    title="Share a solved problem",
    description=(
        "Share how you solved a coding problem: an error, a setup, a tested decision. First look"
        " with search_traces. Everyone can read it: remove secrets, names, addresses and numbers."
        " For the user's to-dos use add_task."
    ),
    input=In,
    output=Out,
    run=contribute_trace,
    message=make_message,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    capabilities=frozenset({Capability.EMBEDDING}),
)
