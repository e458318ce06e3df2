"""Embeds the chunks (the passages) of a note in the call that saves the note."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shared.ai.embedding import Purpose
from shared.core.errors import PlatformFault, RateLimited, Unavailable
from shared.core.log import error_fields, log
from shared.index.embedding_space import EmbeddingSpace
from shared.notes.repository import ChunkVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context


async def embed_chunks(chunks: Sequence[Chunk], ctx: Context) -> ChunkVectors:
    """Embed chunks. Return no vectors if the provider is down, too slow or rejects the call.

    A job then embeds the chunks later. Costs one round trip, or two if nothing was ever embedded.

    Raises:
        Conflict: The knowledge base is embedded with another model.
    """
    model = ctx.embedder.model
    if not chunks:
        return ChunkVectors(model, {})
    try:
        # Half of the remaining time is left for the commit.
        async with asyncio.timeout(None if ctx.seconds_left is None else ctx.seconds_left / 2):
            await EmbeddingSpace(ctx.database).claim(ctx.embedder)
            texts = [chunk.embedding_text for chunk in chunks]
            vectors = await ctx.embedder.embed(texts, Purpose.DOCUMENT)
    except (PlatformFault, RateLimited, TimeoutError, Unavailable) as error:
        if isinstance(error, PlatformFault):  # unlike an outage, it needs an operator
            log.error("note_not_embedded", **error_fields(error))
        return ChunkVectors(model, {})
    ids = [chunk.chunk_id for chunk in chunks]
    return ChunkVectors(model, dict(zip(ids, vectors, strict=True)))
