"""`get_warnings`: what it says of a warning. What it has in common: test_get_decisions.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.extractions import hold, of, warning
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
    """What is said of a warning, between its id and its topics."""
    [chunk, *_] = await put_in(deps, BAKING)
    await hold(deps, of(chunk, warning(**other), "bread"))
    [result] = (await call_result(backend, "get_warnings"))["results"]
    fields = list(result)
    assert ("id", "topics") == (fields[0], fields[-6])
    return {name: result[name] for name in fields[1:-6]}


async def test_a_warning_is_told_whole(deps: Deps, backend: Backend) -> None:
    expected = {
        "title": "Starving starter",
        "description": "It dies without flour and water.",
        "symptoms": ["A sour smell."],
        "consequences": ["No bread.", "Hunger."],
        "prevention": "Feed it every day.",
    }
    given: dict[str, Any] = {
        "symptoms": ("A sour smell.",),
        "consequences": ("No bread.", "Hunger."),
        "prevention": "Feed it every day.",
    }
    assert expected == await told(deps, backend, **given)


async def test_what_the_passage_leaves_open_is_left_out(deps: Deps, backend: Backend) -> None:
    assert ["title", "description"] == list(await told(deps, backend))
