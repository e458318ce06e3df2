"""Makes a knowledge card for every chunk that waits for its card."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.cards.extractive import MIN_TEXT, make_extractive_card
from functions.jobs.cards.extractive import MODEL as EXTRACTIVE
from functions.jobs.cards.generated import generate_card, probe
from shared.ai.generation import InvalidAnswer
from shared.core.deferral import MAX_TRIES
from shared.core.errors import InvalidInput
from shared.knowledge.cards import STEP, Cards, build_card_change
from shared.knowledge.queue import ChunkQueue, StepResult
from shared.pipeline.worker import (
    BATCH_SIZE,
    PAGE,
    StepWork,
    make_dead_letters,
    process_pending,
)
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.ai.generation import Generator
    from shared.knowledge.knowledge_card import KnowledgeCard
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

MODEL_COUNT: Final = "by language model"
"""The name under which the report counts cards that the language model wrote."""
EXTRACTIVE_COUNT: Final = "extractive"
"""The name under which the report counts extractive cards."""
NOT_NEEDED_COUNT: Final = "not needed"
"""The name under which the report counts texts whose card would only repeat them."""


async def cards(ctx: Context, budget: Budget) -> Report:
    """Make the pending cards, with the language model if one is configured.

    A chunk whose text changes gets a new card, or none if the text needs none. A chunk that the
    model rejects, or cannot process in `MAX_TRIES` attempts, gets an extractive card.

    Raises:
        CarrelError: The language model or the database fails for every chunk.
    """
    report = Report()
    generator = ctx.generator
    work = StepWork(
        step=STEP,
        count="cards",
        process=partial(_make_card, ctx=ctx, report=report),
        probe=partial(_probe, ctx=ctx),
        batch_size=BATCH_SIZE if generator else PAGE,  # Extractive cards take almost no time.
    )
    await process_pending(work, ctx, budget, report)
    return report


async def renew(ctx: Context) -> int:
    """Queue the chunks whose cards another model would make now. Return their number."""
    return await Cards(ctx.database).renew(partial(_choose_model, ctx=ctx), ctx.clock())


def _choose_model(content: str, ctx: Context) -> str | None:
    generator = _choose_generator(content, ctx)
    if generator:
        return generator.model
    return EXTRACTIVE if make_extractive_card(content) else None


def _choose_generator(content: str, ctx: Context) -> Generator | None:
    """Return the language model, or None if none is configured or the text is too short."""
    return ctx.generator if len(content.strip()) >= MIN_TEXT else None


async def _make_card(chunk: PendingChunk, ctx: Context, report: Report) -> StepResult:
    """Make the card of a chunk, and return the result that stores it."""
    generator = _choose_generator(chunk.content, ctx)
    if generator:
        card = await _generate(chunk, generator, ctx)
        if card:
            report.counts[MODEL_COUNT] += 1
            return StepResult(chunk, build_card_change(card, generator.model, ctx.clock()))
    card = make_extractive_card(chunk.content, chunk.title)
    report.counts[EXTRACTIVE_COUNT if card else NOT_NEEDED_COUNT] += 1
    return StepResult(chunk, build_card_change(card, EXTRACTIVE, ctx.clock()))


async def _generate(
    chunk: PendingChunk, generator: Generator, ctx: Context
) -> KnowledgeCard | None:
    """Have the model write a card. Return None if it fails permanently for this text alone."""
    try:
        return await generate_card(generator, chunk.title, chunk.content, ctx.meter)
    except (InvalidInput, InvalidAnswer) as error:
        # A rejected text stays rejected, but another attempt may give a valid answer.
        if isinstance(error, InvalidAnswer) and chunk.tries + 1 < MAX_TRIES:
            raise
    await probe(generator, ctx.meter)  # Raises an error if the model fails for every text.
    return None


async def _probe(ctx: Context) -> None:
    if ctx.generator:
        await probe(ctx.generator, ctx.meter)


async def count_pending(ctx: Context) -> int:
    """Count the chunks that are waiting for a card."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="cards",
    title="Make knowledge cards of new and changed chunks",
    run=cards,
    total=count_pending,
    schedule="3-59/30 * * * *",
    dead_letters=make_dead_letters(STEP),
    renew=renew,
    capabilities=frozenset({Capability.GENERATION}),
)
