"""Extractions in Firestore: replaced chunk by chunk, together with the counts of topics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shared.ai.embedding import Purpose
from shared.extractions.model import MAX_QUOTE, SCHEMA_VERSION, ExtractionType
from shared.extractions.repository import Extractions, make_page_key
from shared.extractions.topics import Topic, Topics
from shared.index.stored_vector import to_compact
from shared.knowledge.queue import ChunkQueue
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_methodology,
    make_pattern,
    make_warning,
    queue_chunk,
    replace_extractions,
    store_extractions,
)
from tests.support.knowledge import BAKING, index_all, set_fields, store_sources
from tests.support.stored_documents import read_documents, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.meter import Meter
    from shared.extractions.model import Extraction
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.queue import StepResult
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

DECISION, WARNING = ExtractionType.DECISION, ExtractionType.WARNING


async def read_topic_counts(ctx: Context) -> dict[str, dict[str, int]]:
    """Return the non-zero counts of each topic."""
    topic_documents = await read_documents(ctx, "topics")
    counted = {
        data["name"]: {**data["counts"], "total": data["total"]}
        for data in topic_documents.values()
    }
    return {
        name: {kind: n for kind, n in counts.items() if n}
        for name, counts in counted.items()
        if any(counts.values())
    }


async def read_stored_ids(ctx: Context) -> set[str]:
    return set(await read_documents(ctx, "extractions"))


async def page(ctx: Context, **filters: Any) -> list[Extraction]:
    arguments = {"topic": None, "source_id": None, "limit": 9} | filters
    return await Extractions(ctx.database).list_by_confidence(DECISION, **arguments)


def list_questions(extractions: Sequence[Extraction]) -> list[str]:
    return [extraction.content.model_dump()["question"] for extraction in extractions]


async def test_an_extraction_is_read_as_it_was_stored(ctx: Context, chunks: list[Chunk]) -> None:
    full = make_decision(recommended_approach="Rye.")
    extractions = [
        make_extraction(chunks[0], full, "bread", "rye", confidence=0.9),
        make_extraction(chunks[0], make_decision("Which oven?"), confidence=0.25),
    ]
    await store_extractions(ctx, *extractions)
    assert await page(ctx) == extractions


async def test_the_stored_fields_of_an_extraction(ctx: Context, chunks: list[Chunk]) -> None:
    extraction = make_extraction(
        chunks[0], make_warning(), "starter", quote="x" * 700, confidence=0.12345
    )
    await store_extractions(ctx, extraction)
    [data] = (await read_documents(ctx, "extractions")).values()
    vector = data.pop("embedding")
    assert len(vector) == 64
    assert data.pop("embedding_f16") == to_compact(vector)
    assert data == {
        "type": "warning",
        "content": {
            "title": "Starving starter",
            "description": "It dies without flour and water.",
        },
        "topics": ["starter"],
        "facets": extraction.facets,
        "quote": "x" * MAX_QUOTE,
        "embedding_model": "words",
        "source_id": "baking",
        "chunk_id": chunks[0].chunk_id,
        "confidence": 0.123,
        "model": extraction.model,
        "schema_version": SCHEMA_VERSION,
        "extracted_at": extraction.extracted_at,
        "duplicate_of": None,
    }


async def test_a_chunk_lists_its_extractions_and_leaves_the_queue(
    ctx: Context, chunks: list[Chunk]
) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(), "bread"),
        make_extraction(chunks[0], make_warning()),
    ]
    await store_extractions(ctx, *extractions)
    data = (await read_documents(ctx, "chunks"))[chunks[0].chunk_id]
    entries = {name: (entry["type"], entry["topics"]) for name, entry in data["extracted"].items()}
    assert entries == {
        extractions[0].extraction_id: ("decision", ["bread"]),
        extractions[1].extraction_id: ("warning", []),
    }
    assert data["extraction_schema"] == SCHEMA_VERSION
    assert "extract" not in data["pending"]


async def test_topics_are_counted_by_type(ctx: Context, chunks: list[Chunk]) -> None:
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "bread", "rye"),
        make_extraction(chunks[0], make_warning(), "bread"),
        make_extraction(chunks[1], make_decision(), "bread"),
    )
    assert await read_topic_counts(ctx) == {
        "bread": {"decision": 2, "warning": 1, "total": 3},
        "rye": {"decision": 1, "total": 1},
    }


async def test_new_extractions_replace_earlier_ones(ctx: Context, chunks: list[Chunk]) -> None:
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "bread"),
        make_extraction(chunks[0], make_warning(), "rye"),
    )
    new_extractions = [
        make_extraction(chunks[0], make_warning(), "bread", "oats"),
        make_extraction(chunks[0], make_pattern(), "rye"),
    ]
    await store_extractions(ctx, *new_extractions)
    assert {extraction.extraction_id for extraction in new_extractions} == await read_stored_ids(
        ctx
    )
    assert await read_topic_counts(ctx) == {
        "bread": {"warning": 1, "total": 1},
        "oats": {"warning": 1, "total": 1},
        "rye": {"pattern": 1, "total": 1},
    }


async def test_an_unchanged_extraction_is_not_written_again(
    ctx: Context, chunks: list[Chunk], meter: Meter
) -> None:
    same = make_extraction(chunks[0], make_decision(), "bread")
    await store_extractions(ctx, same, make_extraction(chunks[0], make_warning(), "bread"))
    before = (await read_snapshots(ctx, "extractions"))[same.extraction_id]
    chunk = await queue_chunk(ctx, chunks[0].chunk_id)
    written_before = meter.documents_written
    later = replace(same, extracted_at=same.extracted_at + timedelta(days=1))
    await replace_extractions(
        ctx, chunk, [later, make_extraction(chunks[0], make_pattern(), "bread")]
    )
    after = (await read_snapshots(ctx, "extractions"))[same.extraction_id]
    assert before.update_time == after.update_time
    pattern_chunk_warning_and_mark_topic = 5
    assert pattern_chunk_warning_and_mark_topic == meter.documents_written - written_before


@pytest.mark.parametrize(
    "change", [{"confidence": 0.4}, {"quote": "Other words."}, {"topics": ("oats",)}], ids=str
)
async def test_a_changed_extraction_is_written_again(
    ctx: Context, chunks: list[Chunk], change: dict[str, Any]
) -> None:
    same = make_extraction(chunks[0], make_decision(), "bread")
    await store_extractions(ctx, same)
    await replace_extractions(
        ctx, await queue_chunk(ctx, chunks[0].chunk_id), [replace(same, **change)]
    )
    (read,) = await page(ctx)
    assert [getattr(replace(same, **change), name) for name in change] == [
        getattr(read, name) for name in change
    ]


async def test_a_former_duplicate_without_topics_is_visible(
    ctx: Context, chunks: list[Chunk]
) -> None:
    first = make_extraction(chunks[1], make_decision("Who bakes?"))
    extraction = make_extraction(chunks[0], make_decision())
    await store_extractions(ctx, first)
    await store_extractions(ctx, replace(extraction, duplicate_of=first.extraction_id))
    await replace_extractions(ctx, await queue_chunk(ctx, chunks[0].chunk_id), [extraction])
    assert {extraction.extraction_id for extraction in await page(ctx)} == {
        first.extraction_id,
        extraction.extraction_id,
    }


async def test_a_chunk_without_extractions_has_none(ctx: Context, chunks: list[Chunk]) -> None:
    await store_extractions(ctx, make_extraction(chunks[0], make_decision(), "bread"))
    await replace_extractions(ctx, await queue_chunk(ctx, chunks[0].chunk_id), [])
    assert await read_stored_ids(ctx) == set()
    assert await read_topic_counts(ctx) == {}
    assert await page(ctx) == []


async def test_nothing_is_stored_for_a_chunk_edited_meanwhile(
    ctx: Context, chunks: list[Chunk]
) -> None:
    chunk = await queue_chunk(ctx, chunks[0].chunk_id)
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"content_hash": "new"})
    assert (
        await replace_extractions(
            ctx, chunk, [make_extraction(chunks[0], make_decision(), "bread")]
        )
        == 0
    )
    assert await read_stored_ids(ctx) == set()
    assert await read_topic_counts(ctx) == {}


async def test_counts_stay_exact_if_two_runs_store_the_same(
    ctx: Context, chunks: list[Chunk]
) -> None:
    chunk = await queue_chunk(ctx, chunks[0].chunk_id)
    extractions = [make_extraction(chunks[0], make_decision(), "bread")]
    assert [await replace_extractions(ctx, chunk, extractions) for _ in range(2)] == [1, 0]
    assert await read_topic_counts(ctx) == {"bread": {"decision": 1, "total": 1}}


async def test_extractions_and_counts_go_with_a_deleted_chunk(
    ctx: Context, chunks: list[Chunk]
) -> None:
    extraction = make_extraction(chunks[3], make_decision(), "bread")
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "bread"),
        make_extraction(chunks[1], make_warning(), "rye"),
        extraction,
    )
    await store_sources(ctx, replace(BAKING, sections=BAKING.sections[2:]))
    assert await read_stored_ids(ctx) == {extraction.extraction_id}
    assert await read_topic_counts(ctx) == {"bread": {"decision": 1, "total": 1}}
    assert await page(ctx) == [extraction]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["d3", "d2", "d1", "d0"]),
        ({"topic": "bread"}, ["d2", "d0"]),
        ({"source_id": "sailing"}, ["d3"]),
        ({"topic": "rye bread", "source_id": "baking"}, ["d1"]),
        ({"topic": "bread", "source_id": "sailing"}, []),
        ({"topic": "nothing"}, []),
    ],
)
async def test_filters_combine(
    ctx: Context, chunks: list[Chunk], filters: dict[str, Any], expected: list[str]
) -> None:
    about = [(0, "bread"), (1, "rye bread"), (2, "bread"), (3, "ropes")]
    extractions = [
        make_extraction(chunks[at], make_decision(f"d{n}"), topic, confidence=n / 4)
        for n, (at, topic) in enumerate(about)
    ]
    await store_extractions(ctx, *extractions, make_extraction(chunks[4], make_warning(), "bread"))
    assert list_questions(await page(ctx, **filters)) == expected


async def test_a_page_starts_after_a_deleted_extraction(ctx: Context, chunks: list[Chunk]) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(f"d{n}"), confidence=0.333) for n in range(5)
    ]
    await store_extractions(ctx, *extractions)
    first = await page(ctx, limit=2)
    await store_extractions(
        ctx, *(extraction for extraction in extractions if extraction != first[-1])
    )
    second_page = await page(ctx, after=make_page_key(first[-1]))
    expected = sorted((extraction.extraction_id for extraction in extractions), reverse=True)
    assert [extraction.extraction_id for extraction in (*first, *second_page)] == expected


async def test_the_nearest_come_first(ctx: Context, chunks: list[Chunk], meter: Meter) -> None:
    extractions = [
        make_extraction(chunks[0], make_warning(title, description="It."), "a")
        for title in ("rye", "sea", "oats")
    ]
    await store_extractions(
        ctx, *extractions, make_extraction(chunks[1], make_warning("rye", description="It."))
    )
    [vector] = await ctx.embedder.embed(["rye It."], Purpose.DOCUMENT)
    read = meter.documents_read
    neighbours = await Extractions(ctx.database).find_nearest(vector, WARNING, "a", "baking", 2)
    assert extractions[0] == neighbours[0].extraction
    assert neighbours[0].similarity == pytest.approx(1.0)
    assert len(neighbours) == 2
    assert meter.documents_read - read == 2


async def test_only_similar_extractions_of_the_type_are_found(
    ctx: Context, chunks: list[Chunk]
) -> None:
    extraction = make_extraction(chunks[0], make_warning())
    await store_extractions(
        ctx,
        extraction,
        make_extraction(chunks[1], make_warning("Burnt crust", description="Too hot.")),
    )
    await store_extractions(
        ctx,
        make_extraction(
            chunks[2], make_pattern("Starving", problem="starter It", solution="dies.")
        ),
    )
    vectors = Extractions(ctx.database)
    [vector] = await ctx.embedder.embed([extraction.content.text], Purpose.DOCUMENT)
    assert [
        neighbour.extraction for neighbour in await vectors.find_similar(vector, WARNING, 5, 0.9)
    ] == [extraction]
    assert await vectors.find_similar(vector, DECISION, 5, 0.9) == []


async def test_a_duplicate_is_stored_but_not_visible_or_counted(
    ctx: Context, chunks: list[Chunk]
) -> None:
    first = make_extraction(chunks[0], make_decision(), "bread")
    await store_extractions(ctx, first)
    extraction = make_extraction(
        chunks[1], make_decision(), "bread", duplicate_of=first.extraction_id
    )
    await store_extractions(ctx, extraction)
    assert await page(ctx) == [first]
    assert {first.extraction_id, extraction.extraction_id} == await read_stored_ids(ctx)
    assert await read_topic_counts(ctx) == {"bread": {"decision": 1, "total": 1}}
    [vector] = await ctx.embedder.embed([first.content.text], Purpose.DOCUMENT)
    neighbours = await Extractions(ctx.database).find_nearest(vector, DECISION, None, None, 9)
    assert [neighbour.extraction for neighbour in neighbours] == [first]


async def make_results(ctx: Context, first: Extraction, duplicate: Extraction) -> list[StepResult]:
    """Make each extraction the only one of its chunk, as it is read now."""
    vectors = await ctx.embedder.embed([first.content.text] * 2, Purpose.DOCUMENT)
    read = [await queue_chunk(ctx, extraction.chunk_id) for extraction in (first, duplicate)]
    return [
        Extractions(ctx.database).build_replacement(chunk, [(extraction, vector)], "words")
        for chunk, extraction, vector in zip(read, (first, duplicate), vectors, strict=True)
    ]


async def test_a_duplicate_is_stored_together_with_its_original(
    ctx: Context, chunks: list[Chunk]
) -> None:
    first = make_extraction(chunks[0], make_decision(), "bread")
    extraction = make_extraction(
        chunks[1], make_decision(), "bread", duplicate_of=first.extraction_id
    )
    assert (
        await ChunkQueue(ctx.database).complete(
            "extract", await make_results(ctx, first, extraction)
        )
        == 2
    )
    assert await page(ctx) == [first]
    assert len(await read_stored_ids(ctx)) == 2


async def test_a_duplicate_of_an_unstored_original_is_not_stored(
    ctx: Context, chunks: list[Chunk]
) -> None:
    first = make_extraction(chunks[0], make_decision(), "bread")
    extraction = make_extraction(
        chunks[1], make_decision(), "bread", duplicate_of=first.extraction_id
    )
    results = await make_results(ctx, first, extraction)
    await set_fields(ctx, f"chunks/{first.chunk_id}", {"content_hash": "new"})
    assert await ChunkQueue(ctx.database).complete("extract", results) == 0
    assert await read_stored_ids(ctx) == set()
    assert await read_topic_counts(ctx) == {}


async def test_a_duplicate_of_a_deleted_original_is_not_stored(
    ctx: Context, chunks: list[Chunk]
) -> None:
    chunk = await queue_chunk(ctx, chunks[1].chunk_id)
    extraction = make_extraction(chunks[1], make_decision(), "bread", duplicate_of="decision-gone")
    assert await replace_extractions(ctx, chunk, [extraction]) == 0
    assert await read_stored_ids(ctx) == set()
    assert await read_topic_counts(ctx) == {}
    assert await ChunkQueue(ctx.database).count_pending("extract") == 5


async def test_a_topic_is_read_with_its_counts(ctx: Context, chunks: list[Chunk]) -> None:
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision(), "a/b testing"),
        make_extraction(chunks[0], make_methodology(), "rye"),
    )
    counts = dict.fromkeys(ExtractionType, 0) | {DECISION: 1}
    assert await Topics(ctx.database).get("a/b testing") == Topic("a/b testing", counts, 1)
    await index_all(ctx)
    await replace_extractions(ctx, await queue_chunk(ctx, chunks[0].chunk_id), [])
    assert [await Topics(ctx.database).get(name) for name in ("rye", "nowhere")] == [None, None]
