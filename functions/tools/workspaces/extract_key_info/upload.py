"""Uploads a document: splits it into passages, stores them, and embeds them while there is time.

A call that dies while it stores the passages leaves some that no search finds, until the text is
uploaded again. Afterwards, another call or a job continues the embedding.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.arguments import make_argument_error
from shared.core.errors import CarrelError, Conflict
from shared.firestore.retention import Erasure
from shared.index.embedding_space import EmbeddingSpace
from shared.text.folding import normalize_line
from shared.text.splitting import CHUNK_LIMITS, split_passages
from shared.text.terms import ANALYZER_VERSION, count_terms
from shared.workspaces.embedding import RejectedPassage, embed_document
from shared.workspaces.erasure import UNUSED_WORKSPACES
from shared.workspaces.listing import UserWorkspaces
from shared.workspaces.model import (
    DocumentStatus,
    IndexProfile,
    WorkspaceDocument,
    WorkspacePassage,
    content_id,
)
from shared.workspaces.parts import build_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.workspaces.parts import DocumentPart
    from shared.workspaces.repository import DocumentRecord, Workspace


MAX_PASSAGES: Final = 10_000
"""The maximum number of distinct passages in a text. Each is embedded and stored."""
MAX_SPANS: Final = 100_000
"""The maximum number of passages in a text, including repetitions."""
MAX_UNPAID: Final = 20
"""The maximum number of a user's texts about which only pending answers were given, which are free.
Without a maximum, any number of long texts would be embedded for nothing."""
CHARACTERS_PER_TOKEN: Final = 4
"""A token of English with the space after it has at least this many characters in most texts."""
CALL_SECONDS: Final = 60.0
"""The maximum duration of a call without a deadline."""
RESERVED_SHARE: Final = 0.2
"""The share of a call's time that is reserved for storing and ranking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedDocument:
    """The document that a call names or uploads."""

    document: WorkspaceDocument
    parts: Sequence[DocumentPart]
    known: bool


def get_current_profile(ctx: Context) -> IndexProfile:
    """Return the profile with which passages are indexed now."""
    return IndexProfile(
        model=ctx.embedder.model,
        dimension=ctx.embedder.dimension,
        analysis=ANALYZER_VERSION,
    )


def get_passage_characters(ctx: Context) -> int:
    """Return the maximum length of a passage: the setting, or less if the model reads less."""
    max_tokens = CHUNK_LIMITS[ctx.settings.embedding_provider].maximum
    return min(ctx.settings.extract_passage_characters, CHARACTERS_PER_TOKEN * max_tokens)


def get_reusable_document(record: DocumentRecord, ctx: Context) -> WorkspaceDocument | None:
    """Return the stored document if it serves a call that sends its text.

    After a failed upload, it does not, so that the upload is retried.
    """
    document = get_current_document(record, ctx)
    if (
        document is None
        or document.status not in {DocumentStatus.WAITING, DocumentStatus.READY}
        or document.passage_characters != get_passage_characters(ctx)
    ):
        return None
    return document


def get_current_document(record: DocumentRecord, ctx: Context) -> WorkspaceDocument | None:
    """Return the stored document, unless it is being erased or its vectors are outdated."""
    document = record.document
    if record.workspace.erasing or document is None or document.profile != get_current_profile(ctx):
        return None
    return document


async def upload(
    text: str, record: DocumentRecord, workspace: Workspace, ctx: Context
) -> RequestedDocument:
    """Store a document, and embed it if there is time. Otherwise later calls or a job embed it.

    Costs six round trips and one for each 64 passages, most of them during the embedding.

    Raises:
        InvalidInput: The text is empty, has too many passages, or has one that the model rejects.
        Unavailable: The embedding provider or the database is down.
        Conflict: The user has MAX_UNPAID unpaid texts, the document has since been erased, or the
            knowledge base is embedded with another model.
    """
    passage_characters = get_passage_characters(ctx)
    passages, unpaid = await asyncio.gather(
        asyncio.to_thread(parse_passages, text, passage_characters),
        UserWorkspaces(ctx.database, workspace.user_id).count_unpaid(),
    )
    if unpaid >= MAX_UNPAID:
        raise Conflict(
            f"The answers about {unpaid} of your texts were pending, and you have not asked again."
            " Ask about one of them with document, then send this text again."
        )
    profile = get_current_profile(ctx)
    parts = await asyncio.to_thread(build_parts, passages, profile)
    is_short = len(text) <= ctx.settings.extract_materials_characters
    now = ctx.clock()
    document = WorkspaceDocument(
        document_id=content_id(text),
        upload_id=secrets.token_hex(8),
        user_id=workspace.user_id,
        status=DocumentStatus.WAITING,
        profile=profile,
        passage_characters=passage_characters,
        passages=len(passages),
        parts=len(parts),
        uploaded_at=now,
        next_at=_end_of_call(ctx) if is_short else now,
        unpaid=not is_short,
    )
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    stored = await _store(document, parts, record, workspace, ctx)
    if stored and (other := stored.document):
        return await resume(stored, other, workspace, ctx)
    if not is_short:
        return RequestedDocument(document=document, parts=parts, known=False)
    return await _embed(
        RequestedDocument(document=document, parts=parts, known=False), workspace, ctx
    )


async def resume(
    record: DocumentRecord, document: WorkspaceDocument, workspace: Workspace, ctx: Context
) -> RequestedDocument:
    """Load a stored document, and continue its embedding if nobody else works on it.

    Raises:
        InvalidInput: The model rejects a passage.
        Unavailable: The embedding provider or the database is down.
        DocumentErased: The document has since been erased.
    """
    [parts] = await workspace.load_parts([document])
    requested = RequestedDocument(document=document, parts=parts, known=True)
    is_due = document.status is DocumentStatus.WAITING and document.next_at <= ctx.clock()
    if is_due and await workspace.claim(record, _end_of_call(ctx)):
        return await _embed(requested, workspace, ctx)
    return requested


async def _embed(
    requested: RequestedDocument, workspace: Workspace, ctx: Context
) -> RequestedDocument:
    """Embed a document that this call has claimed, and give up the claim if it is not ready."""
    document = requested.document
    try:
        document, parts = await embed_document(
            document, requested.parts, workspace, ctx, _make_time_limit(ctx)
        )
        if document.status is DocumentStatus.WAITING:
            document = await workspace.update(document, next_at=ctx.clock(), unpaid=True)
    except RejectedPassage as rejection:
        raise make_argument_error("materials", rejection.message) from None
    except CarrelError:
        with suppress(CarrelError):  # the claim expires when the call ends, in any case
            await workspace.update(document, next_at=ctx.clock(), unpaid=True)
        raise
    return RequestedDocument(document=document, parts=parts, known=requested.known)


async def _store(
    document: WorkspaceDocument,
    parts: Sequence[DocumentPart],
    record: DocumentRecord,
    workspace: Workspace,
    ctx: Context,
) -> DocumentRecord | None:
    """Store an upload. Finish an erasure that has begun.

    Returns:
        The document that another call has stored meanwhile, or None if this upload is stored.
    """
    latest: DocumentRecord | None = record

    async def attempt() -> DocumentRecord | None:
        nonlocal latest
        current = latest or await workspace.load_document(document.document_id)
        latest = None  # another attempt loads the record again
        while current.workspace.erasing:
            erasure = Erasure(ctx.database, UNUSED_WORKSPACES, workspace.reference, ctx.clock())
            async for _ in erasure.complete():
                pass
            current = await workspace.load_document(document.document_id)
        if other := get_reusable_document(current, ctx):
            # It is this upload if the response of an earlier attempt was lost.
            return current if other.upload_id != document.upload_id else None
        await workspace.store(current, document, parts, ctx.clock())
        return None

    return await ctx.database.retry_on_conflict(attempt)


def _end_of_call(ctx: Context) -> datetime:
    seconds = CALL_SECONDS if ctx.seconds_left is None else ctx.seconds_left
    return ctx.clock() + timedelta(seconds=seconds)


def _make_time_limit(ctx: Context) -> Callable[[], bool]:
    """Return a function that says before each part whether there is time to embed it.

    The first part is embedded if there is any time. Its speed is the estimate for the next ones.
    """
    started = time.monotonic()
    seconds = float("inf") if ctx.seconds_left is None else ctx.seconds_left
    end = started + seconds * (1 - RESERVED_SHARE)
    parts = 0

    def has_time() -> bool:
        nonlocal parts
        now = time.monotonic()
        seconds_per_part = (now - started) / parts if parts else 0.0
        parts += 1
        return now + seconds_per_part < end

    return has_time


def parse_passages(text: str, max_characters: int) -> list[WorkspacePassage]:
    """Split a text into passages of at most `max_characters`, and drop repetitions.

    Takes about 0.1 s for each 100,000 characters.

    Raises:
        InvalidInput: The text is empty, or has too many passages.
    """
    passages: dict[str, WorkspacePassage] = {}
    spans = split_passages(text, max_characters)
    _require_at_most(MAX_SPANS, len(spans))
    for position, span in enumerate(spans, 1):
        original = text[span.start : span.end]
        clean = normalize_line(original)
        passage_id = content_id(clean)
        if clean and passage_id not in passages:
            counts = count_terms(clean)
            passages[passage_id] = WorkspacePassage(
                passage_id,
                position,
                span.start,
                span.end,
                original,
                counts.by_term,
                counts.length,
            )
            _require_at_most(MAX_PASSAGES, len(passages))
    if not passages:
        raise make_argument_error(
            "materials", "contain no text, only white space or control characters"
        )
    return list(passages.values())


def _require_at_most(limit: int, count: int) -> None:
    if count > limit:
        raise make_argument_error(
            "materials",
            f"have more than {limit:,} passages (blank lines separate them): split the text over"
            " several calls with one task_id, then ask with scope task",
        )
