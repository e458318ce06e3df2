"""`get_decisions` returns extractions, as the three other lookup tools do.

An extraction is a decision, pattern, warning or methodology that a language model found in a
passage. Each type has its own tool.
"""

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
    store_extractions,
)
from tests.support.knowledge import BAKING, store_sources
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import ANONYMOUS, call_all_pages, call_result, call_text

LOOKUP_TOOLS = [name for name in TOOLS if name != "list_topics"]


async def store_one_of_each(ctx: Context, chunk: Chunk, topic: str) -> None:
    contents = (make_decision(), make_pattern(), make_warning(), make_methodology())
    await store_extractions(ctx, *(make_extraction(chunk, content, topic) for content in contents))


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
        "quote": "Knead the dough unti",
        "confidence": 0.9,
    }
    assert result == expected
    assert list(result) == list(expected)


@pytest.mark.requirement("000-AC5", "000-CR4", "000-R3", "000-R4", "000-T2.2", "000-T7.4")
async def test_metadata_has_the_query_and_the_sources_to_cite(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    """Titles are current, and extractions of a deleted source are left out."""
    extractions = [
        make_extraction(chunk, make_decision(), confidence=confidence)
        for confidence, chunk in (
            (0.9, chunks[3]),
            (0.8, chunks[0]),
            (0.7, chunks[4]),
            (0.6, chunks[1]),
        )
    ]
    await store_extractions(ctx, *extractions)
    expected = {
        "query": "all",
        "sources_cited": ["Under Sail", "Bread at Home"],
        "result_count": 4,
        "search_type": "filtered",
    }
    assert (await call_result(app, "get_decisions"))["metadata"] == expected
    await store_sources(ctx, replace(BAKING, title="Bread and Butter"))
    result = await call_result(app, "get_decisions")
    assert result["results"][1]["source_title"] == "Bread and Butter"
    assert result["metadata"]["sources_cited"] == ["Under Sail", "Bread and Butter"]
    await ctx.database.connection.client.document("sources/baking").delete()
    result = await call_result(app, "get_decisions")
    assert result["metadata"] == expected | {"sources_cited": ["Under Sail"], "result_count": 2}
    assert collect_result_ids([result]) == [
        extractions[0].extraction_id,
        extractions[2].extraction_id,
    ]


@pytest.mark.requirement(
    "000-AC1",
    "000-AC2",
    "000-AC3",
    "000-FR3",
    "000-FR4",
    "000-R1",
    "000-S2",
    "000-T4.2",
    "000-T5.2",
)
@pytest.mark.parametrize("name", LOOKUP_TOOLS)
async def test_each_tool_returns_its_own_type(
    ctx: Context, app: App, chunks: list[Chunk], name: str
) -> None:
    """It returns those of the topic only, to any caller."""
    kind = name.removeprefix("get_").replace("ies", "y").removesuffix("s")
    await store_one_of_each(ctx, chunks[0], "bread")
    await store_one_of_each(ctx, chunks[3], "ropes")
    stored = await read_documents(ctx, "extractions")
    for chunk, arguments in (
        (chunks[0], {"topic": "bread"}),
        (chunks[0], {"source_id": "baking"}),
        (chunks[0], {"topic": "bread", "query": "bread"}),
        (chunks[3], {"topic": "ropes"}),
    ):
        [result] = (await call_result(app, name, ANONYMOUS, **arguments))["results"]
        assert stored[result["id"]]["type"] == kind
        assert result["chunk_id"] == chunk.chunk_id
    for arguments in ({}, {"query": "bread"}):
        results = (await call_result(app, name, ANONYMOUS, **arguments))["results"]
        assert [stored[result["id"]]["type"] for result in results] == [kind] * 2


@pytest.mark.requirement("000-AC6", "000-CR1", "000-FR3", "000-FR4")
@pytest.mark.parametrize("name", TOOLS)
def test_the_tools_are_public_and_read_only(name: str) -> None:
    assert TOOLS[name].tier == Tier.PUBLIC
    assert TOOLS[name].effect == Effect.READ


@pytest.mark.requirement("000-Q2")
async def test_pages_are_in_order_of_confidence_without_repeats(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    """They are limited in size, too."""
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
        assert (sum(counts), max(counts)) == (11, min(limit, 11))
        first, *others = [page["metadata"].get("total") for page in pages]
        assert first == (11 if others else None)
        assert not any(others)
    text = await call_text(app, "get_decisions", limit=3)
    assert text.startswith("3 of 11 results, the surest first:")

    patterns = [make_pattern(f"p{number}", solution="x" * 2_000) for number in range(30)]
    await store_extractions(ctx, *(make_extraction(chunks[1], pattern) for pattern in patterns))
    pages = await call_all_pages(app, "get_patterns", limit=30)
    assert len(set(collect_result_ids(pages))) == 30
    assert 1 < len(pages) <= 3
    assert pages[0]["metadata"]["total"] == 30


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
    duplicate = make_extraction(chunks[1], make_decision(), "bread", group=original.group)
    await store_extractions(ctx, original, duplicate)
    for arguments in ({}, {"topic": "bread"}, {"query": "flour"}):
        result = await call_result(app, "get_decisions", **arguments)
        assert collect_result_ids([result]) == [original.extraction_id]


@pytest.mark.requirement("000-T7.4")
@pytest.mark.parametrize("name", LOOKUP_TOOLS)
async def test_an_empty_base_says_so(app: App, name: str) -> None:
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        result = await call_result(app, name, **arguments)
        assert (result["results"], result["metadata"]["result_count"]) == ([], 0)
        message = result["metadata"]["message"]
        assert f"There are no {name.removeprefix('get_')}" in message
        assert await call_text(app, name, **arguments) == message
