"""Solved problems by meaning, with the local embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tool_calls import STRANGER, call_result
from tests.support.traces import (
    DOWN,
    NOTHING,
    SPAM,
    contribute,
    found,
    ids,
    plant,
    sample,
    tags,
    votes,
)

if TYPE_CHECKING:
    from shared.ai.local_embedding import LocalEmbedder
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    return local_embedder


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("asyncio create_task sometimes just stops without exception", 1),
        ("import file mismatch", 3),
        ("container takes long to stop, no SIGTERM", 6),
        ("the whole table is scanned in spite of my index", 12),
    ],
)
async def test_the_trace_that_answers_comes_first(app: App, query: str, number: int) -> None:
    made = {number: await contribute(app, number) for number in (0, 1, 3, 6, 12, 22)}
    result = await call_result(app, "search_traces", STRANGER, query=query)
    assert (made[number], True) == (result["results"][0]["trace_id"], result["matches"])


async def test_only_a_flagged_one_would_match_and_so_nothing_does(app: App) -> None:
    """What is hidden is no reason to call the rest a match."""
    made = [await contribute(app, number) for number in range(5, 12)]
    flagged = await contribute(app, 1)
    await votes(app, flagged, 2, **SPAM)
    query = "coroutine garbage collected by asyncio: weak reference"
    result = await call_result(app, "search_traces", STRANGER, query=query)
    assert (False, True) == (result["matches"], set(ids([result])) <= set(made))
    assert len(result["results"]) <= 3
    assert result["message"].startswith(NOTHING)
    assert flagged == (await found(app, query=query, include_flagged=True))[0]


async def test_of_two_that_fit_alike_the_trusted_one_comes_first(app: App) -> None:
    """However few there are: a hair's breadth of relevance is no reason against 19 votes."""
    query = "frobnicator of type A jams"
    made = [await plant(app, f"The frobnicator of type {name}") for name in ("A", "B two")]
    hits = (await call_result(app, "search_traces", STRANGER, query=query))["results"]
    assert made == ids([{"results": hits}])
    assert hits[0]["score"] - hits[1]["score"] < 0.06
    await votes(app, made[1], 12)
    await votes(app, made[0], 7, **DOWN)
    assert made[::-1] == await found(app, query=query)


async def test_what_was_amended_is_found_by_what_it_says_now(app: App) -> None:
    trace_id = await contribute(app, tags=["old"])
    await contribute(app, 3, "ben", tags=["old"])
    await call_result(app, "amend_trace", trace_id=trace_id, **sample(1, tags=["new"]))
    assert trace_id == (await found(app, query="background task vanishes silently"))[0]
    assert [trace_id] == await found(app, query="add_done_callback", limit=1)
    assert [trace_id] == await found(app, tags=["new"])
    assert trace_id not in await found(app, tags=["old"])
    assert trace_id not in await found(app, query="billing rates editable install", limit=1)
    assert {"new": 1, "old": 1} == await tags(app)
