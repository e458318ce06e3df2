"""Give every chunk that waits for it a knowledge card."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.cards.extractive import MODEL as EXTRACTIVE
from functions.jobs.cards.extractive import extractive_card
from functions.jobs.cards.generated import LEAST, generate_card, probe
from shared.ai.generation import BadAnswer
from shared.core.errors import InvalidInput
from shared.knowledge.cards import STEP, Cards, card_change
from shared.knowledge.queue import MAX_TRIES, Done, Steps
from shared.pipeline.worker import AT_ONCE, PAGE, Work, parked_chunks, work_off
from shared.runtime.capabilities import Need
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.ai.generation import Generator
    from shared.knowledge.chunk import KnowledgeCard
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Deps
    from shared.runtime.job import Budget

BY_MODEL: Final = "by language model"
BY_EXTRACTION: Final = "extractive"
"""What the report counts, beside all."""


async def cards(deps: Deps, budget: Budget) -> Report:
    """Make the cards of chunks that wait for one, by the language model where one is configured.

    A chunk whose text changes waits for another card. What the model refuses for good, or cannot
    answer in five runs, gets an extractive card, so that no chunk stays without.

    Raises:
        CarrelError: The language model or the database fails for any chunk.
    """
    report = Report()
    generator = deps.generator
    work = Work(
        step=STEP,
        counted="cards",
        make=partial(_make, deps=deps, report=report),
        probe=partial(_probe, deps=deps),
        at_once=AT_ONCE if generator else PAGE,  # what takes no time is stored a page at a time
    )
    await work_off(work, deps, budget, report)
    return report


async def renew(deps: Deps) -> int:
    """Let all cards be made again that another model made than the one that would make them now."""
    return await Cards(deps.database).renew(partial(_maker, deps=deps), deps.clock())


def _maker(content: str, deps: Deps) -> str:
    generator = _asked_about(content, deps)
    return generator.model if generator else EXTRACTIVE


def _asked_about(content: str, deps: Deps) -> Generator | None:
    """The language model, where there is one and the passage is a matter for it."""
    return deps.generator if len(content.strip()) >= LEAST else None


async def _make(chunk: PendingChunk, deps: Deps, report: Report) -> Done:
    generator = _asked_about(chunk.content, deps)
    if generator:
        card = await _written(chunk, generator, deps)
        if card:
            report.counts[BY_MODEL] += 1
            return Done(chunk, card_change(card, generator.model, deps.clock()))
    report.counts[BY_EXTRACTION] += 1
    card = extractive_card(chunk.content, chunk.title)
    return Done(chunk, card_change(card, EXTRACTIVE, deps.clock()))


async def _written(chunk: PendingChunk, generator: Generator, deps: Deps) -> KnowledgeCard | None:
    """The card that the model writes; None if it never will, though it works for other texts."""
    try:
        return await generate_card(generator, chunk.title, chunk.content, deps.meter)
    except (InvalidInput, BadAnswer) as error:
        if isinstance(error, BadAnswer) and chunk.tries + 1 < MAX_TRIES:
            raise
    await probe(generator, deps.meter)
    return None


async def _probe(deps: Deps) -> None:
    if deps.generator:
        await probe(deps.generator, deps.meter)


async def waiting(deps: Deps) -> int:
    """How many chunks wait for a card."""
    return await Steps(deps.database).count_pending(STEP)


JOB = Job(
    name="cards",
    title="Make knowledge cards of new and changed chunks",
    run=cards,
    total=waiting,
    schedule="*/30 * * * *",
    parking=parked_chunks(STEP),
    renew=renew,
    needs=frozenset({Need.GENERATION}),
)
