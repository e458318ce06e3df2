"""`search_traces` finds traces by a query, by tags or by both, and sorts them.

A trace is a solved coding problem that users share and vote on. `make_sample_trace(0)` etc. are the
arguments of numbered examples, which `contribute` stores.
"""

import asyncio
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from shared.index.facets import Kind, make_named_facet
from shared.runtime.context import App, Context
from shared.search.relevance import MAX_NEAR
from shared.traces.corpus import make_trace_corpus
from shared.traces.trust import TraceStatus, VoteTally
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.embedder import WordEmbedder
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_error, call_result, call_text
from tests.support.traces import (
    DOWN,
    NO_MATCHES,
    SPAM,
    add_votes,
    contribute,
    make_sample_trace,
    search_trace_ids,
    store_trace,
    vote,
)


async def search(app: App, **arguments: Any) -> dict[str, Any]:
    """Return the first page of an anonymous caller's search."""
    return await call_result(app, "search_traces", ANONYMOUS, **arguments)


async def contribute_samples(app: App, *numbers: int, user: str = ANNA) -> list[str]:
    return [await contribute(app, number, user) for number in numbers]


@pytest.mark.requirement("002-F1")
async def test_hit_has_all_fields(app: App, clock: SettableClock) -> None:
    clock.now = NOON
    [trace_id] = await contribute_samples(app, 16)
    await add_votes(app, trace_id, 4)
    query = "file in .gitignore shows up in git status"
    result = await search(app, query=query, limit=1)
    assert await call_result(app, "search_traces", "ben", query=query, limit=1) == result
    of_contributor = await call_result(app, "search_traces", ANNA, query=query, limit=1)
    [hit] = result.pop("results")
    assert of_contributor["results"] == [hit | {"yours": True}]
    assert result == {"query": query, "matches": True}
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
        "date": "2024-05-31",
        "rank": 1,
        "context": " ".join(make_sample_trace(16)["context_text"].split()),
    }
    assert solution.split()[:8] == make_sample_trace(16)["solution_text"].split()[:8]
    assert len(solution) <= 200


async def test_own_traces_are_searched_and_listed_alone(app: App) -> None:
    """Traces that voters warn against are included, but withdrawn ones are not."""
    flagged, withdrawn, other = await contribute_samples(app, 16, 1, 2)
    theirs = await contribute(app, 3, "ben")
    await add_votes(app, flagged, 4, **DOWN)
    await call_result(app, "withdraw_trace", ANNA, trace_id=withdrawn)

    async def find(**arguments: Any) -> set[str]:
        page = await call_result(app, "search_traces", ANNA, mine=True, **arguments)
        return {hit["trace_id"] for hit in page["results"]}

    assert await find() == {flagged, other}
    assert await find(tags=["git"]) == {flagged}
    assert theirs not in await find(query=make_sample_trace(3)["title"])
    assert flagged in await find(query=make_sample_trace(16)["title"])
    listing = await call_result(app, "search_traces", ANNA, mine=True, limit=1)
    assert listing["message"] == "1 of 2."
    second = await call_result(
        app, "search_traces", ANNA, mine=True, limit=1, cursor=listing["next_cursor"]
    )
    assert {listing["results"][0]["trace_id"], second["results"][0]["trace_id"]} == {flagged, other}
    assert "next_cursor" not in second


async def test_only_who_is_signed_in_has_own_traces(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await contribute_samples(app, 1, 2)
    error = await call_error(app, "search_traces", ANONYMOUS, mine=True)
    assert (error.code, error.message) == ("UNAUTHORIZED", "Sign in to search your own traces.")
    monkeypatch.setattr("functions.tools.traces.search_traces.tool.MAX_OWN", 1)
    error = await call_error(app, "search_traces", ANNA, mine=True)
    assert error.message == "You have more than 1 traces: search without mine. Yours are marked."


@pytest.mark.requirement("002-A4", "002-F1", "002-M1", "002-S5")
async def test_text_is_a_numbered_list(app: App, snapshot: SnapshotAssertion) -> None:
    """A search by tags alone has no scores."""
    texts: dict[str, Any] = {
        "context_text": "word " * 60,
        "solution_text": "First.\n\n  Then:\n```\nrun\n```",
    }
    trace_id = await contribute(app, title="Fix the frobnicator", tags=["a", "b"], **texts)
    other_id = await contribute(
        app, title="The frobnicator hums", tags=[], context_text="Hum.", solution_text="Wait."
    )
    await add_votes(app, trace_id, 4)
    text = await call_text(app, "search_traces", ANONYMOUS, query="fix the frobnicator")
    text_by_tag = await call_text(app, "search_traces", ANONYMOUS, tags=["b", "a"])
    both = re.sub(r"\d{4}-\d\d-\d\d", "DAY", f"{text}\n=====\n{text_by_tag}")
    assert both.replace(trace_id, "FIX").replace(other_id, "HUM") == snapshot


@pytest.mark.requirement("002-F2", "002-V7")
async def test_search_without_a_match_shows_the_nearest(app: App) -> None:
    query = "lattice quantum chromodynamics"
    for arguments in ({"query": query}, {"tags": ["python"]}, {"query": query, "tags": ["y"]}):
        answer = await call(app, "search_traces", ANONYMOUS, **arguments)
        assert answer.result
        assert answer.result["results"] == []
        assert answer.result["matches"] is False
        assert str(answer.text).startswith(NO_MATCHES)
        if "tags" not in arguments:
            assert answer.text == answer.result["message"] == NO_MATCHES

    await contribute_samples(app, *range(8))
    answer = await call(app, "search_traces", ANONYMOUS, query=query)
    assert answer.result
    assert answer.result["matches"] is False
    assert len(answer.result["results"]) == MAX_NEAR
    assert all(hit["near"] for hit in answer.result["results"])
    assert "next_cursor" not in answer.result
    assert str(answer.text).startswith(NO_MATCHES)


@pytest.mark.requirement("002-T1.1")
async def test_trace_must_have_all_tags(app: App, clock: SettableClock) -> None:
    """The latest come first."""
    ids = []
    for number in (0, 1, 2, 6):
        ids.append(await contribute(app, number))
        clock.advance(hours=1)
    pytest_id, asyncio_id, fastapi_id, docker_id = ids
    for tags, expected in (
        (["python"], [fastapi_id, asyncio_id, pytest_id]),
        (["python", "asyncio"], [fastapi_id, asyncio_id]),
        (["Asyncio", "FASTAPI", "python", "python"], [fastapi_id]),
        (["docker", "python"], []),
    ):
        assert await search_trace_ids(app, tags=tags) == expected
    query = "async web server freezes"
    assert await search_trace_ids(app, query=query, tags=["docker"]) == [docker_id]
    assert (await search_trace_ids(app, query=query, tags=["python"]))[0] == fastapi_id


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


async def test_odd_queries_are_answered(app: App) -> None:
    await contribute_samples(app, 0)
    for query in ("\0", "\u200b", "%s \\ ' \"", "の", "🧀", "x" * 1_000, "a b " * 250):
        assert (await search(app, query=query))["query"] == query.strip()


async def test_trust_breaks_a_tie(app: App) -> None:
    titles = ("a b c", "b c a", "c a b", "b a c")
    distrusted, unrated, trusted, upvoted = [await store_trace(app, title) for title in titles]
    await add_votes(app, trusted, 4)
    await add_votes(app, distrusted, 4, **DOWN)
    await vote(app, upvoted, "ben")
    ids = await search_trace_ids(app, query="c b")
    assert ids == [trusted, upvoted, unrated, distrusted]


async def test_popular_trace_never_outranks_a_match(app: App, clock: SettableClock) -> None:
    [matching_id] = await contribute_samples(app, 1)
    other_ids = await contribute_samples(app, 0, 2, 3, 6)
    for trace_id in other_ids:
        await asyncio.gather(*(vote(app, trace_id, f"friend{number}") for number in range(6)))
    await asyncio.gather(*(vote(app, matching_id, f"foe{number}", **DOWN) for number in range(4)))
    clock.advance(days=4_000)  # the match is old, too

    for query in (
        "asyncio background task disappears without an error",
        "Task was destroyed but it is pending!",
        "strong reference to a task",
    ):
        assert (await search_trace_ids(app, query=query))[0] == matching_id


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


@pytest.mark.parametrize("tags", [[], ["python"]])
async def test_flagged_traces_do_not_hide_a_good_one(app: App, tags: list[str]) -> None:
    flagged = VoteTally(downvotes=9, down=450, alarm=450)
    assert flagged.status is TraceStatus.FLAGGED
    for number in range(60):
        title = f"the tap drips and leaks {number}"
        await store_trace(app, title, tags=("python",), tally=flagged)
    for number in range(75):
        await store_trace(app, f"something else {number}", tags=("python",))
    good = await store_trace(app, "a tap leaks", tags=("python",))
    assert (await search_trace_ids(app, query="the tap drips and leaks", tags=tags))[0] == good


async def test_the_newest_traces_of_a_tag_are_loaded(app: App, ctx: Context) -> None:
    """A search by tags alone does so if a tag has more traces than its postings list."""
    ids = {await store_trace(app, title, tags=("python",)) for title in ("one", "two")}
    tag = make_named_facet(Kind.TAG, "python")
    loaded = await make_trace_corpus(ctx.database).documents.load_newest(5, [tag.id])
    assert {trace.id for trace in loaded} == ids
