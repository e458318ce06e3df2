"""Uploads a document: splits it, embeds and stores new passages, and publishes it by a last write.

Every step is idempotent. A call that dies leaves passages that no search finds. Uploading the same
text again continues where that call stopped.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.arguments import make_argument_error
from shared.core.errors import CarrelError
from shared.firestore.database import WriteConflict
from shared.firestore.retention import Erasure
from shared.index.embedding_space import EmbeddingSpace
from shared.text.folding import normalize_line
from shared.text.splitting import split_passages
from shared.text.terms import ANALYZER_VERSION, terms
from shared.workspaces.embedding import (
    BATCH_SIZE,
    RejectedPassage,
    embed_passages,
    embed_stored_passages,
    store_without_vectors,
)
from shared.workspaces.erasure import UNUSED_WORKSPACES
from shared.workspaces.model import (
    DocumentStatus,
    IndexProfile,
    ParsedPassage,
    WorkspaceDocument,
    build_parts,
    content_id,
    describe_rejection,
)
from shared.workspaces.repository import StoredPassages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context
    from shared.workspaces.model import DocumentPart
    from shared.workspaces.repository import DocumentRecord, Workspace


MAX_PASSAGES: Final = 10_000
"""The maximum number of distinct passages in a text. Each is embedded and stored."""
MAX_SPANS: Final = 100_000
"""The maximum number of passages in a text, including repetitions."""
WARM_UP_SECONDS: Final = 1.0
"""The speed of embedding is not judged before this time, because the model may load first."""
RESERVED_SHARE: Final = 0.2
"""The share of a call's time that is reserved for storing and ranking."""
DEFAULT_SECONDS: Final = 0.08
"""The assumed time to embed a passage until the speed is measured: that of the local model."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a document in memory.

    Attributes:
        parts: The spans and terms of the passages.
        texts: The cleaned texts of the passages, by passage id.
        vectors: The vectors by passage id, of as many passages as there was time for.
    """

    parts: Sequence[DocumentPart]
    texts: Mapping[str, str]
    vectors: Mapping[str, Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedDocument:
    """The document that a call names or uploads.

    Attributes:
        record: The stored document, or None if this call uploaded it.
        contents: The contents if this call uploaded the document, or None if it was stored before.
        seconds_left: The estimated seconds to embed the remaining passages.
    """

    document: WorkspaceDocument
    record: DocumentRecord | None = None
    contents: Contents | None = None
    seconds_left: float = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether all passages have vectors, so that the document can be searched."""
        if self.contents:
            return len(self.contents.vectors) == len(self.contents.texts)
        return self.document.status is DocumentStatus.READY

    @property
    def was_stored(self) -> bool:
        """Whether the document was stored before this call."""
        return self.contents is None


def get_current_profile(ctx: Context) -> IndexProfile:
    """Return the profile with which passages are indexed now."""
    return IndexProfile(
        model=ctx.embedder.model,
        dimension=ctx.embedder.dimension,
        analysis=ANALYZER_VERSION,
    )


async def upload(
    text: str, record: DocumentRecord, workspace: Workspace, ctx: Context
) -> RequestedDocument:
    """Store a document, and embed its new passages if there is time. Otherwise a job embeds them.

    Costs six round trips and one for each 32 passages, most of them during the embedding.

    Raises:
        InvalidInput: The text is empty, has too many passages, or has one that the model rejects.
        Unavailable: The embedding provider or the database is down. Finished batches are stored.
        Conflict: The document has since been erased, or the knowledge base is embedded with another
            model.
    """
    characters = ctx.settings.extract_passage_characters
    passages = await asyncio.to_thread(parse_passages, text, characters)
    parts = await asyncio.to_thread(build_parts, passages)
    texts = {passage.passage_id: passage.cleaned for passage in passages}
    document = WorkspaceDocument(
        document_id=content_id(text),
        upload_id=secrets.token_hex(8),
        status=DocumentStatus.ARRIVING,
        profile=get_current_profile(ctx),
        passage_characters=characters,
        characters=len(text),
        passages=len(texts),
        parts=len(parts),
        uploaded_at=ctx.clock(),
    )
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    with _locate_rejected_passage(parts):
        is_new_workspace, document = await _begin(document, record, workspace, ctx)
        stored = StoredPassages({}, frozenset())
        if not is_new_workspace:
            stored = await workspace.load_stored_passages(list(texts), document)
        await workspace.store_parts(document, parts)
        return await _embed(
            document, Contents(parts, texts, stored.vectors), stored, workspace, ctx
        )


async def resume(
    record: DocumentRecord, document: WorkspaceDocument, workspace: Workspace, ctx: Context
) -> RequestedDocument:
    """Embed the passages that a job has not embedded yet, as far as time allows.

    Only one call at a time embeds a document. It starts with the last passage, because the job
    starts with the first. A ready document is returned unchanged.

    Raises:
        InvalidInput: The model rejects a passage.
        Unavailable: The embedding provider or the database is down. Finished batches are stored.
        DocumentErased: The document has since been erased.
    """
    if document.status is DocumentStatus.READY:
        return RequestedDocument(document=document, record=record)
    parts = await workspace.load_contents(document)
    passage_ids = [passage_id for part in reversed(parts) for passage_id in reversed(part.ids)]
    timer = EmbeddingTimer(len(passage_ids), ctx.deadline)
    if await _lease(record, document, workspace, ctx):
        try:
            with _locate_rejected_passage(parts):
                is_complete = await embed_stored_passages(
                    passage_ids, document, workspace, ctx, has_time=timer.has_time_for_batch
                )
        except CarrelError:
            with suppress(CarrelError):  # the lease expires when the call ends, in any case
                await workspace.update(document, leased_until=None)
            raise
        changes = {"status": DocumentStatus.READY} if is_complete else {}
        document = await workspace.update(document, leased_until=None, **changes)
    if document.status is DocumentStatus.READY:
        record = await workspace.load_document(document.document_id)
    return RequestedDocument(document=document, record=record, seconds_left=timer.seconds_left)


async def _lease(
    record: DocumentRecord, document: WorkspaceDocument, workspace: Workspace, ctx: Context
) -> bool:
    """Lease the embedding for the rest of this call, unless another call has leased it."""
    now = ctx.clock()
    if document.leased_until and now < document.leased_until:
        return False
    seconds = ctx.deadline - time.time() if ctx.deadline else 0.0
    until = now + timedelta(seconds=max(0.0, seconds))
    try:
        await ctx.database.commit([workspace.build_lease_write(record, until)])
    except WriteConflict:
        # Another call was faster, or this call's first attempt succeeded and its response was lost.
        latest = (await workspace.load_document(document.document_id)).document
        return latest is not None and latest.leased_until == until
    return True


@contextmanager
def _locate_rejected_passage(parts: Sequence[DocumentPart]) -> Iterator[None]:
    """Tell the caller where in the document a rejected passage is."""
    try:
        yield
    except RejectedPassage as error:
        raise make_argument_error(
            "materials", describe_rejection(parts, error.passage_id)
        ) from None


async def _begin(
    document: WorkspaceDocument, record: DocumentRecord, workspace: Workspace, ctx: Context
) -> tuple[bool, WorkspaceDocument]:
    """Register the upload, unless the same upload has begun. Finish an erasure that has begun.

    Returns:
        Whether the workspace is new, and the registered document.
    """
    first_record: DocumentRecord | None = record

    async def attempt() -> tuple[DocumentRecord, WorkspaceDocument]:
        nonlocal first_record
        latest = first_record or await workspace.load_document(document.document_id)
        first_record = None  # another attempt loads the record again
        previous = latest.document
        if latest.workspace.erasing:
            return latest, document
        if previous and _is_same_build(previous, document):
            await ctx.database.commit_skipping_conflicts(
                workspace.build_touch_writes(latest.workspace, ctx.clock())
            )
            return latest, previous
        registered = replace(document, prepaid=previous.prepaid if previous else None)
        await ctx.database.commit(workspace.build_upload_writes(latest, registered, ctx.clock()))
        return latest, registered

    while True:
        latest, registered = await ctx.database.retry_on_conflict(attempt)
        if not latest.workspace.erasing:
            return latest.workspace.touched_at is None, registered
        erasure = Erasure(ctx.database, UNUSED_WORKSPACES, workspace.reference, ctx.clock())
        async for _ in erasure.complete():
            pass


def _is_same_build(first: WorkspaceDocument, second: WorkspaceDocument) -> bool:
    """Return whether two uploads of a text were split and indexed in the same way."""
    return first.profile == second.profile and _get_splitting(first) == _get_splitting(second)


def _get_splitting(document: WorkspaceDocument) -> tuple[int, ...]:
    return document.passage_characters, document.passages, document.parts


async def _embed(
    document: WorkspaceDocument,
    contents: Contents,
    stored: StoredPassages,
    workspace: Workspace,
    ctx: Context,
) -> RequestedDocument:
    """Embed and store new passages, and publish the document when every passage has a vector."""
    texts = contents.texts
    without_vector = {
        passage_id: text for passage_id, text in texts.items() if passage_id not in contents.vectors
    }
    timer = EmbeddingTimer(len(without_vector), ctx.deadline)
    new_vectors: dict[str, Vector] = {}
    if document.characters <= ctx.settings.extract_materials_characters:
        new_vectors = await embed_passages(
            without_vector, document, workspace, ctx, has_time=timer.has_time_for_all
        )
    unstored_ids = texts.keys() - new_vectors.keys() - stored.ids
    unstored_texts = {
        passage_id: text for passage_id, text in texts.items() if passage_id in unstored_ids
    }
    await store_without_vectors(unstored_texts, document, workspace)
    vectors = {**contents.vectors, **new_vectors}
    if len(vectors) == len(texts):
        document = await workspace.update(document, status=DocumentStatus.READY)
    return RequestedDocument(
        document=document,
        contents=replace(contents, vectors=vectors),
        seconds_left=timer.seconds_left,
    )


def parse_passages(text: str, max_characters: int) -> list[ParsedPassage]:
    """Split a text into passages of at most `max_characters`, and drop repetitions.

    Takes about 0.1 s for each 100,000 characters.

    Raises:
        InvalidInput: The text is empty, or has too many passages.
    """
    passages: dict[str, ParsedPassage] = {}
    spans = split_passages(text, max_characters)
    _require_at_most(MAX_SPANS, len(spans))
    for position, span in enumerate(spans, 1):
        original = text[span.start : span.end]
        clean = normalize_line(original)
        passage_id = content_id(clean)
        if clean and passage_id not in passages:
            counts = Counter(terms(clean))
            passages[passage_id] = ParsedPassage(
                passage_id, position, span.start, span.end, original, clean, counts
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


class EmbeddingTimer:
    """Estimates whether there is time to embed the remaining passages.

    Attributes:
        seconds_left: The estimated seconds to embed the remaining passages.
    """

    def __init__(self, passages: int, deadline: float | None) -> None:
        """Start measuring.

        Args:
            deadline: When the call ends, in Unix time, or None if it has no deadline.
        """
        self.seconds_left = passages * DEFAULT_SECONDS
        self._started = time.monotonic()
        seconds = float("inf") if deadline is None else deadline - time.time()
        self._end = self._started + seconds * (1 - RESERVED_SHARE)
        self._batches = 0

    def has_time_for_all(self, passages: int) -> bool:
        """Return whether there is time to embed all remaining passages."""
        now, per_passage = self._measure()
        self.seconds_left = passages * per_passage
        is_warming_up = now - self._started < WARM_UP_SECONDS
        return is_warming_up or now + self.seconds_left < self._end

    def has_time_for_batch(self, passages: int) -> bool:
        """Return whether there is time for another batch, if this many passages remain."""
        now, per_passage = self._measure()
        self.seconds_left = passages * per_passage
        return now + BATCH_SIZE * per_passage < self._end

    def _measure(self) -> tuple[float, float]:
        """Return the time and the average seconds per passage. Call this once before each batch."""
        now = time.monotonic()
        embedded = self._batches * BATCH_SIZE
        self._batches += 1
        return now, (now - self._started) / embedded if embedded else DEFAULT_SECONDS
