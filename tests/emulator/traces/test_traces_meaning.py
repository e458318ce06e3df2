"""`search_traces` finds traces by meaning, with vectors of the local embedding model.

A trace is a solved coding problem that users share. Voters can flag it, which hides it.
"""

import pytest

from shared.ai.local_embedding import LocalEmbedder
from shared.runtime.context import App
from tests.support.tool_calls import ANONYMOUS, call_result
from tests.support.traces import (
    DOWN,
    NO_MATCHES,
    SPAM,
    add_votes,
    collect_trace_ids,
    contribute,
    make_sample_trace,
    search_trace_ids,
    store_trace,
)


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    """The embedder of `app`: a real model."""
    return local_embedder


@pytest.mark.requirement("002-M1")
@pytest.mark.parametrize(
    ("query", "sample_number"),
    [
        ("asyncio create_task sometimes just stops without exception", 1),
        ("import file mismatch", 3),
        ("container takes long to stop, no SIGTERM", 6),
        ("the whole table is scanned in spite of my index", 12),
    ],
)
async def test_answering_trace_ranks_first(app: App, query: str, sample_number: int) -> None:
    trace_ids = {number: await contribute(app, number) for number in (0, 1, 3, 6, 12, 22)}
    result = await call_result(app, "search_traces", ANONYMOUS, query=query)
    assert result["results"][0]["trace_id"] == trace_ids[sample_number]
    assert result["matches"] is True


async def test_hidden_flagged_trace_does_not_count_as_a_match(app: App) -> None:
    """A hidden match does not make other hits a match."""
    trace_ids = [await contribute(app, number) for number in range(5, 12)]
    flagged_id = await contribute(app, 1)
    await add_votes(app, flagged_id, 2, **SPAM)
    query = "coroutine garbage collected by asyncio: weak reference"
    result = await call_result(app, "search_traces", ANONYMOUS, query=query)
    assert result["matches"] is False
    assert set(collect_trace_ids([result])) <= set(trace_ids)
    assert all(hit["near"] for hit in result["results"])
    assert result["message"].startswith(NO_MATCHES)
    assert (await search_trace_ids(app, query=query, include_flagged=True))[0] == flagged_id


async def test_the_trusted_of_two_equal_matches_ranks_first(app: App) -> None:
    """A tiny difference in relevance does not outweigh 19 votes, even between two hits."""
    query = "frobnicator of type A jams"
    better_match = await store_trace(app, "The frobnicator of type A")
    other_match = await store_trace(app, "The frobnicator of type B two")
    hits = (await call_result(app, "search_traces", ANONYMOUS, query=query))["results"]
    assert [hit["trace_id"] for hit in hits] == [better_match, other_match]
    assert hits[0]["score"] - hits[1]["score"] < 0.06

    await add_votes(app, other_match, 12)
    await add_votes(app, better_match, 7, **DOWN)
    assert await search_trace_ids(app, query=query) == [other_match, better_match]


async def test_amended_trace_is_found_by_its_new_text(app: App) -> None:
    trace_id = await contribute(app)
    await contribute(app, 3, "ben")
    await call_result(app, "amend_trace", trace_id=trace_id, **make_sample_trace(1))
    for query, is_first in (
        ("background task vanishes silently", True),
        ("add_done_callback", True),
        ("billing rates editable install", False),
    ):
        ids = await search_trace_ids(app, query=query)
        assert (ids[:1] == [trace_id]) == is_first
