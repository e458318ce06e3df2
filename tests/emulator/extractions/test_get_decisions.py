"""`get_decisions` returns extractions, as the three other lookup tools do.

An extraction is a decision, pattern, warning or methodology that a language model found in a
passage. Each type has its own tool.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.caller import Tier
from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from shared.runtime.tool import Effect
from tests.support.extractions import (
    TOOLS,
    collect_result_ids,
    make_decision,
    make_extraction,
    make_methodology,
    make_pattern,
    make_warning,
    measure_read,
    store_extractions,
)
from tests.support.knowledge import BAKING, store_sources
from tests.support.tool_calls import call_all_pages, call_result, call_text

LOOKUP_TOOLS = [name for name in TOOLS if name != "list_topics"]


async def store_one_of_each(ctx: Context, chunks: list[Chunk]) -> None:
    """Store one extraction of each type from one passage about one topic."""
    contents = (make_decision(), make_pattern(), make_warning(), make_methodology())
    await store_extractions(
        ctx, *(make_extraction(chunks[0], content, "bread") for content in contents)
    )


@pytest.mark.requirement(
    "000-AC1", "000-D2", "000-FR2", "000-M1", "000-T2.3", "000-T3.3", "000-T3.4", "000-T7.1"
)
async def test_a_decision_is_returned_with_its_source(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extraction = make_extraction(
        chunks[0], make_decision(recommended_approach="Rye."), "bread", "rye", confidence=0.9
    )
    await store_extractions(ctx, extraction)
    [result] = (await call_result(app, "get_decisions"))["results"]
    expected = {
        "id": extraction.extraction_id,
        "question": "Which flour?",
        "options": ["rye", "wheat"],
        "considerations": ["taste"],
        "recommended_approach": "Rye.",
        "topics": ["bread", "rye"],
        "source_title": "Bread at Home",
        "source_id": "baking",
        "chunk_id": chunks[0].chunk_id,
        "confidence": 0.9,
        "quote": "Knead the dough unti",
    }
    assert result == expected
    assert list(result) == list(expected)


async def test_optional_fields_without_a_value_are_omitted(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_extractions(ctx, make_extraction(chunks[0], make_decision(considerations=())))
    [result] = (await call_result(app, "get_decisions"))["results"]
    assert "recommended_approach" not in result
    assert result["considerations"] == []


@pytest.mark.requirement("000-AC5", "000-CR4", "000-R3", "000-R4", "000-T2.2", "000-T7.4")
async def test_metadata_has_the_query_and_the_sources_to_cite(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    baking_chunks, sailing_chunks = chunks[:3], chunks[3:]
    chunks_by_confidence = (
        (0.9, sailing_chunks[0]),
        (0.8, baking_chunks[0]),
        (0.7, sailing_chunks[1]),
        (0.6, baking_chunks[1]),
    )
    extractions = [
        make_extraction(chunk, make_decision(), confidence=confidence)
        for confidence, chunk in chunks_by_confidence
    ]
    await store_extractions(ctx, *extractions)
    assert (await call_result(app, "get_decisions"))["metadata"] == {
        "query": "all",
        "sources_cited": ["Under Sail", "Bread at Home"],
        "result_count": 4,
        "search_type": "filtered",
    }


@pytest.mark.requirement("000-AC1", "000-R1", "000-S2")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("get_decisions", "decision"),
        ("get_methodologies", "methodology"),
        ("get_patterns", "pattern"),
        ("get_warnings", "warning"),
    ],
)
async def test_each_tool_returns_its_own_type(
    ctx: Context, app: App, chunks: list[Chunk], name: str, kind: str
) -> None:
    await store_one_of_each(ctx, chunks)
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}, {"source_id": "baking"}):
        [result] = (await call_result(app, name, **arguments))["results"]
        assert result["id"].partition("-")[0] == kind


@pytest.mark.requirement("000-AC6", "000-CR1", "000-FR3", "000-FR4")
@pytest.mark.parametrize("name", TOOLS)
def test_the_tools_are_public_and_read_only(name: str) -> None:
    assert TOOLS[name].tier == Tier.PUBLIC
    assert TOOLS[name].effect == Effect.READ


@pytest.mark.requirement("000-Q2")
async def test_pages_are_in_order_of_confidence_without_repeats(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(f"d{number}"), confidence=(number % 4) / 10)
        for number in range(11)
    ]
    await store_extractions(ctx, *extractions)
    pairs = [(extraction.confidence, extraction.extraction_id) for extraction in extractions]
    expected_ids = [extraction_id for _, extraction_id in sorted(pairs, reverse=True)]

    for limit in (1, 3, 11, 100):
        pages = await call_all_pages(app, "get_decisions", limit=limit)
        assert collect_result_ids(pages) == expected_ids
        counts = [page["metadata"]["result_count"] for page in pages]
        assert sum(counts) == 11
        assert max(counts) <= limit


async def test_paging_survives_deletions_and_additions(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(f"d{number}"), confidence=1 - number / 10)
        for number in range(6)
    ]
    await store_extractions(ctx, *extractions)
    first_page = await call_result(app, "get_decisions", limit=3)

    # The last one of the first page goes, and one comes that would be on the first page.
    new_extraction = make_extraction(chunks[1], make_decision("new"), confidence=1.0)
    await store_extractions(ctx, *extractions[:2], *extractions[3:], new_extraction)

    cursor = first_page["metadata"]["next_cursor"]
    second_page = await call_result(app, "get_decisions", limit=3, cursor=cursor)
    ids = [extraction.extraction_id for extraction in extractions]
    assert collect_result_ids([first_page, second_page]) == ids


async def test_a_page_is_limited_in_size(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    extractions = [
        make_extraction(chunks[0], make_pattern(f"p{number}", solution="x" * 2_000))
        for number in range(30)
    ]
    await store_extractions(ctx, *extractions)
    pages = await call_all_pages(app, "get_patterns", limit=30)
    ids = sorted(extraction.extraction_id for extraction in extractions)
    assert sorted(collect_result_ids(pages)) == ids
    assert 1 < len(pages) <= 3


async def test_titles_are_current(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    await store_extractions(ctx, make_extraction(chunks[0], make_decision()))
    await store_sources(ctx, replace(BAKING, title="Bread and Butter"))
    result = await call_result(app, "get_decisions")
    assert result["results"][0]["source_title"] == "Bread and Butter"
    assert result["metadata"]["sources_cited"] == ["Bread and Butter"]


async def test_extractions_of_a_deleted_source_are_not_returned(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extraction_of_sailing = make_extraction(chunks[3], make_decision())
    extractions_of_baking = [make_extraction(chunk, make_decision()) for chunk in chunks[:2]]
    await store_extractions(ctx, *extractions_of_baking, extraction_of_sailing)
    await ctx.database.connection.client.collection("sources").document("baking").delete()
    result = await call_result(app, "get_decisions")
    assert collect_result_ids([result]) == [extraction_of_sailing.extraction_id]
    assert result["metadata"]["result_count"] == 1


async def test_extractions_of_a_deleted_passage_are_not_returned(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    deleted = make_extraction(chunks[0], make_decision(), "bread")
    remaining = make_extraction(chunks[2], make_decision())
    await store_extractions(ctx, deleted, remaining)
    await store_sources(ctx, replace(BAKING, sections=BAKING.sections[1:]))
    result = await call_result(app, "get_decisions")
    assert collect_result_ids([result]) == [remaining.extraction_id]
    result = await call_result(app, "get_decisions", topic="bread")
    assert result["results"] == []
    assert result["metadata"]["nearest_topics"] == []


async def test_duplicates_are_not_returned(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    original = make_extraction(chunks[0], make_decision(), "bread")
    original_id = original.extraction_id
    duplicate = make_extraction(chunks[1], make_decision(), "bread", duplicate_of=original_id)
    await store_extractions(ctx, original)
    await store_extractions(ctx, duplicate)
    for arguments in ({}, {"topic": "bread"}, {"query": "flour"}):
        result = await call_result(app, "get_decisions", **arguments)
        assert collect_result_ids([result]) == [original_id]


@pytest.mark.requirement("000-T7.4")
@pytest.mark.parametrize("name", LOOKUP_TOOLS)
async def test_an_empty_base_says_what_is_missing(app: App, name: str) -> None:
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        result = await call_result(app, name, **arguments)
        assert result["results"] == []
        assert result["metadata"]["result_count"] == 0
        assert "language model" in result["metadata"]["message"]
        assert f"There are no {name.removeprefix('get_')}" in result["metadata"]["message"]
        assert await call_text(app, name, **arguments) == result["metadata"]["message"]


async def test_an_empty_answer_takes_two_reads(app: App) -> None:
    round_trips, documents = await measure_read(app, "get_decisions")
    assert round_trips == 2
    assert documents == 2  # an empty query counts as one document
