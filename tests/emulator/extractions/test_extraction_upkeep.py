"""Extractions whose original or whose chunk is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.extractions.model import ExtractionType
from shared.extractions.repository import Extractions
from shared.extractions.topics import Topics
from shared.extractions.upkeep import MAX_DUPLICATES, ExtractionUpkeep
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    queue_chunk,
    replace_extractions,
    store_extractions,
)
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.extractions.model import Extraction
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


@pytest.fixture
async def duplicated(ctx: Context) -> list[Extraction]:
    """An extraction and its three duplicates; the fourth has the highest confidence of these."""
    chunks = await store_sources(ctx, BAKING, SAILING)
    first = make_extraction(chunks[0], make_decision(), "bread", confidence=0.9)
    await store_extractions(ctx, first, make_extraction(chunks[0], make_warning(), "bread"))
    others = [
        make_extraction(
            chunk,
            make_decision(),
            "bread",
            "rye",
            confidence=confidence,
            duplicate_of=first.extraction_id,
        )
        for chunk, confidence in zip(chunks[1:4], (0.4, 0.5, 0.8), strict=True)
    ]
    await store_extractions(ctx, *others)
    return [first, *others]


async def delete_extractions(ctx: Context, extraction: Extraction) -> None:
    """Delete all extractions of a chunk."""
    await replace_extractions(ctx, await queue_chunk(ctx, extraction.chunk_id), [])


async def list_visible(ctx: Context) -> list[str]:
    extractions = await Extractions(ctx.database).list_by_confidence(
        ExtractionType.DECISION, None, None, 9
    )
    return [extraction.extraction_id for extraction in extractions]


async def read_stored_state(ctx: Context) -> dict[str, dict[str, dict[str, Any]]]:
    """Return everything that upkeep may change, without vectors."""
    collections = {
        name: await read_documents(ctx, name)
        for name in ("extractions", "gone_extractions", "topics", "chunks")
    }
    for data in (*collections["extractions"].values(), *collections["chunks"].values()):
        data.pop("embedding", None)
    return collections


async def test_the_most_certain_duplicate_is_promoted(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    first, one, two, promoted = duplicated
    await delete_extractions(ctx, first)
    assert await list_visible(ctx) == []
    assert await ExtractionUpkeep(ctx.database).process_deletions() == {"settled": 2, "shown": 1}
    assert await list_visible(ctx) == [promoted.extraction_id]
    stored = await read_documents(ctx, "extractions")
    assert [promoted.extraction_id] * 2 == [
        stored[duplicate.extraction_id]["duplicate_of"] for duplicate in (one, two)
    ]
    topic = await Topics(ctx.database).get("rye")
    assert topic
    assert topic.total == 1
    assert topic.counts[ExtractionType.DECISION] == 1
    chunk = (await read_documents(ctx, "chunks"))[promoted.chunk_id]
    assert chunk["extracted"][promoted.extraction_id]["topics"] == ["bread", "rye"]


async def test_duplicates_are_promoted_until_none_is_left(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    order = [duplicated[0], duplicated[3], duplicated[2], duplicated[1]]
    visible_ids = []
    for extraction in order:
        visible_ids += await list_visible(ctx)
        await delete_extractions(ctx, extraction)
        await ExtractionUpkeep(ctx.database).process_deletions()
    assert visible_ids == [extraction.extraction_id for extraction in order]
    assert await read_documents(ctx, "extractions") == {}
    assert await ExtractionUpkeep(ctx.database).delete_empty_topics() == 2
    assert await read_documents(ctx, "topics") == {}


async def test_processing_deletions_again_changes_nothing(
    ctx: Context, duplicated: list[Extraction], meter: Meter
) -> None:
    await delete_extractions(ctx, duplicated[0])
    assert await ExtractionUpkeep(ctx.database).count_deletions() == 2
    await ExtractionUpkeep(ctx.database).process_deletions()
    before = await read_stored_state(ctx)
    read_before = meter.documents_read
    written_before = meter.documents_written
    assert await ExtractionUpkeep(ctx.database).process_deletions() == {"settled": 0}
    assert await ExtractionUpkeep(ctx.database).delete_empty_topics() == 0
    assert meter.documents_read - read_before == 2
    assert meter.documents_written - written_before == 0
    assert await read_stored_state(ctx) == before


async def test_a_restored_original_is_visible_itself(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    first = duplicated[0]
    await delete_extractions(ctx, first)
    await store_extractions(ctx, first)
    assert await ExtractionUpkeep(ctx.database).process_deletions() == {"settled": 2}
    assert await list_visible(ctx) == [first.extraction_id]


async def test_an_orphaned_duplicate_is_not_promoted(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    first, _, two, surest = duplicated
    await delete_extractions(ctx, first)
    await ctx.database.document("chunks", surest.chunk_id).delete()
    await ExtractionUpkeep(ctx.database).process_deletions()
    assert await list_visible(ctx) == [two.extraction_id]


async def test_an_extraction_its_chunk_does_not_list_is_deleted(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    first, _, _, surest = duplicated
    upkeep = ExtractionUpkeep(ctx.database)
    page = await upkeep.load_page("")
    assert await upkeep.find_orphans(page) == []
    await set_fields(ctx, f"chunks/{surest.chunk_id}", {"source_id": "sailing"})
    await ctx.database.document("chunks", first.chunk_id).delete()
    await ctx.database.document("chunks", duplicated[1].chunk_id).update({"extracted": {}})
    orphans = await upkeep.find_orphans(page)
    assert len(orphans) == 3
    assert await upkeep.delete_orphans(orphans) == 3
    await upkeep.process_deletions()
    assert await list_visible(ctx) == [surest.extraction_id]
    topic = await Topics(ctx.database).get("bread")
    assert topic
    assert topic.total == 1


async def test_an_orphan_that_changed_since_it_was_read_stays(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    upkeep = ExtractionUpkeep(ctx.database)
    page = await upkeep.load_page("")
    await ctx.database.document("chunks", duplicated[0].chunk_id).delete()
    await set_fields(ctx, f"extractions/{duplicated[0].extraction_id}", {"quote": "New."})
    assert await upkeep.delete_orphans(await upkeep.find_orphans(page)) == 1
    assert duplicated[0].extraction_id in await read_documents(ctx, "extractions")


async def test_a_page_starts_after_the_last_id(ctx: Context, duplicated: list[Extraction]) -> None:
    page = await ExtractionUpkeep(ctx.database).load_page("")
    second_page = await ExtractionUpkeep(ctx.database).load_page(page[1].id)
    assert [snapshot.id for snapshot in page[2:]] == [snapshot.id for snapshot in second_page]
    assert len(duplicated) + 1 == len(page)


async def test_of_very_many_duplicates_one_is_promoted(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    first, *_ = duplicated
    duplicate_ids = {f"more-{n}" for n in range(MAX_DUPLICATES)}
    for name in duplicate_ids:
        data = {"type": "decision", "topics": [], "facets": [], "confidence": 0.1}
        hanging = {"chunk_id": "elsewhere", "source_id": "s", "duplicate_of": first.extraction_id}
        await set_fields(ctx, f"extractions/{name}", data | hanging)
    await delete_extractions(ctx, first)
    while (await ExtractionUpkeep(ctx.database).process_deletions())["settled"]:
        pass
    stored = await read_documents(ctx, "extractions")
    decision_ids = [name for name, data in stored.items() if data["type"] == "decision"]
    originals = {stored[name].get("duplicate_of") for name in decision_ids}
    assert len(originals - {None}) == 1
    assert list(originals - {None}) == await list_visible(ctx)
    assert await read_documents(ctx, "gone_extractions") == {}


async def test_a_duplicate_after_many_orphaned_ones_is_promoted(
    ctx: Context, duplicated: list[Extraction]
) -> None:
    """The first query returns only duplicates that no chunk lists."""
    first, *_, surest = duplicated
    for n in range(MAX_DUPLICATES):
        data = {"type": "decision", "topics": [], "facets": [], "confidence": 0.9}
        orphan = {"chunk_id": "gone", "source_id": "s", "duplicate_of": first.extraction_id}
        await set_fields(ctx, f"extractions/a-{n}", data | orphan)
    await delete_extractions(ctx, first)
    while (await ExtractionUpkeep(ctx.database).process_deletions())["settled"]:
        pass
    assert await list_visible(ctx) == [surest.extraction_id]
    stored = await read_documents(ctx, "extractions")
    originals = {data["duplicate_of"] for data in stored.values() if "duplicate_of" in data}
    assert originals == {surest.extraction_id}
    assert await read_documents(ctx, "gone_extractions") == {}
