"""Storing knowledge cards."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from shared.core.meter import Meter
from shared.firestore.database import Database
from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields
from tests.support.stored_documents import read_documents, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.cloud.firestore import AsyncDocumentReference, DocumentSnapshot

    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
KNEAD, STARTER, BAKE = (make_chunk.chunk_id for make_chunk in chunk_source(BAKING).chunks)
CARD = KnowledgeCard("Knead until smooth.", ("Knead.", "Let it rise."))


class Meddling(Database):
    """A database in which the first document changes as soon as it has been read."""

    async def get_all(
        self, references: Sequence[AsyncDocumentReference], fields: Sequence[str] | None = None
    ) -> list[DocumentSnapshot[Any]]:
        snapshots = await super().get_all(references, fields)
        await references[0].update({"title": "Edited"})
        return snapshots


async def put_in(ctx: Context, *sources: Source) -> None:
    await Ingestion(ctx.database).save([chunk_source(source) for source in sources], NOON)


async def save(ctx: Context, cards: Mapping[str, KnowledgeCard], model: str = "m-1") -> int:
    return await Cards(ctx.database).save(cards, model, LATER)


async def make_chunk(ctx: Context, chunk_id: str) -> dict[str, Any]:
    return (await read_documents(ctx, "chunks"))[chunk_id]


async def test_a_card_has_its_model_and_date(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    assert await save(ctx, {KNEAD: CARD}) == 1
    assert (await make_chunk(ctx, KNEAD))["knowledge_card"] == {
        "summary": "Knead until smooth.",
        "takeaways": ["Knead.", "Let it rise."],
        "model": "m-1",
        "generated_at": LATER,
    }


async def test_a_card_is_read_back_with_its_chunk(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    stored = await Chunks(ctx.database).get(KNEAD)
    assert stored is not None
    assert stored.chunk.knowledge_card == CARD


async def test_only_indexing_is_pending_after_a_new_card(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    pending = (await make_chunk(ctx, KNEAD))["pending"]
    assert pending == {"embed": NOON, "extract": NOON, "index": LATER}


async def test_a_stored_card_keeps_jobs_from_making_another(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    await set_fields(ctx, f"chunks/{KNEAD}", {"pending": {"card": LATER}, "tries": {"card": 2}})
    assert await save(ctx, {KNEAD: CARD}) == 1
    stored_chunk = await make_chunk(ctx, KNEAD)
    assert set(stored_chunk["pending"]) == {"embed", "extract", "index"}
    assert stored_chunk["tries"] == {}
    assert await save(ctx, {KNEAD: CARD}) == 0


def by(model: str) -> Callable[[str], str]:
    return lambda _: model


async def test_only_cards_of_other_models_are_renewed(ctx: Context) -> None:
    await put_in(ctx, BAKING, SAILING)
    await save(ctx, {KNEAD: CARD}, "extractive")
    await save(ctx, {STARTER: CARD}, "m-1")
    await save(ctx, {BAKE: CARD}, "m-2")
    before = await ChunkQueue(ctx.database).count_pending("card")
    assert await Cards(ctx.database).renew(by("m-2"), LATER) == 2
    assert await ChunkQueue(ctx.database).count_pending("card") == before + 2
    assert "card" not in (await make_chunk(ctx, BAKE))["pending"]
    assert "knowledge_card" in await make_chunk(ctx, KNEAD)


async def test_the_model_may_depend_on_the_text(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await save(ctx, dict.fromkeys((KNEAD, STARTER, BAKE), CARD), "extractive")
    maker = {True: "m-2", False: "extractive"}
    cards = Cards(ctx.database)
    assert await cards.renew(lambda content: maker["starter" in content], LATER) == 1
    assert {"card": LATER} | (await make_chunk(ctx, BAKE))["pending"] == (
        await make_chunk(ctx, STARTER)
    )["pending"]


async def test_manual_and_pending_cards_are_left_alone(ctx: Context) -> None:
    await put_in(ctx, BAKING, SAILING)
    await save(ctx, {KNEAD: CARD}, BY_HAND)
    await save(ctx, {STARTER: CARD, BAKE: CARD}, "extractive")
    await put_in(ctx, replace(BAKING, sections=BAKING.sections[:2]))
    assert await Cards(ctx.database).renew(by("m-2"), LATER) == 1
    before = await read_snapshots(ctx, "chunks")
    assert await Cards(ctx.database).renew(by("m-2"), LATER) == 0
    after = await read_snapshots(ctx, "chunks")
    assert [item.update_time for item in before.values()] == [
        entry.update_time for entry in after.values()
    ]
    assert "card" not in (await make_chunk(ctx, KNEAD))["pending"]


async def test_cards_of_several_pages_are_renewed(ctx: Context) -> None:
    source = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(230)))
    await put_in(ctx, source)
    await save(ctx, {chunk.chunk_id: CARD for chunk in chunk_source(source).chunks}, "extractive")
    assert await Cards(ctx.database).renew(by("m-2"), LATER) == 230


async def test_other_chunks_are_not_touched(ctx: Context) -> None:
    await put_in(ctx, BAKING, SAILING)
    before = await read_snapshots(ctx, "chunks")
    await save(ctx, {KNEAD: CARD})
    after = await read_snapshots(ctx, "chunks")
    changed = {name for name in after if after[name].update_time != before[name].update_time}
    assert changed == {KNEAD}


async def test_an_equal_card_is_not_written_again(ctx: Context, meter: Meter) -> None:
    await put_in(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    read, written = meter.documents_read, meter.documents_written
    assert await save(ctx, {KNEAD: CARD}, model="m-2") == 0
    assert (meter.documents_read - read, meter.documents_written - written) == (1, 0)


async def test_a_card_whose_takeaways_differ_is_replaced(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await save(ctx, {KNEAD: CARD})
    assert await save(ctx, {KNEAD: replace(CARD, takeaways=("Knead.",))}) == 1
    assert (await make_chunk(ctx, KNEAD))["knowledge_card"]["takeaways"] == ["Knead."]


async def test_missing_and_deleted_chunks_are_skipped(ctx: Context) -> None:
    await put_in(ctx, BAKING)
    await put_in(ctx, replace(BAKING, sections=BAKING.sections[:1]))
    assert await save(ctx, {"nowhere": CARD, BAKE: CARD, KNEAD: CARD}) == 1
    with_cards = {
        name
        for name, data in (await read_documents(ctx, "chunks")).items()
        if "knowledge_card" in data
    }
    assert with_cards == {KNEAD}


async def test_a_chunk_that_changes_meanwhile_is_skipped(app: App, ctx: Context) -> None:
    await put_in(ctx, BAKING)
    cards = Cards(Meddling(app.connection, Meter()))
    assert await cards.save({KNEAD: CARD, STARTER: CARD}, "m-1", LATER) == 1
    assert "knowledge_card" not in await make_chunk(ctx, KNEAD)


async def test_no_cards_cost_nothing(ctx: Context, meter: Meter) -> None:
    assert await save(ctx, {}) == 0
    assert (meter.documents_read, meter.documents_written) == (0, 0)


async def test_many_cards_take_several_commits(ctx: Context) -> None:
    source = Source("many", "Many", sections=tuple(Section(f"Highlight {n}.") for n in range(230)))
    await put_in(ctx, source)
    cards = {chunk.chunk_id: CARD for chunk in chunk_source(source).chunks}
    assert await save(ctx, cards) == 230
    assert await save(ctx, cards) == 0
