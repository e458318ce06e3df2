"""Giving passages that wait their vectors, batch by batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose, require_provider
from shared.core.bisection import bisect
from shared.core.errors import CarrelError
from shared.core.log import error_fields, log
from shared.knowledge.queue import ChunkQueue, RefusedChunks
from shared.pipeline.worker import defer_chunk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from shared.ai.embedding import Vector
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    Pair = tuple[PendingChunk, Vector]
    Look = Callable[[], Awaitable[Sequence[PendingChunk]]]
    """Gives some of the passages that wait; none when none do."""

STEP: Final = "embed"
PAGE: Final = 256
"""How many pending chunks are read at once."""


async def embed_pages(look: Look, ctx: Context, budget: Budget, report: Report) -> None:
    """Embed the passages that a look finds, and look again, until it finds none.

    A chunk leaves the queue in the commit that stores its vector, on the condition that nobody
    edited it since it was read: killed anywhere, the next run goes on with what is left.

    Raises:
        Unavailable: The embedding provider or the database is down.
    """
    while not budget.spent:
        page = await look()
        if not page:
            return
        await _embed_page(page, ctx, budget, report)
    report.finished = False


async def vectors_of(texts: Sequence[str], ctx: Context) -> list[Vector | CarrelError]:
    """Embed texts; one that fails does not stop the others.

    Each text that fails is followed by a probe: a provider that is down or set up wrongly fails any
    text, and no text is blamed for that.

    Returns:
        For each text its vector, or the error.

    Raises:
        CarrelError: The provider is down or set up wrongly.
    """

    async def embed(batch: Sequence[str]) -> Sequence[Vector]:
        try:
            return await ctx.embedder.embed(batch, Purpose.DOCUMENT)
        except CarrelError as error:
            log.warning("batch_failed", job=STEP, size=len(batch), **error_fields(error))
            raise

    vectors: list[Vector | CarrelError] = []
    async for _, outcome in bisect(texts, embed, CarrelError):
        if isinstance(outcome, CarrelError):
            await require_provider(ctx.embedder, outcome)
            vectors.append(outcome)
        else:
            vectors += outcome
    return vectors


async def keep(pairs: Sequence[Pair], ctx: Context, budget: Budget, report: Report) -> None:
    """Store vectors of passages, each if nobody edited it; one that does not fit is put off."""
    chunks = [chunk for chunk, _ in pairs]
    vectors = [vector for _, vector in pairs]
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
    """Embed a page batch by batch; each is written while the next is embedded."""
    writing = asyncio.create_task(asyncio.sleep(0))
    try:
        for batch in _batches(page, ctx.embedder.batch_size):
            if budget.spent:
                break
            pairs = await _pairs(batch, ctx, report)
            await writing
            writing = asyncio.create_task(keep(pairs, ctx, budget, report))
    finally:
        await writing


async def _pairs(batch: Sequence[PendingChunk], ctx: Context, report: Report) -> list[Pair]:
    """Embed a batch, and put those off that fail."""
    pairs: list[Pair] = []
    made = await vectors_of([chunk.text for chunk in batch], ctx)
    for chunk, vector in zip(batch, made, strict=True):
        if isinstance(vector, CarrelError):
            await defer_chunk(STEP, chunk, vector, ctx, report)
        else:
            pairs.append((chunk, vector))
    return pairs


def _batches(page: Sequence[PendingChunk], size: int) -> Iterator[Sequence[PendingChunk]]:
    return (page[start : start + size] for start in range(0, len(page), size))
