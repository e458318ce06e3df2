"""`get_decisions`, and what the four lookup tools have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from shared.core.caller import Tier
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
from tests.support.tool_calls import call_all_pages, call_error, call_result, call_text

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

LOOKUP_TOOLS = [name for name in TOOLS if name != "list_topics"]


async def store_one_of_each(ctx: Context, chunks: list[Chunk]) -> None:
    """Store one extraction of each type from one passage about one topic."""
    contents = (make_decision(), make_pattern(), make_warning(), make_methodology())
    await store_extractions(
        ctx, *(make_extraction(chunks[0], content, "bread") for content in contents)
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


async def test_metadata_has_the_query_and_the_sources_to_cite(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    order = ((3, 0.9), (0, 0.8), (4, 0.7), (1, 0.6))
    await store_extractions(
        ctx,
        *(
            make_extraction(chunks[index], make_decision(), confidence=confidence)
            for index, confidence in order
        ),
    )
    assert (await call_result(app, "get_decisions"))["metadata"] == {
        "query": "all",
        "sources_cited": ["Under Sail", "Bread at Home"],
        "result_count": 4,
        "search_type": "filtered",
    }


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


@pytest.mark.parametrize("name", TOOLS)
def test_the_tools_are_public_and_read_only(name: str) -> None:
    assert TOOLS[name].tier == Tier.PUBLIC
    assert TOOLS[name].effect == Effect.READ


async def test_pages_are_in_order_of_confidence_without_repeats(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    confidences = {f"d{n}": (n % 4) / 10 for n in range(11)}
    extractions = [
        make_extraction(chunks[0], make_decision(name), confidence=confidence)
        for name, confidence in confidences.items()
    ]
    await store_extractions(ctx, *extractions)
    ordered = sorted(
        extractions,
        key=lambda extraction: (extraction.confidence, extraction.extraction_id),
        reverse=True,
    )
    for limit in (1, 3, 11, 100):
        pages = await call_all_pages(app, "get_decisions", limit=limit)
        assert [extraction.extraction_id for extraction in ordered] == collect_result_ids(pages)
        counts = [page["metadata"]["result_count"] for page in pages]
        assert sum(counts) == 11
        assert max(counts) <= limit


async def test_paging_survives_deletions_and_additions(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extractions = [
        make_extraction(chunks[0], make_decision(f"d{n}"), confidence=1 - n / 10) for n in range(6)
    ]
    await store_extractions(ctx, *extractions)
    first = await call_result(app, "get_decisions", limit=3)
    surest = make_extraction(chunks[1], make_decision("new"), confidence=1.0)
    await store_extractions(ctx, *extractions[:2], *extractions[3:], surest)
    cursor = first["metadata"]["next_cursor"]
    second = await call_result(app, "get_decisions", limit=3, cursor=cursor)
    assert [extraction.extraction_id for extraction in extractions] == collect_result_ids(
        [first, second]
    )


async def test_a_page_is_limited_in_size(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    extractions = [
        make_extraction(chunks[0], make_pattern(f"p{n}", solution="x" * 2_000)) for n in range(30)
    ]
    await store_extractions(ctx, *extractions)
    pages = await call_all_pages(app, "get_patterns", limit=30)
    assert {extraction.extraction_id for extraction in extractions} == set(
        collect_result_ids(pages)
    )
    assert 1 < len(pages) <= 3
    assert len(collect_result_ids(pages)) == 30


async def test_titles_are_current(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    await store_extractions(ctx, make_extraction(chunks[0], make_decision()))
    await store_sources(ctx, replace(BAKING, title="Bread and Butter"))
    result = await call_result(app, "get_decisions")
    assert result["results"][0]["source_title"] == "Bread and Butter"
    assert result["metadata"]["sources_cited"] == ["Bread and Butter"]


async def test_extractions_of_a_deleted_source_are_not_returned(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extraction = make_extraction(chunks[3], make_decision())
    await store_extractions(
        ctx,
        make_extraction(chunks[0], make_decision()),
        make_extraction(chunks[1], make_decision()),
        extraction,
    )
    await ctx.database.document("sources", "baking").delete()
    result = await call_result(app, "get_decisions")
    assert collect_result_ids([result]) == [extraction.extraction_id]
    assert result["metadata"]["result_count"] == 1


async def test_extractions_of_a_deleted_passage_are_not_returned(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    extraction = make_extraction(chunks[2], make_decision())
    await store_extractions(ctx, make_extraction(chunks[0], make_decision(), "bread"), extraction)
    await store_sources(ctx, replace(BAKING, sections=BAKING.sections[1:]))
    assert collect_result_ids([await call_result(app, "get_decisions")]) == [
        extraction.extraction_id
    ]
    unknown = await call_result(app, "get_decisions", topic="bread")
    assert unknown["results"] == []
    assert unknown["metadata"]["nearest_topics"] == []


async def test_duplicates_are_not_returned(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    first = make_extraction(chunks[0], make_decision(), "bread")
    await store_extractions(ctx, first)
    await store_extractions(
        ctx, make_extraction(chunks[1], make_decision(), "bread", duplicate_of=first.extraction_id)
    )
    for arguments in ({}, {"topic": "bread"}, {"query": "flour"}):
        assert collect_result_ids([await call_result(app, "get_decisions", **arguments)]) == [
            first.extraction_id
        ]


@pytest.mark.parametrize("name", LOOKUP_TOOLS)
async def test_an_empty_base_says_what_is_missing(app: App, name: str) -> None:
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        result = await call_result(app, name, **arguments)
        assert result["results"] == []
        assert result["metadata"]["result_count"] == 0
        assert "language model" in result["metadata"]["message"]
        assert f"There are no {name.removeprefix('get_')}" in result["metadata"]["message"]
        assert await call_text(app, name, **arguments) == result["metadata"]["message"]


@pytest.mark.parametrize("name", LOOKUP_TOOLS)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit", 0),
        ("limit", 101),
        ("limit", "5"),
        ("topic", ""),
        ("topic", " "),
        ("topic", "-_-"),
        ("topic", "x" * 201),
        ("topic", ["bread"]),
        ("query", " "),
        ("source_id", "a/b"),
        ("cursor", "!"),
        ("cursor", "abc"),
        ("type", "decision"),
    ],
)
async def test_invalid_arguments_are_refused_by_name(
    app: App, name: str, field: str, value: object
) -> None:
    error = await call_error(app, name, **{field: value})
    assert error.code == "VALIDATION_ERROR"
    assert set(error.details) == {field}


async def test_a_cursor_belongs_to_its_call(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    await store_extractions(
        ctx, *(make_extraction(chunks[0], make_decision(f"d{n}"), "bread") for n in range(3))
    )
    cursor = (await call_result(app, "get_decisions", limit=1))["metadata"]["next_cursor"]
    others: list[dict[str, Any]] = [
        {"topic": "bread"},
        {"query": "bread"},
        {"source_id": "baking"},
    ]
    for other in others:
        error = await call_error(app, "get_decisions", cursor=cursor, **other)
        assert error.code == "VALIDATION_ERROR"
        assert set(error.details) == {"cursor"}
    error = await call_error(app, "get_patterns", cursor=cursor)
    assert error.code == "VALIDATION_ERROR"


async def test_a_list_takes_two_round_trips(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    extractions = [
        make_extraction(chunks[at], make_decision(f"d{n}"), "bread")
        for at in (0, 3)
        for n in range(4)
    ]
    await store_extractions(ctx, *extractions)
    assert await measure_read(app, "get_decisions") == (2, 8 + 2)
    assert await measure_read(app, "get_decisions", topic="Bread") == (2, 8 + 2)
    assert 2 + 1 + 2 >= (await measure_read(app, "get_decisions", limit=2))[1]


async def test_a_list_of_one_source_takes_one_round_trip(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await store_extractions(
        ctx, *(make_extraction(chunks[0], make_decision(f"d{n}"), "bread") for n in range(4))
    )
    source_filter = {"source_id": "baking"}
    assert await measure_read(app, "get_decisions", **source_filter) == (1, 4 + 1)
    assert await measure_read(app, "get_decisions", **source_filter, topic="bread") == (1, 4 + 1)


async def test_an_empty_answer_takes_two_reads(app: App) -> None:
    assert await measure_read(app, "get_decisions") == (2, 2)
