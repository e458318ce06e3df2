"""Process what waits on chunks, isolate what fails, and try again what was given up."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import CarrelError, PlatformFault, Unavailable
from shared.core.log import error_fields, log
from shared.firestore.database import LeaseLost
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue, RefusedChunks
from shared.runtime.job import DeadLetters, Failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.knowledge.queue import PendingChunk, QueuedChunk, StepResult
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    Failed = tuple[PendingChunk, CarrelError]


async def run_isolated(name: str, work: Awaitable[None], ctx: Context, report: Report) -> bool:
    """Do something; where it fails, tell and go on.

    What the database cannot answer in time it may refuse again and again; where it answers nothing
    at all, the run ends.

    Args:
        name: What it is of, for the report.
        work: What to do.
        ctx: To ask the database with.
        report: Takes the failure.

    Returns:
        Whether it went well.

    Raises:
        CarrelError: The database is down, or another run has taken over.
    """
    try:
        await work
    except LeaseLost:
        raise
    except (CarrelError, AttributeError, LookupError, TypeError, ValueError) as error:
        await _require_database(ctx, error)
        log.error("set_apart", **error_fields(error))
        told = error.message if isinstance(error, CarrelError) else "is not as it is stored"
        report.failures.append(Failure(name, told))
        return False
    return True


async def _require_database(ctx: Context, cause: Exception) -> None:
    """Return if the database answers a question that has nothing to do with what failed."""
    try:
        await EmbeddingSpace(ctx.database).stamp()
    except CarrelError:
        raise cause from None


async def defer_chunk(
    step: str, chunk: QueuedChunk, reason: CarrelError | str, ctx: Context, report: Report
) -> None:
    """Report a chunk on which a step failed; a later run retries it, or it is dead-lettered."""
    failure = Failure.of(chunk.chunk_id, reason)
    await ChunkQueue(ctx.database).defer(step, chunk, failure.reason, ctx.clock())
    report.failures.append(failure)


def dead_lettered_chunks(step: str) -> DeadLetters:
    """The dead letters of the job that does this step."""

    async def load(ctx: Context, limit: int) -> list[Failure]:
        chunks = await ChunkQueue(ctx.database).dead_letters(step, limit)
        return [Failure(chunk.chunk_id, chunk.reason) for chunk in chunks]

    async def retry(ctx: Context) -> int:
        return await ChunkQueue(ctx.database).retry(step, ctx.clock())

    return DeadLetters(load=load, retry=retry)


PAGE: Final = 64
"""How many waiting chunks are read at once."""
AT_ONCE: Final = 8
"""How many are worked on at once, and stored together."""
MOST_TAKEN: Final = 2
"""How often a run takes a chunk that still waits afterwards."""


@dataclass(frozen=True, slots=True)
class StepWork:
    """What is done to each chunk that waits for a step.

    Attributes:
        step: What they wait for.
        counted: What the report calls those that it was done to.
        make: Makes it of one chunk.
        probe: Fails where it would fail for any chunk, because a provider is down or set up
            wrongly.
        at_once: How many chunks to work on at once.
    """

    step: str
    counted: str
    make: Callable[[PendingChunk], Awaitable[StepResult]]
    probe: Callable[[], Awaitable[object]]
    at_once: int = AT_ONCE


async def process_pending(work: StepWork, ctx: Context, budget: Budget, report: Report) -> None:
    """Do it to the chunks that wait for it, until none waits.

    What was made is stored group by group, each chunk's on the condition that it still says what it
    said: killed anywhere, the next run goes on with what is left. What fails is tried again in a
    later run, and never keeps others waiting.

    Raises:
        CarrelError: It would fail for any chunk.
    """
    taken = Counter[str]()
    while True:
        waiting = await ChunkQueue(ctx.database).pending(work.step, ctx.clock(), PAGE)
        # One that somebody edits again and again is left to the next run.
        page = [chunk for chunk in waiting if taken[chunk.chunk_id] < MOST_TAKEN]
        if not page:
            return
        taken.update(chunk.chunk_id for chunk in page)
        for start in range(0, len(page), work.at_once):
            if budget.spent:
                report.finished = False
                return
            group = page[start : start + work.at_once]
            failed = await _work_on(group, work, ctx, budget, report)
            for chunk, error in failed:
                await defer_chunk(work.step, chunk, error, ctx, report)


async def _work_on(
    chunks: Sequence[PendingChunk], work: StepWork, ctx: Context, budget: Budget, report: Report
) -> list[Failed]:
    """Make and store it; what fails is told.

    A failure that hits any chunk is no chunk's fault. One that is over by now, such as an outage,
    was none either: so what was unavailable is tried once more, one by one, while there is time.
    """
    failed = await _attempt(chunks, work, ctx, budget, report)
    if not failed:
        return []
    await work.probe()
    lasting = [each for each in failed if not isinstance(each[1], Unavailable)]
    still: list[Failed] = []
    for chunk, error in failed:
        if isinstance(error, Unavailable) and not budget.spent:
            still += await _attempt([chunk], work, ctx, budget, report)
    if still:
        await work.probe()
    return [*lasting, *still]


async def _attempt(
    chunks: Sequence[PendingChunk], work: StepWork, ctx: Context, budget: Budget, report: Report
) -> list[Failed]:
    """Make it of all at once, and store what was made together."""
    outcomes = await asyncio.gather(*map(work.make, chunks), return_exceptions=True)
    made: list[StepResult] = []
    failed: list[Failed] = []
    for chunk, outcome in zip(chunks, outcomes, strict=True):
        if isinstance(outcome, Exception):
            failed.append((chunk, _told(outcome, work.step)))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            made.append(outcome)
    try:
        report.counts[work.counted] += await ChunkQueue(ctx.database).complete(work.step, made)
    except RefusedChunks as refused:
        report.counts[work.counted] += refused.stored
        failed += [(chunk, refused) for chunk in refused.chunks]
    budget.progress(len(made))
    return failed


def _told(error: Exception, step: str) -> CarrelError:
    """An error as it is recorded; one that nobody thought of stops no other chunk either."""
    log.warning("step_failed", step=step, **error_fields(error))
    return error if isinstance(error, CarrelError) else PlatformFault(type(error).__name__)
