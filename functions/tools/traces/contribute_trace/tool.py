"""Share how a problem was solved."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import Conflict, NotFound
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.corpus import index_entry
from shared.traces.duplicates import likeness
from shared.traces.model import Text, Title, Trace, Writing
from shared.traces.repository import Traces
from shared.traces.screening import require_no_secrets
from shared.traces.tags import MOST_SENT, SentTag, normal_tags
from shared.traces.trust import Status
from shared.traces.views import is_own, readable

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.traces.duplicates import Likeness
    from shared.traces.repository import IndexEntry, StoredTrace


class In(IdempotentArguments):
    """A solved problem."""

    title: Title = Field(
        description="What it solves, in a line: the error or the task, and with what."
    )
    context_text: Text = Field(
        description="The problem: what was tried, the error message, the versions."
    )
    solution_text: Text = Field(description="What worked, and why; code where it helps.")
    tags: list[SentTag] = Field(
        default=[],
        max_length=MOST_SENT,
        description="Language, framework, tool, kind of task: at most 20, of a-z, 0-9 and . _ -",
    )
    supersedes: DocumentId | None = Field(
        default=None,
        description="The trace_id of one that this one replaces. Your own then leaves search;"
        " somebody else's stays beside it. Whoever names one is not told of duplicates.",
    )


class Similar(Result):
    """A trace whose problem may be the same."""

    trace_id: str = Field(description="Its id, for get_trace.")
    title: str = Field(description="What it solves.")


class Out(Result):
    """What became of it."""

    trace_id: str = Field(description="Its id; of a duplicate, that of the trace that stands.")
    status: Status = Field(description="pending, until others have voted for it.")
    duplicate: bool = Field(
        description="Whether a trace stands that says the same: nothing was stored then."
    )
    title: str = Field(description="The title of the trace that stands now.")
    tags: list[str] = Field(description="Its tags, as they are compared.")
    supersedes: str | None = Field(description="The trace that it replaces.")
    yours: bool = Field(description="Whether you contributed the trace that stands now.")
    similar: list[Similar] = Field(description="Others whose problem may be the same.")
    undo: Undo | None = Field(description="How to undo it; missing where nothing was stored.")


async def contribute_trace(args: In, ctx: Context) -> Out:
    """Store a trace with its vector and its words, by which it is found at once.

    Three round trips: the embedding space; the nearest traces, and what it replaces; one commit.
    Most of its writes are the lists of its words. Two that say the same and are sent at the same
    moment are both stored.
    """
    writing = Writing(
        title=args.title,
        context_text=args.context_text,
        solution_text=args.solution_text,
        tags=normal_tags(args.tags),
    )
    await require_no_secrets(writing)
    now = ctx.clock()
    trace = Trace(
        trace_id=secrets.token_hex(8),
        writing=writing,
        contributor=str(ctx.caller.user_id),
        created_at=now,
        updated_at=now,
        supersedes=args.supersedes,
    )
    entry = await index_entry(trace, ctx)
    return await ctx.database.retry_on_conflict(lambda: _attempt(trace, entry, ctx))


async def _attempt(trace: Trace, entry: IndexEntry, ctx: Context) -> Out:
    former, found = await asyncio.gather(_former(trace, ctx), likeness(trace, entry, ctx))
    if standing := _standing(found, former, ctx):
        return _out(standing, [], ctx, duplicate=True)
    writes = Traces(ctx.database).contributed(trace, entry)
    if former and is_own(former, ctx):
        replaced = replace(former.trace, superseded_by=trace.trace_id)
        writes += Traces(ctx.database).changed(former, replaced, None)
    return await ctx.commit(writes, _out(trace, found.similar, ctx, duplicate=False))


def _standing(found: Likeness, former: StoredTrace | None, ctx: Context) -> Trace | None:
    """The trace that stands in the way: whoever names one that it replaces may insist.

    Not against warnings of one's own: a copy would be rid of them.
    """
    warned = [
        each
        for each in found.duplicates
        if each.status is Status.FLAGGED and each.contributor == ctx.caller.user_id
    ]
    return next(iter(warned if former else warned + found.duplicates), None)


async def _former(trace: Trace, ctx: Context) -> StoredTrace | None:
    """What it replaces, which must stand for itself."""
    if trace.supersedes is None:
        return None
    try:
        former = await readable(trace.supersedes, ctx)
    except NotFound as error:
        raise NotFound(error.message, details={"supersedes": trace.supersedes}) from None
    if not former.trace.is_listed:
        by = former.trace.superseded_by
        told = f"is replaced by {by} already: name that one" if by else "is withdrawn: leave it out"
        message = f"contribute_trace was not run. The trace in supersedes {told}."
        raise Conflict(message, details={"supersedes": told})
    if former.trace.status is Status.FLAGGED and is_own(former, ctx):
        told = "is yours, and voters warn of it: amend it, and let them change their votes"
        raise Conflict(f"contribute_trace was not run. {told}.", details={"supersedes": told})
    return former


def _out(trace: Trace, similar: list[Trace], ctx: Context, *, duplicate: bool) -> Out:
    undo = Undo(tool="withdraw_trace", arguments={"trace_id": trace.trace_id})
    return Out(
        trace_id=trace.trace_id,
        status=trace.status,
        duplicate=duplicate,
        title=trace.writing.title,
        tags=list(trace.writing.tags),
        supersedes=trace.supersedes,
        yours=trace.contributor == ctx.caller.user_id,
        similar=[Similar(trace_id=each.trace_id, title=each.writing.title) for each in similar],
        undo=None if duplicate else undo,
    )


def in_words(out: Out) -> str:
    """Confirm it."""
    if out.duplicate:
        better = (
            "Voters warn of that trace: read why with get_trace before you repeat it."
            if out.status is Status.FLAGGED
            else "If this one is better, change it with amend_trace."
            if out.yours
            else "Read it with get_trace, and vote for it with vote_trace if it helped. If yours is"
            f' better, send it again with "supersedes": "{out.trace_id}".'
        )
        return (
            f"Nothing was stored: a trace says the same already, {json.dumps(out.title)} (ID:"
            f" {out.trace_id}), status {out.status}. {better}"
        )
    done = (
        f"Trace submitted successfully (ID: {out.trace_id}). Status: {out.status} — it will be"
        " validated after community review."
    )
    listed = [f"- {each.title} (ID: {each.trace_id})" for each in out.similar]
    parts = [
        f"{done} {out.undo.in_words()}" if out.undo else done,
        *(["These may solve the same problem:", *listed] if listed else []),
    ]
    return "\n".join(parts)


TOOL = Tool(
    name="contribute_trace",
    title="Share a solved problem",
    description=(
        "Share how a problem was solved, for other agents and people who meet it: after an error"
        " was understood and fixed, a setup made to work, a decision tested. Say the problem in its"
        " own words (error message, versions) and what worked, with code. Everybody here can read"
        " it: take out secrets, names, addresses and numbers first; what a check recognises is"
        " refused, and it does not recognise everything. Search with search_traces first; a trace"
        " that stands already is answered in its place. For one's own to-dos use add_task."
    ),
    input=In,
    output=Out,
    run=contribute_trace,
    text=in_words,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    capabilities=frozenset({Capability.EMBEDDING}),
)
