"""`search_traces` finds traces by a query, by tags or by both, and sorts them.

A trace is a solved coding problem that users share and vote on. `make_sample_trace(0)` etc. are the
arguments of numbered examples, which `contribute` stores.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_result, call_text
from tests.support.traces import (
    DOWN,
    NO_MATCHES,
    SPAM,
    add_votes,
    collect_trace_ids,
    contribute,
    make_fixed_clock,
    make_sample_trace,
    search_trace_ids,
    store_trace,
    vote,
)

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


async def search(app: App, **arguments: Any) -> dict[str, Any]:
    """Return the first page of an anonymous caller's search."""
    return await call_result(app, "search_traces", ANONYMOUS, **arguments)


async def contribute_samples(app: App, *numbers: int, user: str = ANNA) -> list[str]:
    """Contribute these samples, in order."""
    return [await contribute(app, number, user) for number in numbers]


@pytest.mark.requirement("002-F1")
async def test_hit_has_all_fields(app: App) -> None:
    app.clock = lambda: NOON
    [trace_id] = await contribute_samples(app, 16)
    await add_votes(app, trace_id, 4)
    [hit] = (await search(app, query="file in .gitignore shows up in git status"))["results"]
    score, solution = hit.pop("score"), hit.pop("solution")
    assert 0.5 < score < 1
    assert hit == {
        "trace_id": trace_id,
        "title": make_sample_trace(16)["title"],
        "tags": ["git", "gitignore"],
        "status": "validated",
        "trust": 0.34,
        "upvotes": 4,
        "downvotes": 0,
        "date": "2026-03-10",
        "rank": 1,
        "context": " ".join(make_sample_trace(16)["context_text"].split()),
    }
    assert solution.split()[:8] == make_sample_trace(16)["solution_text"].split()[:8]
    assert len(solution) <= 200


@pytest.mark.requirement("002-A4", "002-F1", "002-M1", "002-S5")
async def test_text_is_a_numbered_list(app: App) -> None:
    texts: dict[str, Any] = {
        "context_text": "word " * 60,
        "solution_text": "First.\n\n  Then:\n```\nrun it\n```",
    }
    trace_id = await contribute(app, title="Fix the frobnicator", tags=["a", "b"], **texts)
    second_id = await contribute(app, 1, title="The frobnicator hums", tags=[])
    await add_votes(app, trace_id, 4)

    query = "fix the frobnicator"
    hits = (await search(app, query=query))["results"]
    text = await call_text(app, "search_traces", ANONYMOUS, query=query)

    context = " ".join(["word"] * 39) + " word…"
    heading, first_hit, second_hit = text.split("\n\n")
    assert heading == 'Found 2 results for "fix the frobnicator":'
    scores = f"score: {hits[0]['score']:.2f}, trust: 0.34, 4 up, 0 down"
    assert first_hit.splitlines() == [
        f"1. Fix the frobnicator ({scores}, validated)",
        "   Tags: a, b",
        f"   Context: {context}",
        "   Solution: First. Then: ``` run it ```",
        f"   ID: {trace_id}",
    ]
    title, tags, *_, last_line = second_hit.splitlines()
    scores = f"score: {hits[1]['score']:.2f}, trust: 0.00, no votes yet"
    assert title == f"2. The frobnicator hums ({scores})"
    assert tags == "   Tags: none"
    assert last_line == f"   ID: {second_id}"


async def test_search_by_tags_alone_has_no_scores(app: App) -> None:
    await contribute_samples(app, 0, 1)
    text = await call_text(app, "search_traces", ANONYMOUS, tags=["python"])
    assert "score" not in text
    assert text.startswith("Found 2 results")
    assert "trust: 0.00" in text


async def test_empty_base_has_no_results(app: App) -> None:
    for arguments in ({"query": "anything"}, {"tags": ["python"]}, {"query": "x", "tags": ["y"]}):
        answer = await call(app, "search_traces", ANONYMOUS, **arguments)
        assert answer.result
        assert answer.result["results"] == []
        assert answer.result["matches"] is False
        assert str(answer.text).startswith(NO_MATCHES)


@pytest.mark.requirement("002-F2")
async def test_text_without_results_is_one_sentence(app: App) -> None:
    answer = await call(app, "search_traces", ANONYMOUS, query="anything")
    assert answer.result
    assert answer.text == NO_MATCHES
    assert answer.result["message"] == NO_MATCHES


@pytest.mark.requirement("002-F2")
async def test_search_without_a_match_shows_the_nearest_three(app: App) -> None:
    await contribute_samples(app, *range(8))
    answer = await call(app, "search_traces", ANONYMOUS, query="lattice quantum chromodynamics")
    assert answer.result
    assert answer.result["matches"] is False
    assert len(answer.result["results"]) == 3
    assert "next_cursor" not in answer.result
    assert str(answer.text).startswith(NO_MATCHES)


@pytest.mark.requirement("002-T1.1")
async def test_trace_must_have_all_tags(app: App) -> None:
    pytest_id, asyncio_id, fastapi_id, _docker_id = await contribute_samples(app, 0, 1, 2, 6)
    ids_with_python = await search_trace_ids(app, tags=["python"])
    assert set(ids_with_python) == {pytest_id, asyncio_id, fastapi_id}
    ids_with_both = await search_trace_ids(app, tags=["python", "asyncio"])
    assert set(ids_with_both) == {asyncio_id, fastapi_id}
    tags = ["Asyncio", "FASTAPI", "python", "python"]
    assert await search_trace_ids(app, tags=tags) == [fastapi_id]
    assert await search_trace_ids(app, tags=["docker", "python"]) == []


async def test_tags_filter_a_query(app: App) -> None:
    _, _, fastapi_id, docker_id = await contribute_samples(app, 0, 1, 2, 6)
    query = "async web server freezes"
    page = await search(app, query=query, tags=["docker"])
    assert collect_trace_ids([page]) == [docker_id]
    ids_with_python = await search_trace_ids(app, query=query, tags=["python"])
    assert ids_with_python[0] == fastapi_id


async def test_tags_alone_list_the_latest_first(app: App) -> None:
    trace_ids: list[str] = []
    for number in range(4):
        app.clock = make_fixed_clock(NOON + timedelta(hours=number))
        trace_ids.append(await contribute(app, number, tags=["x"]))
    assert trace_ids[::-1] == await search_trace_ids(app, tags=["x"])


@pytest.mark.requirement("002-F2")
async def test_unknown_tag_is_named_with_a_suggestion(app: App) -> None:
    await contribute_samples(app, 0, 1)
    for arguments in ({"tags": ["asynkio", "python"]}, {"tags": ["asynkio"], "query": "task"}):
        answer = await call(app, "search_traces", ANONYMOUS, **arguments)
        assert answer.result
        assert answer.result["results"] == []
        for text in (answer.result["message"], str(answer.text)):
            assert NO_MATCHES in text
            assert "'asynkio'" in text
            assert "'asyncio'" in text
            assert "'python'" not in text


@pytest.mark.parametrize(
    "query", ["\0", "\u200b", "%s \\ ' \"", "の", "🧀", "x" * 1_000, "a b " * 250]
)
async def test_odd_queries_are_answered(app: App, query: str) -> None:
    await contribute_samples(app, 0)
    assert (await search(app, query=query))["query"] == query.strip()


@pytest.mark.parametrize("embedder", [WordEmbedder()])
async def test_trust_breaks_a_tie(app: App, embedder: WordEmbedder) -> None:
    assert not embedder.is_down
    titles = ("a b c", "b c a", "c a b", "b a c")
    distrusted, unrated, trusted, upvoted = [await store_trace(app, title) for title in titles]
    await add_votes(app, trusted, 4)
    await add_votes(app, distrusted, 4, **DOWN)
    await vote(app, upvoted, "ben")
    ids = await search_trace_ids(app, query="c b")
    assert ids == [trusted, upvoted, unrated, distrusted]


async def test_popular_trace_never_outranks_a_match(app: App) -> None:
    [matching_id] = await contribute_samples(app, 1)
    other_ids = await contribute_samples(app, 0, 2, 3, 6)
    for trace_id in other_ids:
        await asyncio.gather(*(vote(app, trace_id, f"friend{number}") for number in range(6)))
    await asyncio.gather(*(vote(app, matching_id, f"foe{number}", **DOWN) for number in range(4)))
    app.clock = lambda: NOON + timedelta(days=4_000)  # the match is old, too

    for query in (
        "asyncio background task disappears without an error",
        "Task was destroyed but it is pending!",
        "strong reference to a task",
    ):
        assert (await search_trace_ids(app, query=query))[0] == matching_id


async def test_complete_result_has_no_message_or_cursor(app: App) -> None:
    await contribute_samples(app, 0)
    result = await search(app, query="pytest", limit=1)
    assert "message" not in result
    assert "next_cursor" not in result


@pytest.mark.parametrize("user", [ANONYMOUS, "ben", ANNA])
async def test_every_user_finds_the_same_traces(app: App, user: str | None) -> None:
    await contribute_samples(app, 0, 1, 2)
    own_view = await call_result(app, "search_traces", user, query="python tests")
    assert await search(app, query="python tests") == own_view


@pytest.mark.parametrize("embedder", [WordEmbedder()])
async def test_only_words_are_searched_while_embedding_is_down(
    app: App, embedder: WordEmbedder
) -> None:
    pytest_id, flagged_id, fastapi_id = await contribute_samples(app, 0, 1, 2)
    await add_votes(app, flagged_id, 2, **SPAM)

    embedder.is_down = True
    answer = await call(app, "search_traces", ANONYMOUS, query="editable install")
    ids_by_tags = await search_trace_ids(app, tags=["python"])
    ids_by_query_and_tags = await search_trace_ids(app, query="asyncio", tags=["python"])
    embedder.is_down = False

    assert answer.result, answer.error
    assert answer.result["results"][0]["trace_id"] == pytest_id
    assert answer.result["matches"] is True
    assert "score" not in answer.result["results"][0]
    assert "embedding provider" in answer.result["message"]
    assert "score" not in str(answer.text)
    assert set(ids_by_tags) == {pytest_id, fastapi_id}
    assert ids_by_query_and_tags == [fastapi_id]
