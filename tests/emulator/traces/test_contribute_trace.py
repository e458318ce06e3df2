"""`contribute_trace` stores a trace, which search finds immediately, and returns its id.

A trace is a solved coding problem that users share and vote on. `make_sample_trace(0)` etc. are the
arguments of numbered examples.
"""

from __future__ import annotations

import asyncio
import threading
from types import ModuleType
from typing import Any

import pytest

from shared.index import indexed_state
from shared.runtime.context import App
from shared.screening import screen
from shared.traces import near_duplicates
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANONYMOUS, call, call_result
from tests.support.traces import contribute, make_sample_trace, read_tag_counts, search_trace_ids


@pytest.mark.requirement("002-M2", "002-T2.3")
async def test_result_has_id_status_and_undo(app: App) -> None:
    result = await call_result(app, "contribute_trace", **make_sample_trace(1))
    trace_id = result["trace_id"]
    assert result == {
        "trace_id": trace_id,
        "status": "pending",
        "duplicate": False,
        "title": "asyncio background task disappears without an error",
        "tags": ["python", "asyncio"],
        "similar": [],
        "yours": True,
        "undo": {"tool": "withdraw_trace", "arguments": {"trace_id": trace_id}},
    }


@pytest.mark.requirement("002-F4")
async def test_text_confirms_the_submission(app: App) -> None:
    answer = await call(app, "contribute_trace", **make_sample_trace(1))
    assert answer.result
    assert answer.text
    first_sentence = (
        f"Trace submitted successfully (ID: {answer.result['trace_id']}). Status: pending — it will"
        " be validated after community review."
    )
    assert answer.text.startswith(first_sentence)
    assert "withdraw_trace" in answer.text


@pytest.mark.requirement("002-M2")
@pytest.mark.parametrize(
    "search",
    [
        {"query": "why did the work I started in the event loop vanish silently"},
        {"query": "add_done_callback"},
        {"tags": ["asyncio"]},
        {"query": "TaskGroup", "tags": ["asyncio", "python"]},
    ],
    ids=["meaning", "words", "tags", "both"],
)
async def test_trace_is_found_immediately(app: App, search: dict[str, Any]) -> None:
    for other_number in (0, 2, 5, 15):
        await contribute(app, other_number, tags=["python", "other"])
    trace_id = await contribute(app, 1)
    assert (await search_trace_ids(app, **search))[0] == trace_id


async def test_tags_are_searched_as_words(app: App) -> None:
    trace_id = await contribute(app, 1, tags=["quokka"])
    assert await search_trace_ids(app, query="quokka") == [trace_id]


async def test_texts_are_stored_verbatim(app: App) -> None:
    texts: dict[str, Any] = {
        "title": "Größe: 熟成 🧀 👩🏽‍🍳 שלום",
        "context_text": "  indented\n\tand tabbed\r\n\n  ends so  \n",
        "solution_text": "\u05d0\u05d1\u200f, e\u0301 and é, \\n, <b>&amp;</b>, '\"\n```x```",
    }
    trace_id = await contribute(app, **texts)
    result = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    assert texts == {name: result[name] for name in texts}


async def test_title_is_joined_into_one_line(app: App) -> None:
    result = await call_result(
        app, "contribute_trace", **make_sample_trace(0, title="  two\n lines,\u2028three \t words ")
    )
    assert result["title"] == "two lines, three words"


@pytest.mark.requirement("002-T2.1")
@pytest.mark.parametrize(
    "arguments",
    [
        {"title": "x" * 200},
        {"title": "x"},
        {"context_text": "a" * 50_000},
        {"solution_text": "ä b" * 16_666 + "ab"},
        {"solution_text": "x"},
        {"tags": [f"t{number}" for number in range(20)]},
        {"tags": [f"t{number % 20}" for number in range(60)]},
        {"tags": ["a" * 60]},
        {"tags": []},
    ],
)
async def test_longest_and_shortest_values_are_accepted(
    app: App, arguments: dict[str, Any]
) -> None:
    trace_id = await contribute(app, **arguments)
    document = (await read_app_documents(app, "traces"))[trace_id]
    expected = dict(arguments)
    if "tags" in arguments:
        expected["tags"] = list(dict.fromkeys(arguments["tags"]))  # without repeated tags
    assert {name: document[name] for name in expected} == expected


async def test_long_texts_of_distinct_words_fit_one_commit(app: App) -> None:
    words = [f"wörd{number}ჰ" for number in range(9_000)]  # two and three bytes a letter
    context = " ".join(words[:4_500])[:50_000]
    solution = " ".join(words[4_500:])[:50_000]
    trace_id = await contribute(app, context_text=context, solution_text=solution)
    assert await search_trace_ids(app, query="wörd7ჰ") == [trace_id]


@pytest.mark.parametrize("embedder", [WordEmbedder()])
async def test_no_trace_is_stored_while_embedding_is_down(app: App, embedder: WordEmbedder) -> None:
    embedder.is_down = True
    answer = await call(app, "contribute_trace", **make_sample_trace(0))
    assert answer.error
    assert answer.error.code == "UNAVAILABLE"
    assert answer.error.details["outcome"] == "nothing_done"
    assert answer.error.retry_after
    assert await read_app_documents(app, "traces") == {}
    embedder.is_down = False
    await contribute(app, 0)


async def test_concurrent_contributions_are_all_stored(app: App) -> None:
    trace_ids = await asyncio.gather(
        *(contribute(app, number, f"user{number}") for number in range(12))
    )
    assert len(set(trace_ids)) == 12
    tags = [tag for number in range(12) for tag in make_sample_trace(number)["tags"]]
    assert {tag: tags.count(tag) for tag in tags} == await read_tag_counts(app)
    for number, trace_id in enumerate(trace_ids):
        assert trace_id in await search_trace_ids(app, query=make_sample_trace(number)["title"])


async def test_screening_and_comparison_run_in_threads(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take long enough to delay other calls of the process."""
    threads_by_function: dict[str, set[threading.Thread]] = {}

    def record_threads(module: ModuleType, name: str) -> None:
        function = getattr(module, name)
        threads = threads_by_function.setdefault(f"{module.__name__}.{name}", set())

        def call_and_record(*arguments: Any) -> Any:
            threads.add(threading.current_thread())
            return function(*arguments)

        monkeypatch.setattr(module, name, call_and_record)

    record_threads(screen, "screen_texts")
    record_threads(indexed_state, "terms")
    record_threads(near_duplicates, "terms")
    trace_id = await contribute(app, 1)
    await call_result(app, "amend_trace", trace_id=trace_id, **make_sample_trace(2))
    assert all(threads_by_function.values())
    assert threading.current_thread() not in set().union(*threads_by_function.values())
