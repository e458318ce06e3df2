"""Extracts decisions, patterns, warnings and methodologies from chunks with a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.jobs.extract.reader import PassageReader
from shared.core.log import log
from shared.extractions.repository import Extractions
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.worker import StepWork, make_dead_letters, process_pending
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

STEP: Final = "extract"
"""The step that is pending on a chunk until its extractions are stored."""
NO_MODEL: Final = (
    "No language model is configured (GENERATION_PROVIDER), so nothing was extracted. The passages"
    " stay in the queue."
)


async def extract(ctx: Context, budget: Budget) -> Report:
    """Extract from the queued chunks, several at the same time.

    One commit replaces the extractions of a chunk and removes the chunk from the queue, unless the
    chunk was edited since it was read. Therefore the next run continues where a killed run stopped.
    An extraction that repeats another chunk's extraction joins its group, and is hidden.

    Raises:
        Conflict: The database is embedded with another model.
        Unavailable: The language model, the embedding provider or the database is down.
    """
    report = Report()
    if ctx.generator is None:
        log.info("no_language_model", job=STEP)
        report.note = NO_MODEL
        return report
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    reader = PassageReader(ctx, ctx.generator, report)
    build_writes = Extractions(ctx.database).build_replacement_writes
    work = StepWork(STEP, "read", reader.read, reader.probe, build_writes=build_writes)
    await process_pending(work, ctx, budget, report)
    return report


async def count_pending(ctx: Context) -> int:
    """Count the queued chunks. Return 0 if no language model is configured."""
    return 0 if ctx.generator is None else await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="extract",
    title="Extract decisions, patterns, warnings and methodologies",
    run=extract,
    total=count_pending,
    schedule="25 * * * *",
    dead_letters=make_dead_letters(STEP),
    capabilities=frozenset({Capability.EMBEDDING, Capability.GENERATION}),
    settings=("topic_aliases",),
)
