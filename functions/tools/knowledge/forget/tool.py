"""Forget a passage or a source, or restore it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from shared.core.caller import Role, Scope, Tier
from shared.core.dates import format_day
from shared.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from shared.core.ids import parse_source_id
from shared.core.installation import carrel
from shared.firestore.retention import PURGE_AT
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES, ContentCounts, count_contents
from shared.knowledge.forgotten_repository import INGEST, ForgottenSources, Unfinished
from shared.knowledge.source import may_edit
from shared.knowledge.source_repository import MOVING
from shared.runtime.schemas import (
    FOR_APPS,
    Change,
    DocumentId,
    IdempotentArguments,
    Result,
    SourceId,
    Undo,
)
from shared.runtime.tool import Effect, Tool
from shared.text.counts import format_count
from shared.writer.forgetting import Forgetter, Forgetting, build_keep_forgotten_write
from shared.writer.forgotten_admission import build_chunk_admission, build_source_admission
from shared.writer.restoring import Restoring
from shared.writer.source_move import SourceMove

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from shared.firestore.documents import Document
    from shared.knowledge.forgotten_repository import ForgottenSource
    from shared.runtime.context import Context

MOVE_SECONDS: Final = 20.0
"""After this time, in seconds, a call leaves the rest of a source's passages to the index job."""


class In(IdempotentArguments):
    """What to forget or to restore."""

    chunk_id: DocumentId | None = Field(
        default=None,
        description="A passage. A note goes whole.",
    )
    source_id: SourceId | None = Field(default=None, description="Or a whole source.")
    reason: str | None = Field(default=None, max_length=500, description="For the record.")
    forgotten: bool = Field(default=True, description="false restores it.")


class Removed(Result):
    """What left the knowledge base, or came back to it."""

    chunks: int = Field(description="Passages.")
    vectors: int = Field(description="Their vectors.", json_schema_extra=FOR_APPS)
    cards: int = Field(description="Their knowledge cards.")
    extractions: int = Field(description="Their decisions, patterns, warnings and methodologies.")
    postings: int = Field(
        description="Their entries in the index of words and filters.", json_schema_extra=FOR_APPS
    )


class Out(Result):
    """The receipt: what left the knowledge base or came back, and how to undo it."""

    chunk_id: str | None = Field(description="The passage, if it was forgotten alone.")
    source_id: str = Field(description="The source.")
    title: str | None = Field(description="The source's title, until it is deleted for good.")
    forgotten: bool = Field(description="Whether it is forgotten now.")
    changed: bool = Field(description="Whether this call changed anything.")
    removed: Removed | None = Field(
        description="What was taken out, by earlier calls that ran out of time, too."
    )
    restored: Removed | None = Field(description="What was brought back, likewise.")
    remaining: int | None = Field(
        description="Passages that are still to be moved; the job `index` completes it."
    )
    restorable_until: str | None = Field(description="The last day on which it can be restored.")
    undo: Undo | None = Field(
        description="How to undo it; missing if nothing changed, or if the source is missing, too."
    )

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        if not self.changed:
            return []
        action = "forgot" if self.forgotten else "restored"
        changed_id = self.chunk_id or self.source_id
        return [Change(action=action, id=changed_id, title=self.title, undo=self.undo)]


async def forget(args: In, ctx: Context) -> Out:
    """Move a passage or a source to where nothing reads it, or bring it back.

    Costs three to six round trips for a passage, and up to six for each 25 passages of a source.

    Raises:
        InvalidInput: Neither or both ids are given.
        NotFound: There is no such passage or source, it was deleted for good, or the caller is not
            the owner, did not save it, and somebody has forgotten it.
        Forbidden: The caller is not the owner, and did not save it.
        Conflict: The passage was forgotten with its source, its source is gone, or what to restore
            was forgotten too long ago, or is a note whose text was saved again.
    """
    if (args.chunk_id is None) == (args.source_id is None):
        raise InvalidInput("Pass either chunk_id, for one passage, or source_id, for all of it.")
    call = _Call(args, ctx)
    if args.chunk_id is not None:
        change = call.forget_chunk if args.forgotten else call.restore_chunk
        return await ctx.database.retry_on_conflict(lambda: change(str(args.chunk_id)))
    if args.forgotten:
        return await call.forget_source(str(args.source_id))
    return await call.restore_source(str(args.source_id))


@dataclass(frozen=True, slots=True)
class _StoredPassage:
    """What is stored of a passage.

    Attributes:
        chunk: The passage, or None if it is forgotten or never existed.
        forgotten: The forgotten passage, if it can still be restored.
        source: Its source, or None if that is forgotten or never existed.
        source_fields: The fields of the source, stored or forgotten.
    """

    chunk: Document | None
    forgotten: Document | None
    source: Document | None
    source_fields: Mapping[str, Any]


class _Call:
    def __init__(self, args: In, ctx: Context) -> None:
        self._args = args
        self._ctx = ctx
        self._forgetting = Forgetting(ctx.database)
        self._restoring = Restoring(ctx.database)
        caller = ctx.caller
        self._forgetter = Forgetter(
            str(caller.user_id), args.reason, ctx.clock(), client=caller.client
        )
        self._started_at = time.monotonic()

    async def forget_chunk(self, chunk_id: str) -> Out:
        stored = await self._load_passage(chunk_id)
        chunk, forgotten, source = stored.chunk, stored.forgotten, stored.source
        if chunk is None:
            if forgotten is None or not self._may_edit(stored.source_fields):
                raise _make_unknown_error("passage", chunk_id, "search_kb")
            document = forgotten.get("document")
            source_id, title = document["source_id"], document["title"]
            if source is not None and MOVING in stored.source_fields:
                return await self.forget_source(source_id)  # completes a call that was killed
            return _report_unchanged(chunk_id, source_id, title, forgotten=True)
        source_id, title = chunk.get("source_id"), chunk.get("title")
        fields = stored.source_fields
        if source and (fields["chunk_count"] == 1 or "saved_by" in fields):
            return await self.forget_source(source_id)  # a note's document has its whole text
        self._check_permission(stored.source_fields)
        if source:
            _require_settled(source)
        writes = await self._forgetting.build_forget_writes(chunk, source, self._forgetter)
        counts = count_contents([chunk.fields])
        out = self._report_change(chunk_id, source_id, title, counts)
        if not source:  # without it, the passage cannot be restored
            out = out.model_copy(update={"undo": None})
        return await self._ctx.commit(writes, out)

    async def restore_chunk(self, chunk_id: str) -> Out:
        stored = await self._load_passage(chunk_id)
        chunk, forgotten, source = stored.chunk, stored.forgotten, stored.source
        if forgotten is None and chunk is not None:
            return _report_unchanged(
                chunk_id, chunk.get("source_id"), chunk.get("title"), forgotten=False
            )
        if not self._may_edit({} if forgotten is None else stored.source_fields):
            raise _make_not_restorable_error("passage", chunk_id)
        if forgotten is None:
            return await self._admit_chunk(chunk_id)
        document = forgotten.get("document")
        source_id, title = document["source_id"], document["title"]
        self._require_restorable(forgotten.fields)
        if source is None:
            raise Conflict(
                f"This passage cannot come back alone, since its source {source_id} is not in the"
                f' knowledge base. Restore that with {{"source_id": "{source_id}", "forgotten":'
                " false}, or add it again, and then repeat this call.",
                details={"source_id": source_id},
            )
        _require_settled(source)
        writes = await self._restoring.build_restore_writes(forgotten, source, self._forgetter.now)
        counts = count_contents([document])
        return await self._ctx.commit(
            writes, self._report_change(chunk_id, source_id, title, counts)
        )

    async def forget_source(self, source_id: str) -> Out:
        database = self._ctx.database
        begun = await database.retry_on_conflict(lambda: self._begin_forgetting(source_id))
        if isinstance(begun, Out):
            return begun
        move, source = begun
        title = source.get("title")
        if await self._move_in_time(move.forget_chunks(self._forgetter.now)):
            out = self._report_change(None, source_id, title, move.total)
            return await self._ctx.commit(move.build_last_forget_writes(), out)
        remaining = max(1, source.get("chunk_count") - move.total.chunks)
        return await self._ctx.commit(
            [], self._report_change(None, source_id, title, move.total, remaining)
        )

    async def _begin_forgetting(self, source_id: str) -> tuple[SourceMove, Document] | Out:
        """Begin or continue to forget a source; return the result if it is forgotten already."""
        source, (record, snapshot) = await asyncio.gather(
            self._forgetting.load_source(source_id),
            ForgottenSources(self._ctx.database).get(source_id),
        )
        if source is None:
            if not record.whole or not self._may_edit(record.document or {}):
                raise _make_unknown_error("source", source_id, "list_sources")
            if record.missing:
                return await self._keep_forgotten(record, snapshot)
            return _report_unchanged(None, source_id, _get_title(record.document), forgotten=True)
        self._check_permission(source.fields)
        if record.unfinished is Unfinished.RESTORING:
            raise _make_unfinished_error(source_id, "restored")
        database = self._ctx.database
        if record.unfinished is Unfinished.FORGETTING:
            return SourceMove(database, source_id, snapshot.update_time, record.moved), source
        begin = SourceMove.begin_forgetting
        return await begin(database, source, record, snapshot, self._forgetter), source

    async def restore_source(self, source_id: str) -> Out:
        database = self._ctx.database
        begun = await database.retry_on_conflict(lambda: self._begin_restoring(source_id))
        if isinstance(begun, Out):
            return begun
        move, record, document = begun
        title = _get_title(document)
        if await self._move_in_time(move.restore_chunks(self._forgetter.now)):
            out = self._report_change(None, source_id, title, move.total)
            return await self._ctx.commit(move.build_last_restore_writes(record), out)
        remaining = max(1, document["chunk_count"] - move.total.chunks)
        return await self._ctx.commit(
            [], self._report_change(None, source_id, title, move.total, remaining)
        )

    async def _begin_restoring(
        self, source_id: str
    ) -> tuple[SourceMove, ForgottenSource, dict[str, Any]] | Out:
        """Begin or continue to restore a source; return the result if nothing is to be moved."""
        database = self._ctx.database
        (record, snapshot), source = await asyncio.gather(
            ForgottenSources(database).get(source_id), self._forgetting.load_source(source_id)
        )
        if not record.whole and source is not None:
            return _report_unchanged(None, source_id, source.get("title"), forgotten=False)
        if not record.whole or not self._may_edit(record.document or {}):
            raise _make_not_restorable_error("source", source_id)
        if record.document is None:
            out = self._report_change(None, source_id, _get_title(None), ContentCounts())
            return await self._ctx.commit([build_source_admission(record, snapshot)], out)
        if record.unfinished is Unfinished.FORGETTING:
            raise _make_unfinished_error(source_id, "forgotten")
        self._require_restorable({PURGE_AT: record.purge_at})
        if record.unfinished is Unfinished.RESTORING:
            move = SourceMove(database, source_id, snapshot.update_time, record.moved)
        else:
            move = await SourceMove.begin_restoring(
                database, record, snapshot, by_user=record.forgotten_by == INGEST
            )
        return move, record, record.document

    async def _admit_chunk(self, chunk_id: str) -> Out:
        """Let ingest store a passage again whose text was deleted for good."""
        writes = await build_chunk_admission(self._ctx.database, chunk_id)
        if writes is None:
            raise _make_not_restorable_error("passage", chunk_id)
        out = self._report_change(
            chunk_id, parse_source_id(chunk_id), _get_title(None), ContentCounts()
        )
        return await self._ctx.commit(writes, out)

    async def _keep_forgotten(self, record: ForgottenSource, snapshot: Document) -> Out:
        """Forget for good what ingest forgot only until its file comes back."""
        title = _get_title(record.document)
        out = self._report_change(None, record.source_id, title, ContentCounts())
        write = build_keep_forgotten_write(record, snapshot, self._forgetter)
        return await self._ctx.commit([write], out)

    async def _load_passage(self, chunk_id: str) -> _StoredPassage:
        """Load a passage and its source, stored or forgotten. Costs one round trip.

        What is missing is read as well, so that neither the receipt nor the time tells a passage
        that somebody forgot from one that never existed.
        """
        source_id = parse_source_id(chunk_id)
        chunk, forgotten, source, (record, _) = await asyncio.gather(
            self._forgetting.load_chunk(chunk_id),
            self._restoring.load_forgotten_chunk(chunk_id),
            self._forgetting.load_source(source_id),
            ForgottenSources(self._ctx.database).get(source_id),
        )
        fields = (record.document if source is None else source.fields) or {}
        return _StoredPassage(chunk, forgotten, source, fields)

    def _may_edit(self, source: Mapping[str, Any]) -> bool:
        return may_edit(source.get("saved_by"), self._ctx.caller)

    def _check_permission(self, source: Mapping[str, Any]) -> None:
        caller = self._ctx.caller
        if self._may_edit(source):
            return
        raise Forbidden(
            f"Only an owner may forget this; as {caller.role}, you may forget the notes that you"
            " saved. The operator of this server can change your role:"
            f" {carrel(f'accounts role {caller.user_id} owner')}"
        )

    def _require_restorable(self, record: Mapping[str, Any]) -> None:
        """Check that what was forgotten is not about to be deleted for good.

        Raises:
            Conflict: It was forgotten too long ago.
        """
        purge_at = record.get(PURGE_AT)
        if purge_at and purge_at <= self._forgetter.now:
            until = format_day(purge_at, self._ctx.zone)
            raise Conflict(
                f"This could be restored until {until}. Its text is about to be deleted for good."
                " After that, this call lets ingest store it again."
            )

    async def _move_in_time(self, moves: AsyncIterator[ContentCounts]) -> bool:
        """Move chunks until the time is up. Return whether that was all."""
        async for _ in moves:
            if time.monotonic() - self._started_at > MOVE_SECONDS:
                return False
        return True

    def _report_change(
        self,
        chunk_id: str | None,
        source_id: str,
        title: str | None,
        counts: ContentCounts,
        remaining: int | None = None,
    ) -> Out:
        target = {"chunk_id": chunk_id} if chunk_id else {"source_id": source_id}
        forgotten, moved = self._args.forgotten, Removed.of(counts)
        until = RESTORABLE_SOURCES.compute_purge_at(self._forgetter.now)
        return Out(
            chunk_id=chunk_id,
            source_id=source_id,
            title=title,
            forgotten=forgotten,
            changed=True,
            removed=moved if forgotten else None,
            restored=None if forgotten else moved,
            remaining=remaining,
            restorable_until=format_day(until, self._ctx.zone) if forgotten else None,
            undo=Undo(tool="forget", arguments={**target, "forgotten": not forgotten}),
        )


def _report_unchanged(
    chunk_id: str | None, source_id: str, title: str | None, *, forgotten: bool
) -> Out:
    return Out(
        chunk_id=chunk_id,
        source_id=source_id,
        title=title,
        forgotten=forgotten,
        changed=False,
        removed=None,
        restored=None,
        remaining=None,
        restorable_until=None,
        undo=None,
    )


def _get_title(document: Mapping[str, Any] | None) -> str | None:
    return str(document["title"]) if document else None


def _make_unknown_error(kind: str, name: str, tool: str) -> NotFound:
    return NotFound(f"There is no {kind} {name}. {tool} shows the ids.")


def _make_not_restorable_error(kind: str, name: str) -> NotFound:
    return NotFound(
        f"There is no forgotten {kind} {name} to restore: it was never forgotten, or it is restored"
        " already."
    )


def _require_settled(source: Document) -> None:
    """Check that a source is not being moved, which would also move its passages.

    Raises:
        Conflict: It is being forgotten or restored.
    """
    if MOVING in source.fields:
        raise _make_unfinished_error(source.id, "forgotten or restored")


def _make_unfinished_error(source_id: str, state: str) -> Conflict:
    return Conflict(
        f"The source {source_id} is still being {state}. That is complete within 15 minutes: try"
        " again then.",
        details={"source_id": source_id},
    )


def make_message(out: Out) -> str:
    """Say what happened, and what follows later."""
    if not out.changed:
        state = "forgotten" if out.forgotten else "in the knowledge base"
        return f"Nothing changed: it already is {state}."
    if out.restored and not out.title:
        return (
            "The texts were deleted for good. They come back when their file or export is ingested"
            " again."
        )
    if out.remaining:
        follows = f"About {format_count(out.remaining, 'passage')} will follow within 15 minutes."
    elif out.forgotten:
        follows = "No tool shows it any longer, and it stays out when its file is read again."
    else:
        follows = "Search finds it by meaning now, and by words once it is indexed."
    return f"{'Forgotten' if out.forgotten else 'Restored'}. {follows}"


TOOL = Tool(
    name="forget",
    title="Forget a passage or a source",
    description=(
        "Take a passage or a whole source out of the knowledge base when the user asks. It can be"
        f" restored for {RESTORABLE_SOURCES.period}. For to-dos use delete_task."
    ),
    input=In,
    output=Out,
    run=forget,
    message=make_message,
    effect=Effect.DESTROY,
    tier=Tier.REGISTERED,
    role=Role.EDITOR,
    required_scope=Scope.CURATE,
    idempotent=True,
)
