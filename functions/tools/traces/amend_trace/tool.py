"""Correct one's own trace."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import Conflict, InvalidInput, NotFound
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.corpus import index_entry
from shared.traces.duplicates import require_no_duplicate
from shared.traces.model import Text, Title
from shared.traces.repository import Traces
from shared.traces.screening import require_no_secrets
from shared.traces.tags import MOST_SENT, SentTag, normal_tags
from shared.traces.trust import Status
from shared.traces.views import own

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.traces.model import Trace, Writing

_FIELDS: Final = ("title", "context_text", "solution_text", "tags")
_TEXTS: Final = frozenset({"title", "context_text", "solution_text"})
"""What votes are for."""


class In(IdempotentArguments):
    """What to change; what is left out stays."""

    trace_id: DocumentId = Field(description="The id of a trace that you contributed.")
    title: Title | None = Field(default=None, description="What it solves, in a line.")
    context_text: Text | None = Field(default=None, description="The problem.")
    solution_text: Text | None = Field(default=None, description="What worked, and why.")
    tags: list[SentTag] | None = Field(
        default=None,
        max_length=MOST_SENT,
        description="All of its tags from now on, at most 20, of a-z, 0-9 and . _ -; [] takes all"
        " away.",
    )
    revision: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Bring back what it said in this earlier revision, instead of new texts.",
    )


class Out(Result):
    """The trace as it stands now."""

    trace_id: str = Field(description="The trace.")
    title: str = Field(description="Its title now.")
    tags: list[str] = Field(description="Its tags now.")
    status: Status = Field(
        description="Its status now; with another text it is no longer validated."
    )
    revision: int = Field(description="Its number of revision; 1 as contributed.")
    changed: list[str] = Field(description="The fields that changed.")
    undo: Undo | None = Field(description="How to undo it; missing where nothing changed.")


async def amend_trace(args: In, ctx: Context) -> Out:
    """Store the new revision, its vector and its words, and keep the former one.

    Five round trips: the trace, a former revision where one is brought back, the embedding space,
    what says the same, the commit. Where a text changes, votes for it begin anew, since they were
    for another; votes against it stay.

    Raises:
        NotFound: There is no such trace, or revision.
        Forbidden: It is somebody else's.
        Conflict: It was withdrawn, or replaced by another, or another says the same.
        InvalidInput: There is nothing to change, or a text holds a secret.
    """
    sent = [name for name in _FIELDS if getattr(args, name) is not None]
    if not sent and args.revision is None:
        message = "There is nothing to change: give new texts or tags, or a revision to bring back."
        raise InvalidInput(message, details={"trace_id": "given without anything to change"})
    if sent and args.revision is not None:
        message = "Give either a revision to bring back or new texts and tags: not both at once."
        raise InvalidInput(message, details={"revision": f"given beside {', '.join(sent)}"})
    return await ctx.database.retry_on_conflict(lambda: _attempt(args, ctx))


async def _attempt(args: In, ctx: Context) -> Out:
    stored = await own(args.trace_id, ctx)
    former = stored.trace
    _require_listed(former)
    writing = await _wanted(args, former, ctx)
    changed = [
        name for name, value in asdict(former.writing).items() if asdict(writing)[name] != value
    ]
    if not changed:
        return _out(former, changed)
    await require_no_secrets(writing)
    trace = _amended(former, writing, changed, ctx.clock())
    traces, entry = Traces(ctx.database), await index_entry(trace, ctx)
    if _TEXTS & set(changed):
        await require_no_duplicate(trace, entry, ctx)
    writes = [*traces.changed(stored, trace, entry), traces.kept(stored)]
    return await ctx.commit(writes, _out(trace, changed))


def _require_listed(trace: Trace) -> None:
    if trace.is_listed:
        return
    told = (
        "is withdrawn. Put it back first: withdraw_trace with withdrawn false."
        if trace.withdrawn_at
        else f"is replaced by {trace.superseded_by}: amend that one."
    )
    raise Conflict(f"This trace {told}", details={"trace_id": trace.trace_id})


def _amended(former: Trace, writing: Writing, changed: Sequence[str], now: datetime) -> Trace:
    """The next revision. Votes for another text do not count for this one."""
    number = former.revision + 1
    trace = replace(former, writing=writing, revision=number, updated_at=now)
    if _TEXTS & set(changed):
        return replace(trace, text_revision=number, tally=former.tally.against)
    return trace


async def _wanted(args: In, trace: Trace, ctx: Context) -> Writing:
    if args.revision is None:
        return replace(trace.writing, **_new(args))
    writing = await Traces(ctx.database).revision(trace.trace_id, args.revision)
    if writing is None:
        raise NotFound(
            f"This trace has no earlier revision {args.revision}; it is at {trace.revision} now.",
            details={"revision": "does not exist"},
        )
    return writing


def _new(args: In) -> dict[str, Any]:
    new = {name: value for name in _FIELDS if (value := getattr(args, name)) is not None}
    if args.tags is not None:
        new["tags"] = normal_tags(args.tags)
    return new


def _out(trace: Trace, changed: list[str]) -> Out:
    back = {"trace_id": trace.trace_id, "revision": trace.revision - 1}
    return Out(
        trace_id=trace.trace_id,
        title=trace.writing.title,
        tags=list(trace.writing.tags),
        status=trace.status,
        revision=trace.revision,
        changed=changed,
        undo=Undo(tool="amend_trace", arguments=back) if changed else None,
    )


def in_words(out: Out) -> str:
    """Confirm it."""
    if not out.changed:
        return f'Nothing changed: the trace "{out.title}" (ID: {out.trace_id}) says that already.'
    undo = out.undo.in_words() if out.undo else ""
    done = (
        f'Trace "{out.title}" (ID: {out.trace_id}) amended: {", ".join(out.changed)}. It is at'
        f" revision {out.revision} now, status {out.status}."
    )
    if _TEXTS.isdisjoint(out.changed):
        return f"{done} {undo}"
    return f"{done} Votes for it begin anew. {undo} That brings the texts back, not the votes."


TOOL = Tool(
    name="amend_trace",
    title="Amend a solved problem",
    description=(
        "Correct or complete a coding trace that you contributed: any of its texts, or all of its"
        " tags. Where a text changes, votes for it begin anew, and votes against it stay. What it"
        " said before is kept: revision brings it back. For another solution of the same problem"
        " contribute a trace of its own; to take one back use withdraw_trace."
    ),
    input=In,
    output=Out,
    run=amend_trace,
    text=in_words,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    capabilities=frozenset({Capability.EMBEDDING}),
)
