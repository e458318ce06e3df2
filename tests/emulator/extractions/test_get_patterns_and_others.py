"""`get_patterns`, `get_warnings` and `get_methodologies` return each field of an extraction.

`test_get_decisions.py` tests what they have in common with `get_decisions`.
"""

from typing import Final

import pytest
from syrupy.assertion import SnapshotAssertion

from shared.extractions.model import Content, Step
from shared.runtime.context import App, Context
from tests.support.extractions import (
    make_extraction,
    make_methodology,
    make_pattern,
    make_warning,
    store_extractions,
)
from tests.support.knowledge import BAKING, store_sources
from tests.support.tool_calls import call_result

ATTRIBUTION_FIELDS: Final = (
    "topics",
    "source_title",
    "source_id",
    "chunk_id",
    "quote",
    "confidence",
)


@pytest.mark.requirement(
    "000-AC2",
    "000-AC3",
    "000-D3",
    "000-D4",
    "000-M2",
    "000-M3",
    "000-T2.3",
    "000-T4.3",
    "000-T4.4",
    "000-T5.3",
    "000-T5.4",
    "000-T7.2",
    "000-T7.3",
)
@pytest.mark.parametrize(
    ("name", "contents"),
    [
        (
            "get_patterns",
            [
                make_pattern(
                    code_example="while hungry:\n    feed(starter)\n",
                    context="At home.",
                    trade_offs=("It takes a day.",),
                ),
                make_pattern("Least"),
            ],
        ),
        (
            "get_warnings",
            [
                make_warning(
                    symptoms=("A sour smell.",),
                    consequences=("No bread.", "Hunger."),
                    prevention="Feed it every day.",
                ),
                make_warning("Least"),
            ],
        ),
        (
            "get_methodologies",
            [
                make_methodology(
                    steps=(
                        Step(order=1, title="Knead", description="Well.", tips=("Wet hands.",)),
                        Step(order=2, title="Bake", description="In a hot oven."),
                    ),
                    prerequisites=("Flour.",),
                    outputs=("Bread.",),
                ),
                make_methodology("Least"),
            ],
        ),
    ],
)
async def test_a_result_has_every_field_of_the_content(
    ctx: Context, app: App, name: str, contents: list[Content], snapshot: SnapshotAssertion
) -> None:
    """Optional fields without a value are omitted, and lists without one are empty."""
    [chunk, *_] = await store_sources(ctx, BAKING)
    extractions = (make_extraction(chunk, content, "bread") for content in contents)
    await store_extractions(ctx, *extractions)
    results = (await call_result(app, name))["results"]
    for result in results:
        assert next(iter(result)) == "id"
        assert tuple(result)[-len(ATTRIBUTION_FIELDS) :] == ATTRIBUTION_FIELDS
    assert results == snapshot
