"""`extract_key_info` returns the passages of a text that answer a question best.

It stores the text in a workspace, whose id the argument `task_id` gives. With `scope="task"`, it
searches all texts of the workspace.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.runtime.context import App
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.materials import (
    BREAD,
    COMET,
    MAST,
    TEXT,
    extract_error,
    extract_result,
    quote_all,
)


@pytest.mark.requirement("001-B2", "001-C6", "001-F9", "001-X2")
async def test_the_passage_that_answers_comes_first_verbatim(app: App) -> None:
    result = await extract_result(app, "Why does rye need sour dough?", materials=TEXT, top_k=20)
    assert result["contexts"][0] == BREAD
    passage = result["passages"][0]
    assert TEXT[passage["start"] : passage["end"]] == BREAD
    assert passage["position"] == 2
    assert len(result["contexts"]) == len(result["passages"]) == 1
    assert result["considered"] == 4
    assert result["known"] is False
    assert result["status"] == "ready"


async def test_passages_that_do_not_answer_come_with_their_beginnings(
    apps: Apps, local_embedder: LocalEmbedder
) -> None:
    """The beginnings are longer if nothing answers."""
    app = apps(embedder=local_embedder)
    text = f"{TEXT}\n\n{'Here are other things. ' * 20}"
    result = await extract_result(app, "Why does rye need sour dough?", materials=text, top_k=4)
    assert (result["matches"], result["contexts"]) == (True, [BREAD])
    assert len(result["near"]) == 3
    nothing = await extract_result(app, "How do I renew my passport?", materials=text)
    assert (nothing["matches"], nothing["contexts"], nothing["passages"]) == (False, [], [])
    assert MAST in [place["text"] for place in nothing["near"]]
    for length, near in ((80, result["near"]), (280, nothing["near"])):
        assert max(len(place["text"]) for place in near) <= length
        assert not any("score" in place for place in near)


@pytest.mark.parametrize(("separator", "lines"), [("\n", range(3, 8)), ("\n\n", [5])])
async def test_an_event_of_a_log_comes_with_the_lines_around_it(
    app: App, separator: str, lines: Sequence[int]
) -> None:
    events = [f"2026-03-07T09:{number:02}:00Z INFO ping {number}" for number in range(12)]
    events[5] = "2026-03-07T09:05:00Z ERROR disk full, write aborted"
    events[6] = "2026-03-07T09:06:00Z INFO disk cleaned"
    result = await extract_result(app, "disk full", materials=separator.join(events))
    assert result["contexts"][0] == separator.join(events[number] for number in lines)
    quotes = quote_all(result, {result["document"]: separator.join(events)})
    assert "\n".join(quotes).count(events[6]) == 1


@pytest.mark.requirement("001-C4")
async def test_a_known_text_gives_the_same_answer(app: App) -> None:
    """So does a query without words, or with white space around it."""
    for query in (
        *("Where does a comet's tail point?", " \n Where does a comet's tail point?\t"),
        *("?", "🌠", "x" * 2_000, "the of and", "\x00comet\x1b", "a\u0301"),
    ):
        task_id = query.strip()[:9]
        first = await extract_result(app, query, materials=TEXT, task_id=task_id)
        by_text = await extract_result(app, query.strip(), materials=TEXT, task_id=task_id)
        by_id = await extract_result(app, query, document=first["document"], task_id=task_id)
        assert len(quote_all(first, {first["document"]: TEXT})) == 4
        assert first["contexts"][:1] == [COMET] or "comet" not in query
        assert by_text == first | {"known": True}
        assert by_id == by_text


async def test_the_scope_is_the_text_alone_or_all_texts(app: App) -> None:
    document = (await extract_result(app, "comet", materials=COMET, scope="task"))["document"]
    default = await extract_result(app, "rye", materials=BREAD)
    text_alone = await extract_result(app, "rye", materials=BREAD, scope="materials")
    assert default["contexts"] == text_alone["contexts"] == [BREAD]
    for target in ({"materials": BREAD}, {"document": document}, {}):
        result = await extract_result(app, "comet", **target, scope="task")
        assert result["contexts"] == [COMET]
        assert result["near"][0]["text"] == BREAD
        assert result["considered"] == 2
        assert result.get("known") is (True if target else None)
    text_alone = await extract_result(app, "comet", document=document)
    assert text_alone["contexts"] == [COMET]
    assert text_alone["document"] == document

    result = await extract_result(app, "rust", materials="Rust.", scope="task")
    assert result["considered"] == 3
    assert result["known"] is False


@pytest.mark.requirement("001-C5", "001-C2", "001-G4")
async def test_five_contexts_are_the_default(apps: Apps) -> None:
    """The default is a setting, and `topK` a second name of the argument."""
    text = "\n\n".join(f"Line {number} of the log says {number * 7}." for number in range(30))
    cases: list[tuple[dict[str, Any], dict[str, Any], int]] = [
        ({}, {}, 5),
        ({}, {"top_k": None}, 5),
        ({}, {"top_k": 1}, 1),
        ({}, {"top_k": 20}, 20),
        ({}, {"topK": 7.0}, 7),
        ({"extract_top_k": 3}, {}, 3),
        ({"extract_top_k": 3}, {"top_k": 4}, 4),
    ]
    for settings, arguments, count in cases:
        result = await extract_result(apps(**settings), "log", materials=text, **arguments)
        assert len(result["contexts"]) == count


async def test_invisible_materials_are_refused(app: App) -> None:
    for materials in ("\x00\x01\x1f", "\u200b\ufeff"):
        error = await extract_error(app, "comet", materials=materials)
        assert error.code == "VALIDATION_ERROR"
        assert error.details.keys() == {"materials"}


@pytest.mark.requirement("001-F3")
async def test_the_workspace_is_the_argument_the_key_or_default(app: App) -> None:
    essay = Caller.of("reader", task="essay")  # a key can name a workspace
    by_argument = await extract_result(app, "comet", essay, materials=TEXT, task_id="thesis")
    by_key = await extract_result(app, "comet", essay, materials=TEXT)
    by_default = await extract_result(app, "comet", materials=TEXT)
    results = (by_argument, by_key, by_default)
    assert [result["task_id"] for result in results] == ["thesis", "essay", "default"]
    assert not any(result["known"] for result in results)


@pytest.mark.requirement("001-G6")
async def test_the_length_of_a_passage_is_a_setting(apps: Apps) -> None:
    text = " ".join(f"Sentence number {number} is about the sea." for number in range(60))
    for max_characters in (200, 1_500):
        app = apps(extract_passage_characters=max_characters)
        result = await extract_result(app, "sea", materials=text, top_k=20)
        assert max(map(len, result["contexts"])) <= max_characters
        assert len(result["contexts"]) == min(result["considered"], 20)
        assert result["considered"] >= len(text) // max_characters


async def test_simultaneous_calls_after_a_while_all_succeed(app: App, clock: SettableClock) -> None:
    """Each of them records that the workspace is in use."""
    document = (await extract_result(app, "comet", materials=TEXT))["document"]
    clock.advance(days=7)
    targets: list[dict[str, Any]] = [{"document": document}, {"scope": "task"}] * 3
    results = await asyncio.gather(*(extract_result(app, "comet", **each) for each in targets))
    assert [result["contexts"][0] for result in results] == [COMET] * 6
