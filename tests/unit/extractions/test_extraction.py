"""Extractions have ids, facets (by which they are filtered) and texts that are embedded.

An extraction is a decision, pattern, warning or methodology that was found in a chunk.
"""

from itertools import product

import pytest

from shared.extractions.model import (
    CONTENTS,
    ExtractionType,
    Methodology,
    build_facet,
    build_facets,
    compute_extraction_id,
)
from tests.support.extractions import (
    make_decision,
    make_methodology,
    make_pattern,
    make_warning,
)
from tests.support.knowledge import BAKING, chunk_source

CHUNK, OTHER_CHUNK, _ = chunk_source(BAKING).chunks
ALL_CONTENTS = (make_decision(), make_pattern(), make_warning(), make_methodology())


def test_ids_differ_unless_chunk_and_content_are_equal() -> None:
    assert [CONTENTS[kind].type for kind in ExtractionType] == list(ExtractionType)
    chunks = (CHUNK.chunk_id, OTHER_CHUNK.chunk_id)
    contents = (*ALL_CONTENTS, make_decision("Which oven?"), make_decision(options=("rye",)))
    ids = set()
    for chunk, content in product(chunks, contents):
        extraction_id = compute_extraction_id(chunk, content)
        copy = type(content).model_validate(content.model_dump())
        assert compute_extraction_id(chunk, copy) == extraction_id
        ids.add(extraction_id)
    assert len(ids) == len(chunks) * len(contents)


def test_an_extraction_has_a_facet_for_each_matching_filter() -> None:
    assert sorted(build_facets(ExtractionType.DECISION, ("rag", "rye bread"), "baking")) == [
        "decision",
        "decision source:baking",
        "decision topic:rag",
        "decision topic:rag source:baking",
        "decision topic:rye%20bread",
        "decision topic:rye%20bread source:baking",
    ]


def test_a_topic_cannot_be_mistaken_for_a_source() -> None:
    misleading_facet = build_facet(ExtractionType.DECISION, "rag source:baking")
    assert misleading_facet != build_facet(ExtractionType.DECISION, "rag", "baking")
    assert build_facet(ExtractionType.DECISION, "100%25") != build_facet(
        ExtractionType.DECISION, "100%"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (make_decision(), "Which flour? rye; wheat"),
        (make_decision(recommended_approach="Rye."), "Which flour? Rye."),
        (make_pattern(), "Sourdough Bread that keeps for a day only. Let it sour."),
        (make_warning(), "Starving starter It dies without flour and water."),
        (make_methodology(), "Baking Knead"),
    ],
)
def test_the_embedded_text_combines_question_and_answer(content: object, expected: str) -> None:
    assert getattr(content, "text", None) == expected


def test_steps_are_renumbered_from_one_in_order() -> None:
    steps = [
        {"order": order, "title": f"Step {order}", "description": "Do it."} for order in (9, 7)
    ]
    content = Methodology.model_validate({"name": "Bake", "steps": steps})
    assert [step.title for step in content.steps] == ["Step 7", "Step 9"]
    assert [step.order for step in content.steps] == [1, 2]
