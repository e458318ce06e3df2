"""`extract_key_info` ranks passages as a comparison with all of them does."""

import itertools
import random
import uuid
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shared.runtime.context import App
from shared.workspaces import repository
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.materials import extract_result, quote_all
from tests.support.stored_documents import read_app_documents
from tests.support.workspace_brute_force import (
    DENSE_CANDIDATES,
    assert_scores_match,
    score_by_brute_force,
)

WORDS: Final = (
    *("rye", "wheat", "oven", "dough", "Salt", "yeast", "lamp", "bell", "sail", "anchor"),
    *("storm", "the", "of", "reef", "knots", "über", "麦", "🌾"),
)
BREAKS: Final = ("\n\n", "\r\n\r\n", "\n \t\n\n")
PASSAGES: Final = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)
TEXTS: Final = st.lists(
    st.tuples(PASSAGES, st.sampled_from((" ", "  ", "\n")), st.sampled_from(BREAKS)),
    min_size=1,
    max_size=12,
).map(lambda parts: "".join(space.join(words) + end for words, space, end in parts))
QUERIES: Final = st.lists(st.sampled_from((*WORDS, "unheard")), min_size=1, max_size=4).map(
    " ".join
)
MAX_CONTEXTS: Final = 20
"""The maximum number of contexts that settings allow."""

few_examples = hypothesis_settings(
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def make_filler(seed: str, passages: int) -> str:
    rng = random.Random(seed)  # noqa: S311 - no secret
    return "\n\n".join(" ".join(rng.choices(WORDS, k=7)) for _ in range(passages))


async def assert_best_passages(app: App, text: str, query: str) -> None:
    """Assert that an upload and all kinds of repeated calls return the same best passages."""
    arguments: dict[str, Any] = {"task_id": uuid.uuid4().hex, "top_k": MAX_CONTEXTS}
    first = await extract_result(app, query, materials=text, **arguments)
    by_text = await extract_result(app, query, materials=text, **arguments)
    by_id = await extract_result(app, query, document=first["document"], **arguments)
    of_workspace = await extract_result(app, query, scope="task", **arguments)

    assert first["known"] is False
    assert by_text == first | {"known": True}
    assert by_id == by_text
    for name in ("contexts", "considered", "matches"):
        assert of_workspace[name] == first[name]
    texts = {first["document"]: text}
    assert quote_all(of_workspace, texts) == quote_all(first, texts)
    assert_scores_match(await score_by_brute_force([text], query), first, MAX_CONTEXTS)
    assert_quoted(texts, first)


def assert_quoted(texts: dict[str, str], result: dict[str, Any]) -> None:
    """Assert that contexts are exact slices of their texts, without repeats."""
    quoted = quote_all(result, texts)
    assert result["contexts"] == quoted[: len(result["contexts"])]
    assert all(0 <= passage["score"] <= 1 for passage in result["passages"])
    assert len({" ".join(quote.split()) for quote in quoted}) == len(quoted)


@pytest.mark.requirement("001-F6", "001-F8", "001-A4", "001-A6")
@few_examples
@given(TEXTS, QUERIES)
async def test_new_and_stored_texts_rank_as_brute_force(app: App, text: str, query: str) -> None:
    await assert_best_passages(app, text, query)


async def test_more_passages_than_candidates_rank_the_same(app: App) -> None:
    text = make_filler("shelf", DENSE_CANDIDATES + 11)
    for query in ("anchor in a storm", "über 麦", "oven of salt and yeast", "unheard"):
        await assert_best_passages(app, text, query)


@pytest.mark.requirement("001-D10", "001-F7")
@few_examples
@given(st.lists(TEXTS, min_size=1, max_size=5), QUERIES)
async def test_a_workspace_is_ranked_as_one_text(
    app: App, texts: Sequence[str], query: str
) -> None:
    task_id = uuid.uuid4().hex
    documents = {}
    for text in texts:
        result = await extract_result(app, query, materials=text, task_id=task_id)
        documents[result["document"]] = text
    result = await extract_result(app, query, scope="task", task_id=task_id, top_k=MAX_CONTEXTS)
    assert_scores_match(await score_by_brute_force(texts, query), result, MAX_CONTEXTS)
    assert_quoted(documents, result)


async def test_another_passage_length_applies_to_a_new_upload(apps: Apps) -> None:
    """The earlier parts are gone, and the document is still found by its id."""
    text = " ".join(f"{sentence}." for sentence in make_filler("long", 60).split("\n\n"))
    results = {}
    for characters in (1_500, 200, 600):
        app = apps(extract_passage_characters=characters)
        upload = await extract_result(app, "anchor storm", materials=text, top_k=MAX_CONTEXTS)
        by_text = await extract_result(app, "anchor storm", materials=text, top_k=MAX_CONTEXTS)
        by_task = await extract_result(app, "anchor storm", scope="task", top_k=MAX_CONTEXTS)
        assert by_text == upload | {"known": True}
        texts = {upload["document"]: text}
        assert quote_all(by_task, texts) == quote_all(upload, texts)
        assert len(await read_app_documents(app, "users/reader/rag_tasks/default/parts")) == 1
        results[characters] = upload["considered"]
    assert results[200] > results[600] > results[1_500]
    result = await extract_result(apps(), "anchor", document=upload["document"])
    assert result["considered"] == results[600]


async def test_a_passage_repeated_in_a_later_text_counts_as_later(
    app: App, clock: SettableClock
) -> None:
    for text in ("anchor storm", "ANCHOR storm", "rye\n\nanchor \tstorm"):
        await extract_result(app, "sail", materials=text)
        clock.advance(seconds=1)
    result = await extract_result(app, "anchor storm", scope="task")
    assert result["contexts"] == ["anchor \tstorm", "ANCHOR storm"]


@pytest.mark.requirement("001-F8")
async def test_the_later_of_two_texts_with_equal_scores_comes_first(
    app: App, clock: SettableClock
) -> None:
    texts = ["anchor storm", "ANCHOR storm", "anchor STORM"]
    for uploads in itertools.permutations(texts, 2):
        task_id = " ".join(uploads)
        for text in uploads:
            await extract_result(app, "sail", materials=text, task_id=task_id)
            clock.advance(seconds=1)
        result = await extract_result(app, "anchor storm", scope="task", task_id=task_id)
        assert result["contexts"] == list(uploads[::-1])
        assert len({passage["score"] for passage in result["passages"]}) == 1


async def test_equal_scores_in_a_text_are_in_the_order_of_the_text(app: App) -> None:
    equal_passages = ["anchor storm", "ANCHOR storm", "anchor Storm", "Anchor Storm"]
    text = "\n\n".join(["an oven", *equal_passages])
    for _ in range(2):
        result = await extract_result(app, "anchor storm", materials=text)
        assert result["contexts"] == equal_passages


@pytest.mark.parametrize("limit", ["MAX_SEARCHED_DOCUMENTS", "MAX_SEARCHED_PASSAGES"])
async def test_only_a_truncated_workspace_says_so(
    app: App, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(repository, limit, 4)
    for number in range(4):
        await extract_result(app, "anchor", materials=f"anchor {number}")
    result = await extract_result(app, "anchor", scope="task")
    assert result["considered"] == 4
    assert result.get("message") is None

    await extract_result(app, "anchor", materials="one more anchor")
    truncated_result = await extract_result(app, "anchor", scope="task")
    assert truncated_result["considered"] == 4
    assert "latest 4 texts" in truncated_result["message"]


async def test_matching_words_outrank_distant_vectors(app: App) -> None:
    """A model finds all lines of a log alike, and reads only the first 256 tokens of a passage."""
    log = [f"10:{second // 60:02} INFO worker took job {second} in 9 ms" for second in range(600)]
    log[431] = "10:07 ERROR disk full on /var/lib/db, write aborted"
    chapters = [f"Chapter {number} is about the plan of region {number}." for number in range(40)]
    long_beginning = "The committee met and talked of the weather. " * 30
    chapters[17] = f"{long_beginning}The treasurer keeps the vault key in Lisbon."
    for query, materials, words in (
        ("disk full", "\n".join(log), "disk full"),
        ("write aborted", "\n".join(log), "disk full"),
        ("Where is the vault key?", "\n\n".join(chapters), "Lisbon"),
    ):
        result = await extract_result(app, query, materials=materials)
        assert words in result["contexts"][0]
