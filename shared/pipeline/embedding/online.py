"""Giving passages that wait their vectors, batch by batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.core.errors import CarrelError
from shared.core.log import describe, log
from shared.knowledge.queue import Refused, Steps
from shared.runtime.job import Failure

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
PROBE: Final = "carrel"
"""A text that every provider embeds, if it works at all."""
OUTAGE: Final = 3
"""After how many failures in a batch to ask whether the provider works, and not at its end."""


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
    """Embed texts; where that fails, one by one, so that none stops the others.

    Returns:
        For each its vector, or why there is none.

    Raises:
        CarrelError: The provider is down or set up wrongly: that is no text's fault.
    """
    try:
        return list(await ctx.embedder.embed(texts, Purpose.DOCUMENT))
    except CarrelError as error:
        log.warning("batch_failed", job=STEP, size=len(texts), **describe(error))
    return await _apart(texts, ctx)


async def _apart(texts: Sequence[str], ctx: Context) -> list[Vector | CarrelError]:
    """Embed each text for itself.

    A provider that is down or set up wrongly fails any text: it is given one that nobody could
    refuse before a failure counts against a text.
    """
    made: list[Vector | CarrelError] = []
    failed: list[CarrelError] = []
    for text in texts:
        try:
            made += await ctx.embedder.embed([text], Purpose.DOCUMENT)
        except CarrelError as error:
            made.append(error)
            failed.append(error)
            if len(failed) == OUTAGE:
                await _require_provider(ctx, error)
    if failed:
        await _require_provider(ctx, failed[-1])
    return made


async def _require_provider(ctx: Context, cause: CarrelError) -> None:
    try:
        await ctx.embedder.embed([PROBE], Purpose.DOCUMENT)
    except CarrelError:
        raise cause from None


async def put_off(chunk: PendingChunk, error: CarrelError, ctx: Context, report: Report) -> None:
    """Try a passage again later, and say so."""
    reason = f"{error.code}: {error.message}"
    await Steps(ctx.database).failed(STEP, chunk, reason, ctx.clock())
    report.failures.append(Failure(chunk.chunk_id, reason))


async def keep(pairs: Sequence[Pair], ctx: Context, budget: Budget, report: Report) -> None:
    """Store vectors of passages, each if nobody edited it; one that does not fit is put off."""
    chunks = [chunk for chunk, _ in pairs]
    vectors = [vector for _, vector in pairs]
    try:
        stored = await Steps(ctx.database).embedded(
            chunks, vectors, ctx.embedder.model, ctx.clock()
        )
    except Refused as refused:
        stored = refused.stored
        for chunk in refused.chunks:
            await put_off(chunk, refused, ctx, report)
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
            await put_off(chunk, vector, ctx, report)
        else:
            pairs.append((chunk, vector))
    return pairs


def _batches(page: Sequence[PendingChunk], size: int) -> Iterator[Sequence[PendingChunk]]:
    return (page[start : start + size] for start in range(0, len(page), size))
