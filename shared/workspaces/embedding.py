"""Embeds waiting documents, during a call or in a job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.core.blocks import split
from shared.core.errors import InvalidInput
from shared.index.embedding_space import EmbeddingSpace
from shared.index.stored_vector import to_compact
from shared.text.folding import normalize_line
from shared.workspaces.model import DocumentStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.runtime.context import Context
    from shared.workspaces.model import WorkspaceDocument, WorkspacePassage
    from shared.workspaces.parts import DocumentPart
    from shared.workspaces.repository import Workspace

BATCH_SIZE: Final = 32
"""The number of passages that are embedded with one request."""


class RejectedPassage(InvalidInput):
    """The embedding model rejected a passage. The message is the reason of a failed upload."""


async def embed_document(
    document: WorkspaceDocument,
    parts: Sequence[DocumentPart],
    workspace: Workspace,
    ctx: Context,
    has_time: Callable[[], bool],
) -> tuple[WorkspaceDocument, list[DocumentPart]]:
    """Embed the parts that have no vectors, in order, and store each of them.

    The vectors of passages that the workspace's latest documents contain are reused. Costs up to
    two round trips, and one for each part.

    Args:
        has_time: Called before each part. If it returns False, the embedding stops.

    Returns:
        The document, which is ready if all parts have vectors, and its parts.

    Raises:
        RejectedPassage: The model rejected a passage, and the document is marked as failed.
        Unavailable: The embedding provider or the database is down. Earlier parts are stored.
        DocumentErased: The document has been erased meanwhile, or uploaded again.
    """
    embedded = list(parts)
    waiting = [number for number, part in enumerate(parts) if not part.vectors]
    stored_vectors = await workspace.load_vectors(document.profile)
    for number in waiting:
        if not has_time():
            break
        try:
            vectors = await _embed(parts[number].passages, stored_vectors, ctx)
        except RejectedPassage as rejection:
            await workspace.mark_failed(document, rejection.message)
            raise
        status = DocumentStatus.READY if number == waiting[-1] else document.status
        document = await workspace.store_vectors(document, number, vectors, status)
        embedded[number] = replace(parts[number], vectors=vectors)
    if not waiting:  # the document waited for another model, which is no longer configured
        document = await workspace.update(document, status=DocumentStatus.READY)
    return document, embedded


async def _embed(
    passages: Sequence[WorkspacePassage], stored_vectors: Mapping[str, bytes], ctx: Context
) -> list[bytes]:
    """Return the compact vectors of passages. Those that are stored already are not computed again.

    Raises:
        RejectedPassage: The model rejected a passage.
        Unavailable: The embedding provider is down.
    """
    embedded: dict[str, bytes] = {}
    new_passages = [passage for passage in passages if passage.id not in stored_vectors]
    for batch in split(new_passages, BATCH_SIZE):
        texts = [normalize_line(passage.text) for passage in batch]
        await EmbeddingSpace(ctx.database).record_languages(ctx.embedder, texts)
        try:
            with ctx.timed("embedding"):
                vectors = await ctx.embedder.embed(texts, Purpose.DOCUMENT)
        except InvalidInput as error:
            rejected = batch[error.details["text"]]
            raise RejectedPassage(
                f"the embedding model rejected characters {rejected.start} to {rejected.end}"
            ) from None
        for passage, vector in zip(batch, vectors, strict=True):
            embedded[passage.id] = to_compact(vector)
    return [stored_vectors.get(passage.id) or embedded[passage.id] for passage in passages]
