"""`get_patterns`, `get_warnings` and `get_methodologies` return each field of an extraction.

`test_get_decisions.py` tests what they have in common with `get_decisions`.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from shared.extractions.model import Content, Step
from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from tests.support.extractions import (
    collect_result_ids,
    make_decision,
    make_extraction,
    make_methodology,
    make_pattern,
    make_warning,
    store_extractions,
)
from tests.support.knowledge import BAKING, store_sources
from tests.support.tool_calls import ANONYMOUS, call, call_result

PATTERN: dict[str, Any] = {
    "name": "Sourdough",
    "problem": "Bread that keeps for a day only.",
    "solution": "Let it sour.",
    "code_example": "while hungry:\n    feed(starter)\n",
    "context": "At home.",
    "trade_offs": ["It takes a day."],
}
WARNING: dict[str, Any] = {
    "title": "Starving starter",
    "description": "It dies without flour and water.",
    "symptoms": ["A sour smell."],
    "consequences": ["No bread.", "Hunger."],
    "prevention": "Feed it every day.",
}
KNEAD: dict[str, Any] = {"order": 1, "title": "Knead", "description": "Until smooth."}
BAKE: dict[str, Any] = {"order": 2, "title": "Bake", "description": "In a hot oven."}
METHODOLOGY: dict[str, Any] = {
    "name": "Baking",
    "steps": [KNEAD | {"tips": ["Wet your hands."]}, BAKE | {"tips": []}],
    "prerequisites": ["Flour."],
    "outputs": ["Bread."],
}
ATTRIBUTION_FIELDS: Final = (
    "topics",
    "source_title",
    "source_id",
    "chunk_id",
    "confidence",
    "quote",
)


async def call_for_content(ctx: Context, app: App, name: str, content: Content) -> dict[str, Any]:
    """Store an extraction, call a tool, and return the fields of the result that have the content.

    They stand between the id and the fields that all types have.
    """
    [chunk, *_] = await store_sources(ctx, BAKING)
    await store_extractions(ctx, make_extraction(chunk, content, "bread"))
    [result] = (await call_result(app, name))["results"]
    first, *content_fields = list(result)[: -len(ATTRIBUTION_FIELDS)]
    assert first == "id"
    assert tuple(result)[-len(ATTRIBUTION_FIELDS) :] == ATTRIBUTION_FIELDS
    return {field: result[field] for field in content_fields}


@pytest.mark.requirement(
    "000-D3",
    "000-D4",
    "000-M2",
    "000-M3",
    "000-T2.3",
    "000-T4.3",
    "000-T5.3",
    "000-T7.2",
    "000-T7.3",
)
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "get_patterns",
            make_pattern(**PATTERN | {"trade_offs": ("It takes a day.",)}),
            PATTERN,
        ),
        (
            "get_warnings",
            make_warning(
                symptoms=("A sour smell.",),
                consequences=("No bread.", "Hunger."),
                prevention="Feed it every day.",
            ),
            WARNING,
        ),
        (
            "get_methodologies",
            make_methodology(
                steps=(Step(**KNEAD, tips=("Wet your hands.",)), Step(**BAKE)),
                prerequisites=("Flour.",),
                outputs=("Bread.",),
            ),
            METHODOLOGY,
        ),
    ],
)
async def test_a_result_has_every_field_of_the_content(
    ctx: Context, app: App, name: str, content: Content, expected: dict[str, Any]
) -> None:
    assert await call_for_content(ctx, app, name, content) == expected


@pytest.mark.requirement("000-AC2", "000-AC3", "000-T4.4", "000-T5.4")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("get_decisions", make_decision()),
        ("get_patterns", make_pattern()),
        ("get_warnings", make_warning()),
        ("get_methodologies", make_methodology()),
    ],
)
async def test_a_result_names_its_source_and_passage(
    ctx: Context, app: App, chunks: list[Chunk], name: str, content: Content
) -> None:
    extraction = make_extraction(chunks[3], content, "ropes", "sails", confidence=0.75)
    await store_extractions(ctx, extraction)
    answer = await call_result(app, name)
    [result] = answer["results"]
    assert {field: result[field] for field in ATTRIBUTION_FIELDS} == {
        "topics": ["ropes", "sails"],
        "source_title": "Under Sail",
        "source_id": "sailing",
        "chunk_id": chunks[3].chunk_id,
        "confidence": 0.75,
        "quote": chunks[3].content[:20],
    }
    assert answer["metadata"]["sources_cited"] == ["Under Sail"]


@pytest.mark.requirement("000-AC2", "000-AC3", "000-FR3", "000-FR4", "000-T4.2", "000-T5.2")
@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("get_decisions", (make_decision("Which flour?"), make_decision("Which rope?"))),
        ("get_patterns", (make_pattern("Sourdough"), make_pattern("Reefing"))),
        ("get_warnings", (make_warning("Starving starter"), make_warning("Loose ropes"))),
        ("get_methodologies", (make_methodology("Baking"), make_methodology("Tacking"))),
    ],
)
async def test_a_topic_filters_for_any_caller(
    ctx: Context, app: App, chunks: list[Chunk], name: str, contents: tuple[Content, Content]
) -> None:
    bread_content, ropes_content = contents
    extractions = [
        make_extraction(chunks[0], bread_content, "bread"),
        make_extraction(chunks[3], ropes_content, "ropes"),
    ]
    await store_extractions(ctx, *extractions)
    for extraction in extractions:
        answer = await call(app, name, ANONYMOUS, topic=extraction.topics[0])
        assert answer.result, answer.error
        assert collect_result_ids([answer.result]) == [extraction.extraction_id]


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("get_patterns", make_pattern(), ["name", "problem", "solution"]),
        ("get_warnings", make_warning(), ["title", "description"]),
    ],
)
async def test_optional_fields_without_a_value_are_omitted(
    ctx: Context, app: App, name: str, content: Content, fields: list[str]
) -> None:
    assert list(await call_for_content(ctx, app, name, content)) == fields


async def test_optional_lists_without_a_value_are_empty(ctx: Context, app: App) -> None:
    result = await call_for_content(ctx, app, "get_methodologies", make_methodology())
    assert result["prerequisites"] == []
    assert result["outputs"] == []
