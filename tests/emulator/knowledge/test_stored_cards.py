"""The repository `Cards` queues the knowledge cards of other models for renewal.

A knowledge card is the summary and the takeaways of a chunk. The job `cards` makes one for each
chunk on which the step `card` is pending.
"""

from dataclasses import replace
from datetime import timedelta

from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from tests.support.cards import save_cards
from tests.support.clock import NOON
from tests.support.knowledge import BAKING, SAILING, chunk_source, ingest_sources
from tests.support.stored_documents import read_chunks, read_snapshots

LATER = NOON + timedelta(days=1)
KNEAD, STARTER, BAKE = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
CARD = KnowledgeCard("Knead until smooth.", ("Knead.", "Let it rise."))
MANY = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(230)))
"""A source of more chunks than one page has."""


async def read_update_times(ctx: Context) -> dict[str, object]:
    snapshots = await read_snapshots(ctx, "chunks")
    return {chunk_id: snapshot.update_time for chunk_id, snapshot in snapshots.items()}


async def test_only_cards_of_other_models_are_renewed(ctx: Context) -> None:
    """Each text may have a model of its own."""
    await ingest_sources(ctx, BAKING, now=NOON)
    for chunk_id, model in ((KNEAD, "extractive"), (STARTER, "m-1"), (BAKE, "m-2")):
        await save_cards(ctx, {chunk_id: CARD}, model, LATER)
    cards = Cards(ctx.database)
    assert await cards.renew(lambda text: "m-3" if "starter" in text else "m-2", LATER) == 2
    pending = {name: chunk["pending"] for name, chunk in (await read_chunks(ctx)).items()}
    assert pending[KNEAD]["card"] == pending[STARTER]["card"] == LATER
    assert "card" not in pending[BAKE]
    assert "knowledge_card" in (await read_chunks(ctx))[KNEAD]


async def test_manual_pending_and_deleted_cards_are_not_renewed(ctx: Context) -> None:
    await ingest_sources(ctx, BAKING, SAILING, now=NOON)
    await save_cards(ctx, {KNEAD: CARD}, BY_HAND, LATER)
    await save_cards(ctx, {STARTER: CARD, BAKE: CARD}, "extractive", LATER)
    await ingest_sources(
        ctx, replace(BAKING, sections=BAKING.sections[:2]), now=NOON
    )  # deletes BAKE

    assert await Cards(ctx.database).renew(lambda _: "m-2", LATER) == 1
    before = await read_update_times(ctx)
    assert await Cards(ctx.database).renew(lambda _: "m-2", LATER) == 0
    assert await read_update_times(ctx) == before
    assert "card" not in ((await read_chunks(ctx))[KNEAD])["pending"]


async def test_many_cards_are_renewed_page_by_page(ctx: Context) -> None:
    cards = dict.fromkeys([chunk.chunk_id for chunk in await ingest_sources(ctx, MANY)], CARD)
    await save_cards(ctx, cards, "extractive", LATER)
    assert await Cards(ctx.database).renew(lambda _: "m-2", LATER) == 230
