"""The repository `Cards` stores knowledge cards and queues those of other models for renewal.

A knowledge card is the summary and the takeaways of a chunk. The job `cards` makes one for each
chunk on which the step `card` is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from shared.core.meter import Meter
from shared.firestore.database import Database
from shared.firestore.documents import Document, Reference
from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.stored_documents import read_documents, read_snapshots

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
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


async def ingest(ctx: Context, *sources: Source) -> None:
    """Store sources as ingest does."""
    await Ingestion(ctx.database).save([chunk_source(source) for source in sources], NOON)


async def save(ctx: Context, cards: Mapping[str, KnowledgeCard], model: str = "m-1") -> int:
    """Save cards by chunk id; return the number of chunks that were written."""
    return await Cards(ctx.database).save(cards, model, LATER)


async def read_chunk(ctx: Context, chunk_id: str) -> dict[str, Any]:
    """Return the fields of a stored chunk."""
    return (await read_documents(ctx, "chunks"))[chunk_id]


async def read_update_times(ctx: Context) -> dict[str, object]:
    """Return the time of the last write of each chunk, by chunk id."""
    snapshots = await read_snapshots(ctx, "chunks")
    return {chunk_id: snapshot.update_time for chunk_id, snapshot in snapshots.items()}


async def test_a_card_is_stored_with_its_model_and_date(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    assert await save(ctx, {KNEAD: CARD}) == 1
    assert (await read_chunk(ctx, KNEAD))["knowledge_card"] == {
        "summary": "Knead until smooth.",
        "takeaways": ["Knead.", "Let it rise."],
        "model": "m-1",
        "generated_at": LATER,
    }


async def test_a_card_is_read_back_with_its_chunk(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    stored = await Chunks(ctx.database).get(KNEAD)
    assert stored is not None
    assert stored.chunk.knowledge_card == CARD


async def test_a_new_card_queues_its_chunk_for_the_index(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    pending = (await read_chunk(ctx, KNEAD))["pending"]
    assert pending == {"embed": NOON, "extract": NOON, "index": LATER}


async def test_an_equal_card_removes_the_pending_step(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    await set_fields(ctx, f"chunks/{KNEAD}", {"pending": {"card": LATER}, "tries": {"card": 2}})

    assert await save(ctx, {KNEAD: CARD}) == 1
    chunk = await read_chunk(ctx, KNEAD)
    assert set(chunk["pending"]) == {"embed", "extract", "index"}
    assert chunk["tries"] == {}
    assert await save(ctx, {KNEAD: CARD}) == 0


def choose_always(model: str) -> Callable[[str], str]:
    """Return a function that chooses this model for each text."""
    return lambda _text: model


async def test_only_cards_of_other_models_are_renewed(ctx: Context) -> None:
    await ingest(ctx, BAKING, SAILING)
    await save(ctx, {KNEAD: CARD}, "extractive")
    await save(ctx, {STARTER: CARD}, "m-1")
    await save(ctx, {BAKE: CARD}, "m-2")
    before = await ChunkQueue(ctx.database).count_pending("card")
    assert await Cards(ctx.database).renew(choose_always("m-2"), LATER) == 2
    assert await ChunkQueue(ctx.database).count_pending("card") == before + 2
    assert "card" not in (await read_chunk(ctx, BAKE))["pending"]
    assert "knowledge_card" in await read_chunk(ctx, KNEAD)


async def test_cards_are_renewed_by_the_model_for_each_text(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    await save(ctx, dict.fromkeys((KNEAD, STARTER, BAKE), CARD), "extractive")

    def choose_model(text: str) -> str:
        return "m-2" if "starter" in text else "extractive"

    assert await Cards(ctx.database).renew(choose_model, LATER) == 1
    assert (await read_chunk(ctx, STARTER))["pending"]["card"] == LATER
    assert "card" not in (await read_chunk(ctx, KNEAD))["pending"]
    assert "card" not in (await read_chunk(ctx, BAKE))["pending"]


async def test_manual_pending_and_deleted_cards_are_not_renewed(ctx: Context) -> None:
    await ingest(ctx, BAKING, SAILING)
    await save(ctx, {KNEAD: CARD}, BY_HAND)
    await save(ctx, {STARTER: CARD, BAKE: CARD}, "extractive")
    await ingest(ctx, replace(BAKING, sections=BAKING.sections[:2]))  # deletes BAKE

    assert await Cards(ctx.database).renew(choose_always("m-2"), LATER) == 1
    before = await read_update_times(ctx)
    assert await Cards(ctx.database).renew(choose_always("m-2"), LATER) == 0
    assert await read_update_times(ctx) == before
    assert "card" not in (await read_chunk(ctx, KNEAD))["pending"]


async def test_cards_of_several_pages_are_renewed(ctx: Context) -> None:
    await ingest(ctx, MANY)
    await save(ctx, {chunk.chunk_id: CARD for chunk in chunk_source(MANY).chunks}, "extractive")
    assert await Cards(ctx.database).renew(choose_always("m-2"), LATER) == 230


async def test_other_chunks_are_not_touched(ctx: Context) -> None:
    await ingest(ctx, BAKING, SAILING)
    before = await read_update_times(ctx)
    await save(ctx, {KNEAD: CARD})
    after = await read_update_times(ctx)
    assert {chunk_id for chunk_id in after if after[chunk_id] != before[chunk_id]} == {KNEAD}


async def test_an_equal_card_is_not_written_again(ctx: Context, app: App) -> None:
    await ingest(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    call_ctx = make_call_context(app)
    assert await save(call_ctx, {KNEAD: CARD}, model="m-2") == 0
    assert get_read_cost(call_ctx) == ReadCost(round_trips=1, documents=1)


async def test_a_card_whose_takeaways_differ_is_replaced(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    assert await save(ctx, {KNEAD: replace(CARD, takeaways=("Knead.",))}) == 1
    assert (await read_chunk(ctx, KNEAD))["knowledge_card"]["takeaways"] == ["Knead."]


async def test_missing_and_deleted_chunks_are_skipped(ctx: Context) -> None:
    await ingest(ctx, BAKING)
    await ingest(ctx, replace(BAKING, sections=BAKING.sections[:1]))  # deletes BAKE
    assert await save(ctx, {"nowhere": CARD, BAKE: CARD, KNEAD: CARD}) == 1
    chunks = await read_documents(ctx, "chunks")
    assert {chunk_id for chunk_id in chunks if "knowledge_card" in chunks[chunk_id]} == {KNEAD}


async def test_a_chunk_that_changes_while_its_card_is_saved_is_skipped(
    app: App, ctx: Context
) -> None:
    await ingest(ctx, BAKING)
    cards = Cards(RacingDatabase(app.connection, Meter()))
    assert await cards.save({KNEAD: CARD, STARTER: CARD}, "m-1", LATER) == 1
    assert "knowledge_card" not in await read_chunk(ctx, KNEAD)


async def test_saving_no_cards_costs_nothing(ctx: Context) -> None:
    assert await save(ctx, {}) == 0
    assert get_read_cost(ctx) == ReadCost(round_trips=0, documents=0)


async def test_many_cards_take_several_commits(ctx: Context) -> None:
    await ingest(ctx, MANY)
    cards = {chunk.chunk_id: CARD for chunk in chunk_source(MANY).chunks}
    assert await save(ctx, cards) == 230
    assert await save(ctx, cards) == 0
