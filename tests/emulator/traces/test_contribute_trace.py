"""`contribute_trace` stores a trace, which search finds immediately, and returns its id.

Secrets and personal data are neither stored nor repeated by the tools that write traces.

A trace is a solved coding problem that users share and vote on. `make_sample_trace(0)` etc. are the
arguments of numbered examples.
"""

import asyncio
import threading
from collections import defaultdict
from types import ModuleType
from typing import Any

import pytest

from shared.index import indexed_state
from shared.runtime.context import App
from shared.screening import screen
from shared.traces import near_duplicates
from tests.support.fakes.embedder import WordEmbedder
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_result
from tests.support.traces import (
    contribute,
    make_sample_trace,
    read_tag_counts,
    search_trace_ids,
    vote,
)

# Each is written in two parts, so that scanners of source code do not report it.
TOKEN = "ghp_" + "Zk3vQ9xT1mLr7Wc5Yb8Nd2Hf6Js4Pg0AeUiO"
KEY = "AKIA" + "QXF7ZJ3MVN2LTRWE"
EMAIL = "greta.mustermann@kanzlei-sommer.de"
SECRETS = {"token": TOKEN, "key": KEY, "mail": EMAIL}


@pytest.mark.requirement("002-M2", "002-T2.3", "002-F4")
async def test_result_has_id_status_and_undo(app: App) -> None:
    answer = await call(app, "contribute_trace", **make_sample_trace(1))
    assert answer.result
    trace_id = answer.result["trace_id"]
    assert answer.result == {
        "trace_id": trace_id,
        "status": "pending",
        "duplicate": False,
        "title": "asyncio background task disappears without an error",
        "tags": ["python", "asyncio"],
        "similar": [],
        "yours": True,
        "undo": {"tool": "withdraw_trace", "arguments": {"trace_id": trace_id}},
        "message": f"Trace submitted successfully (ID: {trace_id}). Status: pending — it will be"
        " validated after community review.",
    }


@pytest.mark.requirement("002-M2")
async def test_trace_is_found_immediately(app: App) -> None:
    """It is found by its meaning, its words, its tags, or words and tags together."""
    for other_number in (0, 2, 5, 15):
        await contribute(app, other_number, tags=["python", "other"])
    trace_id = await contribute(app, 1, tags=["python", "asyncio", "quokka"])
    searches: list[dict[str, Any]] = [
        {"query": "why did the work I started in the event loop vanish silently"},
        {"query": "add_done_callback"},
        {"query": "quokka"},  # tags are searched as words, too
        {"tags": ["asyncio"]},
        {"query": "TaskGroup", "tags": ["asyncio", "python"]},
    ]
    for search in searches:
        assert (await search_trace_ids(app, **search))[0] == trace_id, search


async def test_texts_are_stored_verbatim(app: App) -> None:
    """The title is joined into one line, and tags are normalized."""
    texts: dict[str, Any] = {
        "title": "  Größe:\n 熟成\u2028🧀 👩🏽‍🍳\t שלום ",
        "context_text": "  indented\n\tand tabbed\r\n\n  ends so  \n",
        "solution_text": "\u05d0\u05d1\u200f, e\u0301 and é, \\n, <b>&amp;</b>, '\"\n```x```",
        "tags": ["b", " google \t Cloud", "\uff22", "a.b-c_d", "0"],
    }
    trace_id = await contribute(app, **texts)
    result = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    tags = ["b", "google-cloud", "a.b-c_d", "0"]
    assert {name: result[name] for name in texts} == texts | {
        "title": "Größe: 熟成 🧀 👩🏽‍🍳 שלום",
        "tags": tags,
    }
    assert await read_tag_counts(app) == dict.fromkeys(tags, 1)
    for tag in texts["tags"]:
        assert await search_trace_ids(app, tags=[tag]) == [trace_id]


@pytest.mark.requirement("002-T2.1")
async def test_longest_and_shortest_values_are_accepted(app: App) -> None:
    values: list[dict[str, Any]] = [
        {"title": "x" * 200},
        {"title": "x"},
        {"context_text": "a" * 50_000},
        {"solution_text": "ä b" * 16_666 + "ab"},
        {"solution_text": "x"},
        {"tags": [f"t{number}" for number in range(20)]},
        {"tags": ["a" * 60]},
        {"tags": []},
    ]
    for number, arguments in enumerate(values):
        trace_id = await contribute(app, number, **arguments)
        document = (await read_app_documents(app, "traces"))[trace_id]
        assert {name: document[name] for name in arguments} == arguments


async def test_long_texts_of_distinct_words_fit_one_commit(app: App) -> None:
    words = [f"wörd{number}ჰ" for number in range(9_000)]  # two and three bytes a letter
    context = " ".join(words[:4_500])[:50_000]
    solution = " ".join(words[4_500:])[:50_000]
    trace_id = await contribute(app, context_text=context, solution_text=solution)
    assert await search_trace_ids(app, query="wörd7ჰ") == [trace_id]


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
    threads: dict[str, set[threading.Thread]] = defaultdict(set)

    def record_threads(module: ModuleType, name: str) -> None:
        function = getattr(module, name)

        def call_and_record(*arguments: Any) -> Any:
            threads[f"{module.__name__}.{name}"].add(threading.current_thread())
            return function(*arguments)

        monkeypatch.setattr(module, name, call_and_record)

    for module, name in (
        (screen, "screen_texts"),
        (indexed_state, "count_terms"),
        (near_duplicates, "terms"),
    ):
        record_threads(module, name)
    trace_id = await contribute(app, 1)
    await call_result(app, "amend_trace", trace_id=trace_id, **make_sample_trace(2))
    assert len(threads) == 3
    assert threading.current_thread() not in set().union(*threads.values())


@pytest.mark.requirement("002-T2.1")
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
async def test_error_names_the_line_of_a_secret_without_the_secret(
    app: App, capfd: pytest.CaptureFixture[str], secret: str
) -> None:
    """The idempotency key of the refused call can be used again."""
    for field in ("context_text", "solution_text"):
        text = f"It failed.\nThen I called it with {secret} and it worked.\nGood."
        arguments = make_sample_trace(0, **{field: text}, idempotency_key="k")
        answer = await call(app, "contribute_trace", **arguments)
        assert answer.error
        assert answer.error.code == "VALIDATION_ERROR"
        assert set(answer.error.details) == {field}
        assert "line 2" in answer.error.details[field]
        assert "line 1" not in answer.error.details[field]
        assert secret not in answer.model_dump_json() + "".join(capfd.readouterr())
    assert await read_app_documents(app, "traces") == {}
    assert await read_app_documents(app, "trace_lexicon") == {}
    await contribute(app, idempotency_key="k")


async def test_secret_in_the_tags_is_refused(app: App) -> None:
    """The stored tag would be normalized, so it would differ from the secret."""
    secret = "xoxb-" + "263594206564-2343594206574-fgqbzplvdktrmwnxhjcsyeai"
    answer = await call(
        app, "contribute_trace", **make_sample_trace(0, tags=["slack", secret[:60]])
    )
    assert answer.error
    assert secret[:30] not in answer.model_dump_json()
    assert await read_app_documents(app, "traces") == {}


async def test_secret_in_an_amendment_is_refused(app: App) -> None:
    trace_id = await contribute(app)
    traces_before = await read_app_documents(app, "traces")
    answer = await call(
        app, "amend_trace", trace_id=trace_id, solution_text=f"Set it:\ntoken = {TOKEN}"
    )
    assert answer.error
    assert answer.error.code == "VALIDATION_ERROR"
    assert set(answer.error.details) == {"solution_text"}
    assert "line 2" in answer.error.details["solution_text"]
    assert TOKEN not in answer.model_dump_json()
    assert await read_app_documents(app, "traces") == traces_before
    assert (await call_result(app, "get_trace", ANNA, trace_id=trace_id))["revision"] == 1


@pytest.mark.requirement("002-T3.3")
async def test_secret_in_feedback_is_refused(app: App) -> None:
    trace_id = await contribute(app)
    invalid: dict[str, Any] = {
        "vote_type": "down",
        "feedback_tag": "wrong",
        "feedback_text": f"Ask\n{EMAIL}.",
    }
    answer = await call(app, "vote_trace", "ben", trace_id=trace_id, **invalid)
    assert answer.error
    assert "line 2" in answer.error.details["feedback_text"]
    assert EMAIL not in answer.model_dump_json()
    assert (await call_result(app, "get_trace", "ben", trace_id=trace_id))["downvotes"] == 0

    # An address of the domain example.com belongs to nobody.
    await vote(app, trace_id, "ben", **(invalid | {"feedback_text": "Ask user@example.com."}))
