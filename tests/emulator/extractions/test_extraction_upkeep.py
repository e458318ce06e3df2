"""Upkeep promotes a duplicate whose original is deleted.

A chunk is a passage as it is stored. Of equal extractions from several chunks, one is the visible
original, and the others are its duplicates.
"""

from collections import Counter

import pytest

from shared.core.meter import Meter
from shared.extractions.model import Extraction, ExtractionType
from shared.extractions.repository import Extractions
from shared.extractions.topics import Topics
from shared.extractions.upkeep import MAX_DUPLICATES, ExtractionUpkeep, promote_duplicates
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.database_state import read_state
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    queue_chunk,
    replace_extractions,
    store_extractions,
)
from tests.support.jobs import make_ample_budget, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_documents


@pytest.fixture
async def original_and_duplicates(ctx: Context) -> list[Extraction]:
    """A decision, and then its three duplicates by increasing confidence.

    The original's chunk also has a warning, which has no duplicate.
    """
    chunks = await store_sources(ctx, BAKING, SAILING)
    original = make_extraction(chunks[0], make_decision(), "bread", confidence=0.9)
    await store_extractions(ctx, original, make_extraction(chunks[0], make_warning(), "bread"))
    original_id = original.extraction_id
    duplicates = [
        make_extraction(
            chunk, make_decision(), "bread", "rye", confidence=confidence, duplicate_of=original_id
        )
        for chunk, confidence in zip(chunks[1:4], (0.4, 0.5, 0.8), strict=True)
    ]
    await store_extractions(ctx, *duplicates)
    return [original, *duplicates]


async def delete_extractions(ctx: Context, extraction: Extraction) -> None:
    await replace_extractions(ctx, await queue_chunk(ctx, extraction.chunk_id), [])


async def list_visible_decisions(ctx: Context) -> list[str]:
    extractions = await Extractions(ctx.database).list_by_confidence(
        ExtractionType.DECISION, None, None, 9
    )
    return [extraction.extraction_id for extraction in extractions]


async def test_the_most_certain_duplicate_is_promoted(
    ctx: Context, original_and_duplicates: list[Extraction]
) -> None:
    original, *other_duplicates, promoted = original_and_duplicates
    await delete_extractions(ctx, original)
    assert await list_visible_decisions(ctx) == []
    assert await ExtractionUpkeep(ctx.database).process_deletions() == {"settled": 2, "shown": 1}
    assert await list_visible_decisions(ctx) == [promoted.extraction_id]
    stored = await read_documents(ctx, "extractions")
    for duplicate in other_duplicates:
        assert stored[duplicate.extraction_id]["duplicate_of"] == promoted.extraction_id

    topic = await Topics(ctx.database).get("rye")
    assert topic
    assert topic.total == 1
    assert topic.counts[ExtractionType.DECISION] == 1
    chunk = (await read_documents(ctx, "chunks"))[promoted.chunk_id]
    assert chunk["extracted"][promoted.extraction_id]["topics"] == ["bread", "rye"]


async def test_duplicates_are_promoted_until_none_is_left(
    ctx: Context, original_and_duplicates: list[Extraction]
) -> None:
    original, *duplicates = original_and_duplicates
    for extraction in (original, *reversed(duplicates)):
        assert await list_visible_decisions(ctx) == [extraction.extraction_id]
        await delete_extractions(ctx, extraction)
        await ExtractionUpkeep(ctx.database).process_deletions()
    assert await read_documents(ctx, "extractions") == {}
    assert await ExtractionUpkeep(ctx.database).delete_empty_topics() == 2
    assert await read_documents(ctx, "topics") == {}


async def test_processing_deletions_again_changes_nothing(
    ctx: Context, original_and_duplicates: list[Extraction], meter: Meter
) -> None:
    await delete_extractions(ctx, original_and_duplicates[0])
    assert await ExtractionUpkeep(ctx.database).count_deletions() == 2
    await ExtractionUpkeep(ctx.database).process_deletions()
    state_before = await read_state(ctx)
    reads_before, writes_before = meter.documents_read, meter.documents_written

    assert await ExtractionUpkeep(ctx.database).process_deletions() == {"settled": 0}
    assert await ExtractionUpkeep(ctx.database).delete_empty_topics() == 0
    assert meter.documents_read - reads_before == 2  # an empty query counts as a read
    assert meter.documents_written == writes_before
    assert await read_state(ctx) == state_before


async def test_a_duplicate_without_its_chunk_is_not_promoted(
    ctx: Context, original_and_duplicates: list[Extraction]
) -> None:
    original, _, second_most_certain, most_certain = original_and_duplicates
    await delete_extractions(ctx, original)
    await ctx.database.connection.client.document(f"chunks/{most_certain.chunk_id}").delete()
    await ExtractionUpkeep(ctx.database).process_deletions()
    assert await list_visible_decisions(ctx) == [second_most_certain.extraction_id]


async def test_more_duplicates_than_one_commit_changes_get_one_original(
    ctx: Context, original_and_duplicates: list[Extraction]
) -> None:
    original, *_, most_certain = original_and_duplicates
    fields = {"type": "decision", "topics": [], "facets": [], "confidence": 0.1, "source_id": "s"}
    fields |= {"chunk_id": "long", "duplicate_of": original.extraction_id}
    names = [f"-{number}" for number in range(MAX_DUPLICATES)]  # before all other ids
    for name in names:
        await set_fields(ctx, f"extractions/{name}", fields)
    summary = {"type": "decision", "topics": [], "duplicate": True}
    await set_fields(ctx, "chunks/long", {"extracted": dict.fromkeys(names, summary)})
    await delete_extractions(ctx, original)
    while (await ExtractionUpkeep(ctx.database).process_deletions())["settled"]:
        pass

    stored = await read_documents(ctx, "extractions")
    [promoted_id] = [name for name, data in stored.items() if data["facets"]]
    assert promoted_id != most_certain.extraction_id  # it is not among the first MAX_DUPLICATES
    original_ids = {data["duplicate_of"] for data in stored.values() if "duplicate_of" in data}
    assert original_ids == {promoted_id}
    assert await read_documents(ctx, "gone_extractions") == {}


async def test_a_run_without_time_says_that_it_is_not_finished(
    ctx: Context, original_and_duplicates: list[Extraction]
) -> None:
    await delete_extractions(ctx, original_and_duplicates[0])
    report = Report()
    await promote_duplicates(ctx, make_spent_budget(), report)
    assert report == Report(counts=Counter(shown=1), finished=False)
    report = Report()
    await promote_duplicates(ctx, make_ample_budget(), report)
    assert report == Report()


async def test_a_restored_original_is_visible_itself(
    ctx: Context, original_and_duplicates: list[Extraction]
) -> None:
    original, *_ = original_and_duplicates
    await delete_extractions(ctx, original)
    await store_extractions(ctx, original)
    assert await ExtractionUpkeep(ctx.database).process_deletions() == {"settled": 2}
    assert await list_visible_decisions(ctx) == [original.extraction_id]
