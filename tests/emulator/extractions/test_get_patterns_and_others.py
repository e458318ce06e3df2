"""What `get_patterns`, `get_warnings` and `get_methodologies` say of one extraction.

What they have in common with `get_decisions` is in `test_get_decisions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.extractions.model import Step
from tests.support.extractions import hold, methodology, of, pattern, warning
from tests.support.knowledge import BAKING, put_in
from tests.support.tool_calls import call_result

if TYPE_CHECKING:
    from shared.extractions.model import Content
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

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


async def result_of(ctx: Context, app: App, name: str, content: Content) -> dict[str, Any]:
    """What a tool says of an extraction, between its id and its topics."""
    [chunk, *_] = await put_in(ctx, BAKING)
    await hold(ctx, of(chunk, content, "bread"))
    [result] = (await call_result(app, name))["results"]
    fields = list(result)
    assert ("id", "topics") == (fields[0], fields[-6])
    return {field: result[field] for field in fields[1:-6]}


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "get_patterns",
            pattern(**PATTERN | {"trade_offs": ("It takes a day.",)}),
            PATTERN,
        ),
        (
            "get_warnings",
            warning(
                symptoms=("A sour smell.",),
                consequences=("No bread.", "Hunger."),
                prevention="Feed it every day.",
            ),
            WARNING,
        ),
        (
            "get_methodologies",
            methodology(
                steps=(Step(**KNEAD, tips=("Wet your hands.",)), Step(**BAKE)),
                prerequisites=("Flour.",),
                outputs=("Bread.",),
            ),
            METHODOLOGY,
        ),
    ],
)
async def test_an_extraction_is_shown_whole(
    ctx: Context, app: App, name: str, content: Content, expected: dict[str, Any]
) -> None:
    assert expected == await result_of(ctx, app, name, content)


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("get_patterns", pattern(), ["name", "problem", "solution"]),
        ("get_warnings", warning(), ["title", "description"]),
    ],
)
async def test_what_the_passage_leaves_open_is_left_out(
    ctx: Context, app: App, name: str, content: Content, fields: list[str]
) -> None:
    assert fields == list(await result_of(ctx, app, name, content))


async def test_lists_that_the_passage_leaves_open_are_empty(ctx: Context, app: App) -> None:
    result = await result_of(ctx, app, "get_methodologies", methodology())
    assert ([], []) == (result["prerequisites"], result["outputs"])
