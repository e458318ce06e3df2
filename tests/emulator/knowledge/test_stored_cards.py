"""The repository `Cards` stores knowledge cards and queues those of other models for renewal.

A knowledge card is the summary and the takeaways of a chunk. The job `cards` makes one for each
chunk on which the step `card` is pending.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.core.meter import Meter
from shared.firestore.database import Database
from shared.firestore.documents import Document, Reference
from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from tests.support.clock import NOON
from tests.support.knowledge import BAKING, SAILING, chunk_source, ingest_sources, set_fields
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.stored_documents import read_chunks, read_documents, read_snapshots

LATER = NOON + timedelta(days=1)
KNEAD, STARTER, BAKE = (chunk.chunk_id for chunk in chunk_source(BAKING).chunks)
CARD = KnowledgeCard("Knead until smooth.", ("Knead.", "Let it rise."))
MANY = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(230)))
"""A source of more chunks than one commit writes."""


class RacingDatabase(Database):
    """A database in which the first document changes as soon as it has been read."""

    async def get_all(
        self, references: Sequence[Reference], fields: Sequence[str] | None = None
    ) -> list[Document]:
        snapshots = await super().get_all(references, fields)
        await self.connection.client.document(references[0].path).update({"title": "Edited"})
        return snapshots


async def save(ctx: Context, cards: Mapping[str, KnowledgeCard], model: str = "m-1") -> int:
    return await Cards(ctx.database).save(cards, model, LATER)


async def read_chunk(ctx: Context, chunk_id: str) -> dict[str, Any]:
    return (await read_documents(ctx, "chunks"))[chunk_id]


async def read_update_times(ctx: Context) -> dict[str, object]:
    snapshots = await read_snapshots(ctx, "chunks")
    return {chunk_id: snapshot.update_time for chunk_id, snapshot in snapshots.items()}


async def test_a_card_is_stored_with_its_model_and_date(ctx: Context) -> None:
    """Its chunk is indexed again. No other chunk is written."""
    await ingest_sources(ctx, BAKING, SAILING, now=NOON)
    before = await read_update_times(ctx)
    assert await save(ctx, {KNEAD: CARD}) == 1
    stored = await read_chunk(ctx, KNEAD)
    assert stored["knowledge_card"] == {
        "summary": "Knead until smooth.",
        "takeaways": ["Knead.", "Let it rise."],
        "model": "m-1",
        "generated_at": LATER,
    }
    assert stored["pending"] == {"embed": NOON, "extract": NOON, "index": LATER}
    chunk = await Chunks(ctx.database).get(KNEAD)
    assert chunk is not None
    assert chunk.chunk.knowledge_card == CARD
    after = await read_update_times(ctx)
    assert {chunk_id for chunk_id in after if after[chunk_id] != before[chunk_id]} == {KNEAD}
    assert await save(ctx, {KNEAD: replace(CARD, takeaways=("Knead.",))}) == 1
    assert (await read_chunk(ctx, KNEAD))["knowledge_card"]["takeaways"] == ["Knead."]


async def test_an_equal_card_removes_the_pending_step(ctx: Context, app: App) -> None:
    """Without one, it is not written again, even if it is of another model."""
    await ingest_sources(ctx, BAKING, now=NOON)
    await save(ctx, {KNEAD: CARD})
    await set_fields(ctx, f"chunks/{KNEAD}", {"pending": {"card": LATER}, "tries": {"card": 2}})
    assert await save(ctx, {KNEAD: CARD}) == 1
    chunk = await read_chunk(ctx, KNEAD)
    assert set(chunk["pending"]) == {"embed", "extract", "index"}
    assert chunk["tries"] == {}
    call_ctx = make_call_context(app)
    assert await save(call_ctx, {KNEAD: CARD}, model="m-2") == 0
    assert get_read_cost(call_ctx) == ReadCost(round_trips=1, documents=1)


async def test_only_cards_of_other_models_are_renewed(ctx: Context) -> None:
    """Each text may have a model of its own."""
    await ingest_sources(ctx, BAKING, now=NOON)
    for chunk_id, model in ((KNEAD, "extractive"), (STARTER, "m-1"), (BAKE, "m-2")):
        await save(ctx, {chunk_id: CARD}, model)
    cards = Cards(ctx.database)
    assert await cards.renew(lambda text: "m-3" if "starter" in text else "m-2", LATER) == 2
    pending = {name: chunk["pending"] for name, chunk in (await read_chunks(ctx)).items()}
    assert pending[KNEAD]["card"] == pending[STARTER]["card"] == LATER
    assert "card" not in pending[BAKE]
    assert "knowledge_card" in await read_chunk(ctx, KNEAD)


async def test_manual_pending_and_deleted_cards_are_not_renewed(ctx: Context) -> None:
    await ingest_sources(ctx, BAKING, SAILING, now=NOON)
    await save(ctx, {KNEAD: CARD}, BY_HAND)
    await save(ctx, {STARTER: CARD, BAKE: CARD}, "extractive")
    await ingest_sources(
        ctx, replace(BAKING, sections=BAKING.sections[:2]), now=NOON
    )  # deletes BAKE

    assert await Cards(ctx.database).renew(lambda _: "m-2", LATER) == 1
    before = await read_update_times(ctx)
    assert await Cards(ctx.database).renew(lambda _: "m-2", LATER) == 0
    assert await read_update_times(ctx) == before
    assert "card" not in (await read_chunk(ctx, KNEAD))["pending"]


async def test_many_cards_take_several_commits_and_are_renewed_page_by_page(ctx: Context) -> None:
    cards = dict.fromkeys([chunk.chunk_id for chunk in await ingest_sources(ctx, MANY)], CARD)
    assert await save(ctx, cards, "extractive") == 230
    assert await save(ctx, cards) == 0
    assert await Cards(ctx.database).renew(lambda _: "m-2", LATER) == 230


async def test_missing_and_deleted_chunks_are_skipped(ctx: Context) -> None:
    await ingest_sources(ctx, BAKING, now=NOON)
    await ingest_sources(
        ctx, replace(BAKING, sections=BAKING.sections[:1]), now=NOON
    )  # deletes BAKE
    assert await save(ctx, {"nowhere": CARD, BAKE: CARD, KNEAD: CARD}) == 1
    chunks = await read_documents(ctx, "chunks")
    assert {chunk_id for chunk_id in chunks if "knowledge_card" in chunks[chunk_id]} == {KNEAD}


async def test_a_chunk_that_changes_while_its_card_is_saved_is_skipped(
    app: App, ctx: Context
) -> None:
    await ingest_sources(ctx, BAKING, now=NOON)
    cards = Cards(RacingDatabase(app.connection, Meter()))
    assert await cards.save({KNEAD: CARD, STARTER: CARD}, "m-1", LATER) == 1
    assert "knowledge_card" not in await read_chunk(ctx, KNEAD)
