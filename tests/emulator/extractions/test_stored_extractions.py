"""Extractions are replaced chunk by chunk, together with the counts of topics.

An extraction is a decision, pattern, warning or methodology that was found in a chunk, that is, a
stored passage. A topic is a label of extractions.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from shared.core.meter import Meter
from shared.extractions.model import SCHEMA_VERSION, Extraction, ExtractionType
from shared.extractions.repository import Extractions
from shared.extractions.topics import Topic, Topics
from shared.index.stored_vector import to_compact
from shared.knowledge.chunk import Chunk
from shared.runtime.context import Context
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_pattern,
    make_warning,
    queue_chunk,
    replace_extractions,
    store_extractions,
)
from tests.support.stored_documents import read_documents, read_snapshots

DECISION, WARNING = ExtractionType.DECISION, ExtractionType.WARNING


async def read_topic_counts(ctx: Context) -> dict[str, dict[str, int]]:
    """Return the non-zero counts of each topic."""
    counts_by_topic: dict[str, dict[str, int]] = {}
    for data in (await read_documents(ctx, "topics")).values():
        counts = data["counts"] | {"total": data["total"]}
        non_zero_counts = {kind: count for kind, count in counts.items() if count}
        if non_zero_counts:
            counts_by_topic[data["name"]] = non_zero_counts
    return counts_by_topic


async def read_stored_ids(ctx: Context) -> set[str]:
    return set(await read_documents(ctx, "extractions"))


async def list_decisions(ctx: Context, **filters: Any) -> list[Extraction]:
    arguments = {"topic": None, "source_id": None, "limit": 9} | filters
    return await Extractions(ctx.database).list_by_confidence(DECISION, **arguments)


@pytest.mark.requirement("000-D1")
async def test_the_stored_fields_of_an_extraction_keep_their_names(
    ctx: Context, chunks: list[Chunk], snapshot: SnapshotAssertion
) -> None:
    fields: dict[str, Any] = {"quote": "x" * 700, "confidence": 0.12345}
    extractions = [
        make_extraction(chunks[0], make_decision(recommended_approach="Rye."), "bread", "rye"),
        make_extraction(chunks[0], make_warning(), "starter", **fields),
    ]
    await store_extractions(ctx, *extractions)
    assert await list_decisions(ctx) == extractions[:1]
    data = (await read_documents(ctx, "extractions"))[extractions[1].extraction_id]
    vector = data.pop("embedding")
    assert len(vector) == 64
    assert data.pop("embedding_f16") == to_compact(vector)
    assert data == snapshot


async def test_a_chunk_lists_its_extractions_and_leaves_the_queue(
    ctx: Context, chunks: list[Chunk]
) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(), "bread"),
        make_extraction(chunks[0], make_warning()),
    ]
    await store_extractions(ctx, *extractions)
    data = (await read_documents(ctx, "chunks"))[chunks[0].chunk_id]
    ids = [extraction.extraction_id for extraction in extractions]
    assert data["extracted"] == dict(zip(ids, ids, strict=True))
    assert data["extraction_schema"] == SCHEMA_VERSION
    assert "extract" not in data["pending"]


async def test_new_extractions_replace_earlier_ones(ctx: Context, chunks: list[Chunk]) -> None:
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "bread", "rye"),
        make_extraction(chunks[0], make_warning(), "rye"),
        make_extraction(chunks[1], make_decision(), "bread"),
    )
    assert await read_topic_counts(ctx) == {
        "bread": {"decision": 2, "total": 2},
        "rye": {"decision": 1, "warning": 1, "total": 2},
    }
    new_extractions = [
        make_extraction(chunks[0], make_warning(), "bread", "oats"),
        make_extraction(chunks[0], make_pattern(), "rye"),
    ]
    await store_extractions(ctx, *new_extractions)
    await replace_extractions(ctx, await queue_chunk(ctx, chunks[1].chunk_id), [])
    new_ids = {extraction.extraction_id for extraction in new_extractions}
    assert await read_stored_ids(ctx) == new_ids
    assert await read_topic_counts(ctx) == {
        "bread": {"warning": 1, "total": 1},
        "oats": {"warning": 1, "total": 1},
        "rye": {"pattern": 1, "total": 1},
    }
    assert await list_decisions(ctx) == []


async def test_an_unchanged_extraction_is_not_written_again(
    ctx: Context, chunks: list[Chunk], meter: Meter
) -> None:
    decision = make_extraction(chunks[0], make_decision(), "bread")
    await store_extractions(ctx, decision, make_extraction(chunks[0], make_warning(), "bread"))
    snapshot_before = (await read_snapshots(ctx, "extractions"))[decision.extraction_id]
    chunk = await queue_chunk(ctx, chunks[0].chunk_id)
    writes_before = meter.documents_written

    same_decision = replace(decision, extracted_at=decision.extracted_at + timedelta(days=1))
    pattern = make_extraction(chunks[0], make_pattern(), "bread")
    await replace_extractions(ctx, chunk, [same_decision, pattern])
    snapshot_after = (await read_snapshots(ctx, "extractions"))[decision.extraction_id]
    assert snapshot_after.update_time == snapshot_before.update_time
    # The chunk, the topic, and the new pattern and the deleted warning with their groups.
    assert meter.documents_written - writes_before == 6


@pytest.mark.parametrize(
    "change", [{"confidence": 0.4}, {"quote": "Other words."}, {"topics": ("oats",)}], ids=str
)
async def test_a_changed_extraction_is_written_again(
    ctx: Context, chunks: list[Chunk], change: dict[str, Any]
) -> None:
    extraction = make_extraction(chunks[0], make_decision(), "bread")
    await store_extractions(ctx, extraction)
    changed_extraction = replace(extraction, **change)
    chunk = await queue_chunk(ctx, chunks[0].chunk_id)
    await replace_extractions(ctx, chunk, [changed_extraction])
    assert await list_decisions(ctx) == [changed_extraction]


async def test_counts_stay_exact_if_two_runs_store_the_same(
    ctx: Context, chunks: list[Chunk]
) -> None:
    """The second finds that the chunk has changed."""
    chunk = await queue_chunk(ctx, chunks[0].chunk_id)
    extractions = [make_extraction(chunks[0], make_decision(), "bread")]
    assert await replace_extractions(ctx, chunk, extractions) == 1
    assert await replace_extractions(ctx, chunk, extractions) == 0
    assert await read_topic_counts(ctx) == {"bread": {"decision": 1, "total": 1}}


async def test_a_topic_is_read_with_its_counts(ctx: Context, chunks: list[Chunk]) -> None:
    await store_extractions(ctx, make_extraction(chunks[0], make_decision(), "a/b testing"))
    topics = Topics(ctx.database)
    counts = dict.fromkeys(ExtractionType, 0) | {DECISION: 1}
    assert await topics.get("a/b testing") == Topic("a/b testing", counts, 1)
    await replace_extractions(ctx, await queue_chunk(ctx, chunks[0].chunk_id), [])
    assert await topics.get("a/b testing") is None
    assert await topics.get("unknown") is None
