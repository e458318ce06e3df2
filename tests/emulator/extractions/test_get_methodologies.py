"""`get_methodologies`: what it says of one. What it has in common: test_get_decisions.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.extractions.model import Step
from tests.support.extractions import hold, methodology, of
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import BAKING, put_in
from tests.support.tool_calls import call_result

if TYPE_CHECKING:
    from shared.runtime.context import Backend, Deps

pytestmark = pytest.mark.anyio


@pytest.fixture
def embedder() -> WordEmbedder:
    """Vectors that cost nothing."""
    return WordEmbedder()


async def told(deps: Deps, backend: Backend, **other: Any) -> dict[str, Any]:
    """What is said of a methodology, between its id and its topics."""
    [chunk, *_] = await put_in(deps, BAKING)
    await hold(deps, of(chunk, methodology(**other), "bread"))
    [result] = (await call_result(backend, "get_methodologies"))["results"]
    fields = list(result)
    assert ("id", "topics") == (fields[0], fields[-6])
    return {name: result[name] for name in fields[1:-6]}


async def test_a_methodology_is_told_whole(deps: Deps, backend: Backend) -> None:
    steps = (
        Step(order=1, title="Knead", description="Until smooth.", tips=("Wet your hands.",)),
        Step(order=2, title="Bake", description="In a hot oven."),
    )
    assert {
        "name": "Baking",
        "steps": [
            {
                "order": 1,
                "title": "Knead",
                "description": "Until smooth.",
                "tips": ["Wet your hands."],
            },
            {"order": 2, "title": "Bake", "description": "In a hot oven.", "tips": []},
        ],
        "prerequisites": ["Flour."],
        "outputs": ["Bread."],
    } == await told(deps, backend, steps=steps, prerequisites=("Flour.",), outputs=("Bread.",))


async def test_lists_that_the_passage_leaves_open_are_empty(deps: Deps, backend: Backend) -> None:
    found = await told(deps, backend)
    assert ([], []) == (found["prerequisites"], found["outputs"])
