"""Performs a step of the pipeline for the chunks that wait for it, and isolates failures.

A chunk on which a step fails is deferred: it is tried again later. After five failed attempts it is
dead-lettered: it is not tried again until somebody queues it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.blocks import split
from shared.core.errors import CarrelError, PlatformFault, Unavailable
from shared.core.log import error_fields, log
from shared.firestore.database import LeaseLost
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue, RefusedChunks
from shared.runtime.job import DeadLetters, Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.knowledge.queue import BuildWrites, PendingChunk, QueuedChunk, StepResult
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    ChunkFailure = tuple[PendingChunk, CarrelError]
    """A chunk, and why the step failed on it."""


async def run_isolated(name: str, work: Awaitable[None], ctx: Context, report: Report) -> bool:
    """Run work, and return whether it succeeded. A failure is added to the report, not raised.

    Raises:
        CarrelError: The database is down, or another run has taken the lease.
    """
    try:
        await work
    except LeaseLost:
        raise
    except (CarrelError, AttributeError, LookupError, TypeError, ValueError) as error:
        await _require_database(ctx, error)
        log.error("set_apart", **error_fields(error))
        reason = error.message if isinstance(error, CarrelError) else "the document is malformed"
        report.failures.append(Failure(name, reason))
        return False
    return True


async def _require_database(ctx: Context, cause: Exception) -> None:
    """Raise `cause` if the database does not answer an unrelated read: then all work fails."""
    try:
        await EmbeddingSpace(ctx.database).load_space()
    except CarrelError:
        raise cause from None


async def defer_chunk(
    step: str, chunk: QueuedChunk, reason: CarrelError | str, ctx: Context, report: Report
) -> None:
    """Report a chunk on which a step failed, and defer it, or dead-letter it after five tries."""
    failure = Failure.of(chunk.chunk_id, reason)
    await ChunkQueue(ctx.database).defer(step, chunk, failure.reason, ctx.clock())
    report.failures.append(failure)


def make_dead_letters(step: str) -> DeadLetters:
    """Make the functions by which a job loads and retries the dead letters of its step."""

    async def load(ctx: Context, limit: int) -> list[Failure]:
        chunks = await ChunkQueue(ctx.database).load_dead_letters(step, limit)
        return [Failure(chunk.chunk_id, chunk.reason) for chunk in chunks]

    async def retry(ctx: Context) -> int:
        return await ChunkQueue(ctx.database).retry(step, ctx.clock())

    return DeadLetters(load=load, retry=retry)


PAGE: Final = 64
"""Pending chunks are read in pages of this size."""
BATCH_SIZE: Final = 8
"""The default number of chunks that are processed concurrently, and stored in one commit."""
MAX_ATTEMPTS: Final = 2
"""The maximum number of times that a run processes a chunk. A chunk that is edited again and again
must not keep the run busy."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """A step of the pipeline, and the function that performs it.

    Attributes:
        step: The step that the chunks wait for.
        count: The name under which the report counts completed chunks.
        process: Performs the step for one chunk.
        probe: Raises an error if the step would fail for every chunk, because a provider is down or
            misconfigured.
        batch_size: The number of chunks that are processed concurrently.
        build_writes: Builds further writes of the commit that stores results.
    """

    step: str
    count: str
    process: Callable[[PendingChunk], Awaitable[StepResult]]
    probe: Callable[[], Awaitable[object]]
    batch_size: int = BATCH_SIZE
    build_writes: BuildWrites | None = None


async def process_pending(work: StepWork, ctx: Context, budget: Budget, report: Report) -> None:
    """Perform a step for all chunks that wait for it.

    Results are stored batch by batch, so that the next run continues where a killed run stopped. A
    result is stored only if the text of its chunk has not changed. A chunk that fails is retried in
    a later run, and does not stop the others.

    Raises:
        CarrelError: The step would fail for every chunk.
    """
    attempts = Counter[str]()
    while True:
        pending = await ChunkQueue(ctx.database).load_pending(work.step, ctx.clock(), PAGE)
        page = [chunk for chunk in pending if attempts[chunk.chunk_id] < MAX_ATTEMPTS]
        if not page:
            return
        attempts.update(chunk.chunk_id for chunk in page)
        for batch in split(page, work.batch_size):
            if budget.spent:
                report.finished = False
                return
            for chunk, error in await _process(batch, work, ctx, budget, report):
                await defer_chunk(work.step, chunk, error, ctx, report)


async def _process(
    chunks: Sequence[PendingChunk], work: StepWork, ctx: Context, budget: Budget, report: Report
) -> list[ChunkFailure]:
    """Process chunks, and return the failures that single chunks caused.

    A probe distinguishes an outage from a failure of a single chunk. If an outage is over when the
    probe runs, the chunks that failed because of it are processed once more, one by one, while
    there is time.

    Raises:
        CarrelError: The probe failed.
    """
    failures = await _attempt(chunks, work, ctx, budget, report)
    if not failures:
        return []
    await work.probe()
    repeated_failures: list[ChunkFailure] = []
    for chunk, error in failures:
        if isinstance(error, Unavailable) and not budget.spent:
            repeated_failures += await _attempt([chunk], work, ctx, budget, report)
    if repeated_failures:
        await work.probe()
    permanent_failures = [
        (chunk, error) for chunk, error in failures if not isinstance(error, Unavailable)
    ]
    return [*permanent_failures, *repeated_failures]


async def _attempt(
    chunks: Sequence[PendingChunk], work: StepWork, ctx: Context, budget: Budget, report: Report
) -> list[ChunkFailure]:
    """Process chunks concurrently, store the results in one commit, and return the failures."""
    outcomes = await asyncio.gather(*map(work.process, chunks), return_exceptions=True)
    results: list[StepResult] = []
    failures: list[ChunkFailure] = []
    for chunk, outcome in zip(chunks, outcomes, strict=True):
        if isinstance(outcome, Exception):
            failures.append((chunk, _log_failure(outcome, work.step)))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            results.append(outcome)
    try:
        queue = ChunkQueue(ctx.database)
        report.counts[work.count] += await queue.complete(work.step, results, work.build_writes)
    except RefusedChunks as refused:
        report.counts[work.count] += refused.stored
        failures += [(chunk, refused) for chunk in refused.chunks]
    budget.progress(len(results))
    return failures


def _log_failure(error: Exception, step: str) -> CarrelError:
    """Log an error, and return it. An unexpected error is returned as a `PlatformFault`."""
    log.warning("step_failed", step=step, **error_fields(error))
    return error if isinstance(error, CarrelError) else PlatformFault(type(error).__name__)
