"""Give every chunk that waits for it a vector."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.errors import CarrelError
from shared.job import Failure, Job, Report
from shared.logs import describe, log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.ai.embedding import Vector
    from shared.deps import Deps
    from shared.job import Budget
    from shared.store.steps import PendingChunk

    Pair = tuple[PendingChunk, Vector]

STEP: Final = "embed"
PAGE: Final = 256
"""How many pending chunks are read at once."""
PROBE: Final = "carrel"
"""A text that every provider embeds, if it works at all."""
OUTAGE: Final = 3
"""After how many failures in a batch to ask whether the provider works, and not at its end."""


async def embed(deps: Deps, budget: Budget) -> Report:
    """Embed pending chunks, batch by batch, while the batch before is being written.

    A chunk leaves the queue in the commit that stores its vector, on the condition that nobody
    edited it since it was read: killed anywhere, the next run goes on with what is left.

    Raises:
        Conflict: The database is embedded with another model.
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    await deps.store.embedding_space.claim(deps.embedder)
    while not budget.spent:
        page = await deps.store.steps.pending(STEP, deps.clock(), PAGE)
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


async def _vectors(batch: Sequence[PendingChunk], deps: Deps, report: Report) -> list[Pair]:
    """Embed a batch; where that fails, one by one, so that no text stops the others."""
    try:
        return await _embed_together(batch, deps)
    except CarrelError as error:
        log.warning("batch_failed", job=STEP, size=len(batch), **describe(error))
    return await _embed_apart(batch, deps, report)


async def _embed_apart(batch: Sequence[PendingChunk], deps: Deps, report: Report) -> list[Pair]:
    """Embed each chunk for itself, and put those off that fail.

    A provider that is down or set up wrongly fails any text, and that is no chunk's fault: it is
    given a text that nobody could refuse before a failure counts against a chunk.
    """
    pairs: list[Pair] = []
    failed: list[tuple[PendingChunk, CarrelError]] = []
    for chunk in batch:
        try:
            pairs += await _embed_together([chunk], deps)
        except CarrelError as error:
            failed.append((chunk, error))
            if len(failed) == OUTAGE:
                await _require_provider(deps, error)
    if failed:
        await _require_provider(deps, failed[-1][1])
    for chunk, failure in failed:
        await _put_off(chunk, failure, deps, report)
    return pairs


async def _require_provider(deps: Deps, cause: CarrelError) -> None:
    try:
        await deps.embedder.embed([PROBE], Purpose.DOCUMENT)
    except CarrelError:
        raise cause from None


async def _embed_together(batch: Sequence[PendingChunk], deps: Deps) -> list[Pair]:
    vectors = await deps.embedder.embed([chunk.text for chunk in batch], Purpose.DOCUMENT)
    return list(zip(batch, vectors, strict=True))


async def _put_off(chunk: PendingChunk, error: CarrelError, deps: Deps, report: Report) -> None:
    reason = f"{error.code}: {error.message}"
    await deps.store.steps.failed(STEP, chunk, reason, deps.clock())
    report.failures.append(Failure(chunk.chunk_id, reason))


async def _store(pairs: Sequence[Pair], deps: Deps, budget: Budget, report: Report) -> None:
    chunks = [chunk for chunk, _ in pairs]
    vectors = [vector for _, vector in pairs]
    stored = await deps.store.steps.embedded(chunks, vectors, deps.embedder.model)
    report.counts["embedded"] += stored
    budget.progress(stored)


def _batches(page: Sequence[PendingChunk], size: int) -> Iterator[Sequence[PendingChunk]]:
    return (page[start : start + size] for start in range(0, len(page), size))


async def waiting(deps: Deps) -> int:
    """How many chunks wait for a vector."""
    return await deps.store.steps.count_pending(STEP)


JOB = Job(
    name="embed",
    title="Embed new and changed chunks",
    run=embed,
    total=waiting,
    schedule="*/15 * * * *",
)
