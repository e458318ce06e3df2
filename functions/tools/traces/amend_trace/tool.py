"""Amend one of the caller's traces."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import Conflict, InvalidInput, NotFound
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import Change, DocumentId, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.traces.access import get_own_trace
from shared.traces.corpus import build_index_entry
from shared.traces.duplicates import load_free_claim, require_free_claim
from shared.traces.model import TraceText, TraceTitle
from shared.traces.repository import Traces
from shared.traces.screening import require_shareable
from shared.traces.tags import MAX_TAG_INPUTS, TagInput, normalize_tags
from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.traces.model import Trace, TraceContent

_FIELDS: Final = ("title", "context_text", "solution_text", "tags")
_TEXTS: Final = frozenset({"title", "context_text", "solution_text"})
"""Votes judge these fields. Changing one of them resets the votes for the trace."""


class In(IdempotentArguments):
    """What to change. Fields that are left out do not change."""

    trace_id: DocumentId = Field(description="A trace of yours.")
    title: TraceTitle | None = Field(default=None, description="The problem in one line.")
    context_text: TraceText | None = Field(default=None, description="The problem.")
    solution_text: TraceText | None = Field(default=None, description="What worked, and why.")
    tags: list[TagInput] | None = Field(
        default=None,
        max_length=MAX_TAG_INPUTS,
        description="All its tags; [] removes all.",
    )
    revision: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="The earlier revision to bring back, instead.",
    )


class Out(Result):
    """The trace after the change."""

    trace_id: str = Field(description="The trace.")
    title: str = Field(description="Its title.")
    tags: list[str] = Field(description="Its tags.")
    status: TraceStatus = Field(
        description="Its status; after a change of text no longer validated."
    )
    revision: int = Field(description="The number of its revision; 1 as contributed.")
    changed: list[str] = Field(description="The fields that changed.")
    undo: Undo | None = Field(description="How to undo it; missing if nothing changed.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        action = "amended"
        return Change.list_undoable(action, self.trace_id, self.title, self.undo)


async def amend_trace(args: In, ctx: Context) -> Out:
    """Store and index a new revision of a trace, and keep the previous one.

    Changing a text resets the votes for the trace, which judged the former text. Votes against the
    trace stay. Costs up to four round trips: the reads of the trace, of a revision to restore, of
    the embedding space and of the claim to the text, and the commit.

    Raises:
        NotFound: The trace or the revision does not exist.
        Forbidden: Someone else contributed the trace.
        Conflict: The trace is withdrawn or superseded, or would duplicate another trace.
        InvalidInput: There is nothing to change, a tag is invalid, or a text contains a secret.
    """
    new_fields = _get_given_fields(args)
    if not new_fields and args.revision is None:
        message = "There is nothing to change: give new texts or tags, or a revision to bring back."
        raise InvalidInput(message, details={"trace_id": "given without anything to change"})
    if new_fields and args.revision is not None:
        message = "Give either a revision to bring back, or new texts and tags, but not both."
        raise InvalidInput(message, details={"revision": f"given with {', '.join(new_fields)}"})
    return await ctx.database.retry_on_conflict(lambda: _attempt(args, new_fields, ctx))


async def _attempt(args: In, new_fields: dict[str, Any], ctx: Context) -> Out:
    stored = await get_own_trace(args.trace_id, ctx)
    _require_listed(stored.trace)
    content = await _resolve_content(args, new_fields, stored.trace, ctx)
    before = asdict(stored.trace.content)
    after = asdict(content)
    changed = [name for name in after if after[name] != before[name]]
    if not changed:
        return _build_out(stored.trace, changed)
    await require_shareable(content)
    trace = _make_next_revision(stored.trace, content, changed, ctx.clock())
    traces = Traces(ctx.database)
    find_claim = (
        load_free_claim if content.claim_id == stored.trace.content.claim_id else require_free_claim
    )
    entry, claim = await asyncio.gather(build_index_entry(trace, ctx), find_claim(trace, ctx))
    writes = [
        *traces.build_update_writes(stored, trace, entry, claim),
        traces.build_revision_write(stored),
    ]
    return await ctx.commit(writes, _build_out(trace, changed))


def _require_listed(trace: Trace) -> None:
    if trace.is_listed:
        return
    reason = (
        "is withdrawn. Restore it first: call withdraw_trace with withdrawn false."
        if trace.withdrawn_at
        else f"is replaced by {trace.superseded_by}. Amend that one instead."
    )
    raise Conflict(f"This trace {reason}", details={"trace_id": trace.trace_id})


async def _resolve_content(
    args: In, new_fields: dict[str, Any], trace: Trace, ctx: Context
) -> TraceContent:
    if args.revision is None:
        return replace(trace.content, **new_fields)
    content = await Traces(ctx.database).get_revision(trace.trace_id, args.revision)
    if content is None:
        raise NotFound(
            f"This trace has no earlier revision {args.revision}; its current one is"
            f" {trace.revision}.",
            details={"revision": "does not exist"},
        )
    return content


def _get_given_fields(args: In) -> dict[str, Any]:
    fields = {name: value for name in _FIELDS if (value := getattr(args, name)) is not None}
    if args.tags is not None:
        fields["tags"] = normalize_tags(args.tags)
    return fields


def _make_next_revision(
    trace: Trace, content: TraceContent, changed: Sequence[str], now: datetime
) -> Trace:
    number = trace.revision + 1
    amended = replace(trace, content=content, revision=number, updated_at=now)
    if _TEXTS & set(changed):
        return replace(amended, text_revision=number, tally=trace.tally.downvotes_only)
    return amended


def _build_out(trace: Trace, changed: list[str]) -> Out:
    undo_arguments = {"trace_id": trace.trace_id, "revision": trace.revision - 1}
    return Out(
        trace_id=trace.trace_id,
        title=trace.content.title,
        tags=list(trace.content.tags),
        status=trace.status,
        revision=trace.revision,
        changed=changed,
        undo=Undo(tool="amend_trace", arguments=undo_arguments) if changed else None,
    )


def make_message(out: Out) -> str | None:
    """Say what the change did not change, or what it did to the votes."""
    if not out.changed:
        return "Nothing changed: the trace already says that."
    if _TEXTS.isdisjoint(out.changed):
        return None
    return "Votes for the trace were reset. The undo restores its texts, not the votes."


TOOL = Tool(
    name="amend_trace",
    title="Amend a solved problem",
    description=(
        "Correct or complete a coding trace that you contributed, or bring back an earlier"
        " revision. Omitted fields stay. New texts reset the votes for it. To take it back use"
        " withdraw_trace."
    ),
    input=In,
    output=Out,
    run=amend_trace,
    message=make_message,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    capabilities=frozenset({Capability.EMBEDDING}),
)
