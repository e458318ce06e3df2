"""Embeds the passages of uploaded documents, during the call or later in a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.core.blocks import pack
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context
    from shared.workspaces.model import WorkspaceDocument
    from shared.workspaces.repository import Workspace

BATCH_SIZE: Final = 32
"""Passages are embedded and stored in batches of this many. If the call dies, at most two batches
are lost."""
MAX_PASSAGES_PER_READ: Final = 10 * BATCH_SIZE
"""One read checks at most this many passages for missing vectors."""
MAX_PASSAGES_PER_COMMIT: Final = 250
"""One commit stores at most this many passages without vectors."""
MAX_CHARACTERS_PER_COMMIT: Final = 300_000
"""One commit stores passages without vectors of at most this many characters in total. They have up
to 1.2 MB, and the emulator accepts requests of up to 4 MiB."""


class RejectedPassage(InvalidInput):
    """The embedding model rejected a passage."""

    def __init__(self, passage_id: str) -> None:
        """Make the error. The caller of the embedding finds the passage by its id."""
        super().__init__("The embedding model rejected a passage.")
        self.passage_id = passage_id


async def embed_stored_passages(  # noqa: PLR0913 - all are needed
    passage_ids: Sequence[str],
    document: WorkspaceDocument,
    workspace: Workspace,
    ctx: Context,
    *,
    has_time: Callable[[int], bool],
    on_embedded: Callable[[int], None] = lambda _: None,
) -> bool:
    """Embed the passages that are stored without a vector, in order.

    Args:
        passage_ids: The ids of the passages, some of which may have a vector.
        has_time: Called before each batch with the number of remaining passages. If it returns
            False, the embedding stops.
        on_embedded: Called after each batch with the number of passages in it.

    Returns:
        Whether all passages now have a vector.

    Raises:
        RejectedPassage: The model rejected a passage. The passages before it are stored.
        Unavailable: The embedding provider or the database is down. Earlier batches are stored.
        DocumentErased: The document has since been erased.
    """
    remaining = list(passage_ids)

    def has_time_for(count: int) -> bool:
        return has_time(count + len(remaining))

    while remaining:
        block = remaining[:MAX_PASSAGES_PER_READ]
        remaining = remaining[MAX_PASSAGES_PER_READ:]
        texts = await workspace.load_texts_without_vector(block, document.profile)
        vectors = await embed_passages(
            texts, document, workspace, ctx, has_time=has_time_for, on_embedded=on_embedded
        )
        if len(vectors) < len(texts):
            return False
    return True


async def embed_passages(  # noqa: PLR0913 - all are needed
    texts: Mapping[str, str],
    document: WorkspaceDocument,
    workspace: Workspace,
    ctx: Context,
    *,
    has_time: Callable[[int], bool],
    on_embedded: Callable[[int], None] = lambda _: None,
) -> dict[str, Vector]:
    """Embed passages in batches. Each batch is stored while the next one is embedded.

    Args:
        texts: The cleaned texts by passage id.
        has_time: Called before each batch with the number of remaining passages. If it returns
            False, the embedding stops.
        on_embedded: Called after each batch with the number of passages in it.

    Returns:
        The new vectors by passage id, all of which are stored.

    Raises:
        RejectedPassage: The model rejected a passage. The passages before it are stored.
        Unavailable: The embedding provider or the database is down. Earlier batches are stored.
        DocumentErased: The document has since been erased.
    """
    vectors: dict[str, Vector] = {}
    remaining = list(texts)
    storage_task = asyncio.create_task(asyncio.sleep(0))  # no batch is being stored yet
    try:
        while remaining and has_time(len(remaining)):
            batch = {passage_id: texts[passage_id] for passage_id in remaining[:BATCH_SIZE]}
            batch_vectors = await _embed(batch, ctx)
            await storage_task
            storage_task = asyncio.create_task(
                workspace.store_passages(document, batch, batch_vectors)
            )
            vectors |= batch_vectors
            on_embedded(len(batch_vectors))
            remaining = remaining[BATCH_SIZE:]
    except asyncio.CancelledError:
        storage_task.cancel()  # the call has ended, and the database may hang
        raise
    finally:
        await storage_task
    return vectors


async def store_without_vectors(
    texts: Mapping[str, str], document: WorkspaceDocument, workspace: Workspace
) -> None:
    """Store passages without vectors, as many at a time as fit into a commit.

    Args:
        texts: The cleaned texts by passage id.

    Raises:
        DocumentErased: The document has since been erased.
    """
    for block in pack(
        texts.items(),
        MAX_PASSAGES_PER_COMMIT,
        MAX_CHARACTERS_PER_COMMIT,
        lambda passage: len(passage[1]),
    ):
        await workspace.store_passages(document, dict(block), {})


async def _embed(batch: Mapping[str, str], ctx: Context) -> dict[str, Vector]:
    """Embed the texts of a batch, and return the vectors by passage id.

    Raises:
        RejectedPassage: The model rejected a passage.
        Unavailable: The embedding provider is down.
    """
    passage_ids = list(batch)
    try:
        with ctx.timed("embedding"):
            vectors = await ctx.embedder.embed(list(batch.values()), Purpose.DOCUMENT)
    except InvalidInput as error:
        raise RejectedPassage(passage_ids[error.details["text"]]) from None
    return dict(zip(passage_ids, vectors, strict=True))
