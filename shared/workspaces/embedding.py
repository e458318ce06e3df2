"""Embed the passages of uploaded documents: during the call while there is time, else in a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context
    from shared.workspaces.model import WorkspaceDocument
    from shared.workspaces.repository import Workspace

BATCH: Final = 32
"""The number of passages that are embedded together, and stored together."""
MAX_CHECKED: Final = 320
"""The most passages that are read together to find those without a vector."""
MAX_STORED: Final = 250
"""The most passages without vectors that one commit stores."""
MAX_STORED_CHARACTERS: Final = 300_000
"""The most characters that these passages have together."""


class RefusedPassage(InvalidInput):
    """The embedding model refuses a passage.

    Attributes:
        passage_id: The id of the passage.
    """

    def __init__(self, passage_id: str) -> None:
        """Keep the id: the caller knows where in the document the passage is."""
        super().__init__("The embedding model refuses a passage.")
        self.passage_id = passage_id


async def embed_stored(  # noqa: PLR0913 - each is needed
    passage_ids: Sequence[str],
    document: WorkspaceDocument,
    workspace: Workspace,
    ctx: Context,
    *,
    has_time: Callable[[int], bool],
    on_embedded: Callable[[int], None] = lambda _: None,
) -> bool:
    """Embed those of these passages that are stored without a vector, in this order.

    Args:
        passage_ids: The passages.
        document: The document that contains them.
        workspace: Its workspace.
        ctx: Provides the embedding model.
        has_time: Called before each batch with the number of passages left; False stops.
        on_embedded: Called after each batch with the number of passages it embedded.

    Returns:
        Whether all of the passages now have a vector.

    Raises:
        RefusedPassage: The model refuses a passage. Those before it are stored.
        Unavailable: The embedding provider or the database is down. Earlier batches are stored.
        DocumentErased: The document has since been erased.
    """
    left = list(passage_ids)

    def has_time_for(block: int) -> bool:
        return has_time(block + len(left))

    while left:
        block, left = left[:MAX_CHECKED], left[MAX_CHECKED:]
        texts = await workspace.texts_without_vector(block, document.profile)
        vectors = await embed_passages(
            texts, document, workspace, ctx, has_time=has_time_for, on_embedded=on_embedded
        )
        if len(vectors) < len(texts):
            return False
    return True


async def embed_passages(  # noqa: PLR0913 - each is needed
    texts: Mapping[str, str],
    document: WorkspaceDocument,
    workspace: Workspace,
    ctx: Context,
    *,
    has_time: Callable[[int], bool],
    on_embedded: Callable[[int], None] = lambda _: None,
) -> dict[str, Vector]:
    """Embed passages in batches; each batch is stored while the next one is embedded.

    Args:
        texts: The cleaned texts, by passage id.
        document: The document that contains them.
        workspace: Its workspace.
        ctx: Provides the embedding model.
        has_time: Called before each batch with the number of passages left; False stops.
        on_embedded: Called after each batch with the number of passages it embedded.

    Returns:
        The new vectors by passage id. All of them are stored.

    Raises:
        RefusedPassage: The model refuses a passage. Those before it are stored.
        Unavailable: The embedding provider or the database is down. Earlier batches are stored.
        DocumentErased: The document has since been erased.
    """
    vectors: dict[str, Vector] = {}
    left = list(texts)
    storing = asyncio.create_task(asyncio.sleep(0))
    try:
        while left and has_time(len(left)):
            batch = {passage_id: texts[passage_id] for passage_id in left[:BATCH]}
            batch_vectors = await _embed(batch, ctx)
            await storing
            storing = asyncio.create_task(workspace.store_passages(document, batch, batch_vectors))
            vectors |= batch_vectors
            on_embedded(len(batch_vectors))
            left = left[BATCH:]
    except asyncio.CancelledError:
        storing.cancel()  # the call is over; waiting for a hanging database would hang this too
        raise
    finally:
        await storing
    return vectors


async def store_without_vectors(
    texts: Mapping[str, str], document: WorkspaceDocument, workspace: Workspace
) -> None:
    """Store passages without vectors, as many at a time as a commit takes."""
    for block in _blocks(texts):
        await workspace.store_passages(document, block, {})


def _blocks(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    block: dict[str, str] = {}
    characters = 0
    for passage_id, text in texts.items():
        characters += len(text)
        if block and (len(block) == MAX_STORED or characters > MAX_STORED_CHARACTERS):
            yield block
            block, characters = {}, len(text)
        block[passage_id] = text
    if block:
        yield block


async def _embed(batch: Mapping[str, str], ctx: Context) -> dict[str, Vector]:
    passage_ids = list(batch)
    try:
        with ctx.timed("embedding"):
            vectors = await ctx.embedder.embed(list(batch.values()), Purpose.DOCUMENT)
    except InvalidInput as error:
        raise RefusedPassage(passage_ids[error.details["text"]]) from None
    return dict(zip(passage_ids, vectors, strict=True))
