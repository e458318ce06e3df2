"""Embeds pending passages batch by batch, with online requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose, raise_if_provider_fails
from shared.core.bisection import bisect_batch
from shared.core.blocks import split
from shared.core.errors import CarrelError
from shared.core.log import error_fields, log
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue, RefusedChunks
from shared.pipeline.worker import defer_chunk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.ai.embedding import Vector
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    EmbeddedChunk = tuple[PendingChunk, Vector]
    LoadPage = Callable[[], Awaitable[Sequence[PendingChunk]]]
    """Loads a page of pending passages. The page is empty if there are none."""

STEP: Final = "embed"
"""The step that is pending on a chunk until it is embedded."""
PAGE: Final = 256
"""Pending chunks are read in pages of this size."""


async def embed_pages(load_page: LoadPage, ctx: Context, budget: Budget, report: Report) -> None:
    """Embed pending passages page by page, until there are none.

    The commit that stores a vector also removes the chunk from the queue, provided that the chunk
    was not edited since it was read. The next run therefore continues where a killed run stopped.

    Raises:
        Unavailable: The embedding provider or the database is down.
    """
    while not budget.spent:
        page = await load_page()
        if not page:
            return
        await _embed_page(page, ctx, budget, report)
    report.finished = False


async def embed_texts(texts: Sequence[str], ctx: Context) -> list[Vector | CarrelError]:
    """Embed texts. A text that fails does not stop the others.

    When a text fails, a probe shows whether the provider fails for every text.

    Returns:
        The vector of each text, or the error.

    Raises:
        CarrelError: The provider is down or misconfigured.
    """

    async def embed(batch: Sequence[str]) -> Sequence[Vector]:
        try:
            return await ctx.embedder.embed(batch, Purpose.DOCUMENT)
        except CarrelError as error:
            log.warning("batch_failed", job=STEP, size=len(batch), **error_fields(error))
            raise

    vectors: list[Vector | CarrelError] = []
    async for _, outcome in bisect_batch(texts, embed, CarrelError):
        if isinstance(outcome, CarrelError):
            await raise_if_provider_fails(ctx.embedder, outcome)
            vectors.append(outcome)
        else:
            vectors += outcome
    return vectors


async def store_vectors(
    embedded: Sequence[EmbeddedChunk], ctx: Context, budget: Budget, report: Report
) -> None:
    """Store the vectors of chunks that were not edited. Defer chunks that become too large."""
    chunks = [chunk for chunk, _ in embedded]
    texts = [chunk.text for chunk in chunks]
    await EmbeddingSpace(ctx.database).record_languages(ctx.embedder, texts)
    vectors = [vector for _, vector in embedded]
    try:
        stored = await ChunkQueue(ctx.database).store_vectors(
            chunks, vectors, ctx.embedder.model, ctx.clock()
        )
    except RefusedChunks as refused:
        stored = refused.stored
        for chunk in refused.chunks:
            await defer_chunk(STEP, chunk, refused, ctx, report)
    report.counts["embedded"] += stored
    budget.progress(stored)


async def _embed_page(
    page: Sequence[PendingChunk], ctx: Context, budget: Budget, report: Report
) -> None:
    """Embed a page batch by batch, and store each batch while the next one is embedded."""
    storing = asyncio.create_task(asyncio.sleep(0))  # no batch is being stored yet
    try:
        for batch in split(page, ctx.embedder.batch_size):
            if budget.spent:
                break
            embedded = await _embed_batch(batch, ctx, report)
            await storing
            storing = asyncio.create_task(store_vectors(embedded, ctx, budget, report))
    finally:
        await storing


async def _embed_batch(
    batch: Sequence[PendingChunk], ctx: Context, report: Report
) -> list[EmbeddedChunk]:
    """Embed a batch, and defer the chunks that fail."""
    embedded: list[EmbeddedChunk] = []
    vectors = await embed_texts([chunk.text for chunk in batch], ctx)
    for chunk, vector in zip(batch, vectors, strict=True):
        if isinstance(vector, CarrelError):
            await defer_chunk(STEP, chunk, vector, ctx, report)
        else:
            embedded.append((chunk, vector))
    return embedded
