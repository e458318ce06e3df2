"""Find decisions, patterns, warnings and methodologies in passages, with a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.jobs.extract.reader import PassageReader
from shared.core.log import log
from shared.extractions.heirs import show_heirs
from shared.extractions.outdated import Outdated
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.worker import StepWork, dead_lettered_chunks, process_pending
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

STEP: Final = "extract"
NO_MODEL: Final = (
    "No language model is configured (GENERATION_PROVIDER): nothing was extracted. Passages go on"
    " waiting for one."
)


async def extract(ctx: Context, budget: Budget) -> Report:
    """Read the passages that wait for it, several at once.

    The extractions of a chunk replace those that it had, in the commit that takes it out of the
    queue, on the condition that nobody edited it since it was read: killed anywhere, the next run
    goes on with what is left. What another passage says already is stored as its duplicate, and not
    shown. Once extractions have another shape, all passages are read again.

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
    if outdated := await Outdated(ctx.database).read_again(ctx.clock()):
        report.counts["outdated"] = outdated
    reader = PassageReader(ctx, ctx.generator, report)
    await process_pending(StepWork(STEP, "read", reader.read, reader.probe), ctx, budget, report)
    await show_heirs(ctx, budget, report)
    return report


async def waiting(ctx: Context) -> int:
    """How many chunks wait to be read; none where there is no language model."""
    return 0 if ctx.generator is None else await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="extract",
    title="Find decisions, patterns, warnings and methodologies",
    run=extract,
    total=waiting,
    schedule="25 * * * *",
    dead_letters=dead_lettered_chunks(STEP),
    capabilities=frozenset({Capability.EMBEDDING, Capability.GENERATION}),
    settings=("topic_aliases",),
)
