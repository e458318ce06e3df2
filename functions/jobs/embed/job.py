"""Give every chunk that waits for it a vector."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.errors import InvalidInput
from shared.job import Failure, Job, Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.ai.embedding import Vector
    from shared.deps import Deps
    from shared.job import Budget
    from shared.store.chunks import PendingChunk

STEP: Final = "embed"
PAGE: Final = 256
"""How many pending chunks are read at once."""


async def embed(deps: Deps, budget: Budget) -> Report:
    """Embed pending chunks, page by page, while the page before is being written.

    A chunk leaves the queue in the commit that stores its vector, on the condition that nobody
    edited it since it was read: killed anywhere, the next run goes on with what is left.

    Raises:
        Conflict: The database is embedded with another model.
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    await deps.store.embedding_space.claim(deps.embedder)
    while not budget.spent:
        page = await deps.store.chunks.pending(STEP, deps.clock(), PAGE)
        if not page:
            return report
        await _embed_page(page, deps, budget, report)
    report.finished = False
    return report


async def _embed_page(
    page: Sequence[PendingChunk], deps: Deps, budget: Budget, report: Report
) -> None:
    """Embed a page batch by batch; each is written while the next is embedded."""
    writing = asyncio.create_task(asyncio.sleep(0))
    try:
        for batch in _batches(page, deps.embedder.batch_size):
            if budget.spent:
                break
            pairs = await _vectors(batch, deps, report)
            await writing
            writing = asyncio.create_task(_store(pairs, deps, budget, report))
    finally:
        await writing


async def _vectors(
    batch: Sequence[PendingChunk], deps: Deps, report: Report
) -> list[tuple[PendingChunk, Vector]]:
    """Embed a batch; where the provider refuses it, one by one, so that one text stops no other."""
    try:
        vectors = await deps.embedder.embed([chunk.text for chunk in batch], Purpose.DOCUMENT)
    except InvalidInput as error:
        if len(batch) > 1:
            return [pair for chunk in batch for pair in await _vectors([chunk], deps, report)]
        await deps.store.chunks.failed(STEP, batch[0], error.message, deps.clock())
        report.failures.append(Failure(batch[0].chunk_id, error.message))
        return []
    return list(zip(batch, vectors, strict=True))


async def _store(
    pairs: Sequence[tuple[PendingChunk, Vector]], deps: Deps, budget: Budget, report: Report
) -> None:
    chunks = [chunk for chunk, _ in pairs]
    vectors = [vector for _, vector in pairs]
    stored = await deps.store.chunks.embedded(chunks, vectors, deps.embedder.model)
    report.counts["embedded"] += stored
    budget.progress(stored)


def _batches(page: Sequence[PendingChunk], size: int) -> Iterator[Sequence[PendingChunk]]:
    return (page[start : start + size] for start in range(0, len(page), size))


async def waiting(deps: Deps) -> int:
    """How many chunks wait for a vector."""
    return await deps.store.chunks.count_pending(STEP)


JOB = Job(
    name="embed",
    title="Embed new and changed chunks",
    run=embed,
    total=waiting,
    schedule="*/15 * * * *",
)
