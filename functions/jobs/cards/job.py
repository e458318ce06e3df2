"""Give every chunk that waits for it a knowledge card."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.cards.extractive import MODEL as EXTRACTIVE
from functions.jobs.cards.extractive import extractive_card
from functions.jobs.cards.generated import LEAST, generate_card, probe
from shared.ai.generation import InvalidAnswer
from shared.core.deferral import MAX_TRIES
from shared.core.errors import InvalidInput
from shared.knowledge.cards import STEP, Cards, card_change
from shared.knowledge.queue import ChunkQueue, StepResult
from shared.pipeline.worker import AT_ONCE, PAGE, StepWork, dead_lettered_chunks, process_pending
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.ai.generation import Generator
    from shared.knowledge.chunk import KnowledgeCard
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

BY_MODEL: Final = "by language model"
BY_EXTRACTION: Final = "extractive"
"""What the report counts, beside all."""


async def cards(ctx: Context, budget: Budget) -> Report:
    """Make the cards of chunks that wait for one, by the language model where one is configured.

    A chunk whose text changes waits for another card. What the model refuses for good, or cannot
    answer in five runs, gets an extractive card, so that no chunk stays without.

    Raises:
        CarrelError: The language model or the database fails for any chunk.
    """
    report = Report()
    generator = ctx.generator
    work = StepWork(
        step=STEP,
        counted="cards",
        make=partial(_make, ctx=ctx, report=report),
        probe=partial(_probe, ctx=ctx),
        at_once=AT_ONCE if generator else PAGE,  # what takes no time is stored a page at a time
    )
    await process_pending(work, ctx, budget, report)
    return report


async def renew(ctx: Context) -> int:
    """Let all cards be made again that another model made than the one that would make them now."""
    return await Cards(ctx.database).renew(partial(_maker, ctx=ctx), ctx.clock())


def _maker(content: str, ctx: Context) -> str:
    generator = _asked_about(content, ctx)
    return generator.model if generator else EXTRACTIVE


def _asked_about(content: str, ctx: Context) -> Generator | None:
    """The language model, where there is one and the passage is a matter for it."""
    return ctx.generator if len(content.strip()) >= LEAST else None


async def _make(chunk: PendingChunk, ctx: Context, report: Report) -> StepResult:
    generator = _asked_about(chunk.content, ctx)
    if generator:
        card = await _written(chunk, generator, ctx)
        if card:
            report.counts[BY_MODEL] += 1
            return StepResult(chunk, card_change(card, generator.model, ctx.clock()))
    report.counts[BY_EXTRACTION] += 1
    card = extractive_card(chunk.content, chunk.title)
    return StepResult(chunk, card_change(card, EXTRACTIVE, ctx.clock()))


async def _written(chunk: PendingChunk, generator: Generator, ctx: Context) -> KnowledgeCard | None:
    """The card that the model writes; None if it never will, though it works for other texts."""
    try:
        return await generate_card(generator, chunk.title, chunk.content, ctx.meter)
    except (InvalidInput, InvalidAnswer) as error:
        if isinstance(error, InvalidAnswer) and chunk.tries + 1 < MAX_TRIES:
            raise
    await probe(generator, ctx.meter)
    return None


async def _probe(ctx: Context) -> None:
    if ctx.generator:
        await probe(ctx.generator, ctx.meter)


async def waiting(ctx: Context) -> int:
    """How many chunks wait for a card."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="cards",
    title="Make knowledge cards of new and changed chunks",
    run=cards,
    total=waiting,
    schedule="*/30 * * * *",
    dead_letters=dead_lettered_chunks(STEP),
    renew=renew,
    capabilities=frozenset({Capability.GENERATION}),
)
