"""`extract_key_info` ranks passages as a comparison with all of them does.

A new text is ranked in memory, and a stored one with queries to the database. Both must agree.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from functions.tools.workspaces.extract_key_info import tool
from shared.ai.local_embedding import LocalEmbedder
from shared.core.dates import utc_now
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import extract_result
from tests.support.workspace_brute_force import (
    DENSE_CANDIDATES,
    assert_scores_match,
    score_by_brute_force,
)

MAX_DOCUMENTS = tool.MAX_DOCUMENTS
"""The maximum number of texts that a call searches."""

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
NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
MAX_CONTEXTS: Final = 20
"""The maximum number of contexts that settings allow."""

few_examples = hypothesis_settings(
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="session")
def local_model() -> LocalEmbedder:
    """The embedding model of a local installation."""
    return LocalEmbedder()


@pytest.fixture
def settings(project: str) -> Settings:
    """Settings of `app` with the largest number of contexts."""
    return Settings(google_cloud_project=project)


@pytest.fixture
async def open_app(settings: Settings) -> AsyncIterator[Callable[..., App]]:
    """A function that makes apps at other times or with other settings for one database."""
    apps: list[App] = []

    def make_app(moment: datetime | None = None, **changes: Any) -> App:
        changed_settings = Settings(**(settings.model_dump(exclude_unset=True) | changes))
        clock = (lambda: moment) if moment else utc_now
        apps.append(App(changed_settings, embedder=WordEmbedder(), clock=clock))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


def make_filler(seed: str, passages: int) -> str:
    """Return a text with a number of passages, most of them different."""
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
    for name in ("contexts", "passages", "considered", "matches"):
        assert of_workspace[name] == first[name]
    assert_scores_match(await score_by_brute_force([text], query), first, MAX_CONTEXTS)
    assert_quoted({first["document"]: text}, first)


def assert_quoted(texts: dict[str, str], result: dict[str, Any]) -> None:
    """Assert that contexts are exact slices of their texts, best first, without repeats."""
    passages = result["passages"]
    quoted = [texts[passage["document"]][passage["start"] : passage["end"]] for passage in passages]
    assert result["contexts"] == quoted
    scores = [passage["score"] for passage in passages]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len({" ".join(quote.split()) for quote in quoted}) == len(quoted)


@pytest.mark.requirement("001-A4", "001-A6")
@few_examples
@given(TEXTS, QUERIES)
async def test_memory_and_database_rank_as_brute_force(app: App, text: str, query: str) -> None:
    await assert_best_passages(app, text, query)


@pytest.mark.parametrize(
    "passages",
    [
        DENSE_CANDIDATES + 11,
        *(pytest.param(number, marks=pytest.mark.slow) for number in (130, 400)),
    ],
)
async def test_more_passages_than_candidates_rank_the_same(app: App, passages: int) -> None:
    text = make_filler(f"shelf of {passages}", passages)
    for query in ("anchor in a storm", "über 麦", "oven of salt and yeast", "unheard"):
        await assert_best_passages(app, text, query)


@pytest.mark.requirement("001-F6")
@pytest.mark.slow
async def test_memory_and_database_agree_with_the_local_model(
    settings: Settings, local_model: LocalEmbedder
) -> None:
    app = App(settings, embedder=local_model)
    text = make_filler("shelf of the model", 80)
    for query in ("anchor in a storm", "oven of salt and yeast", "unheard"):
        options: dict[str, Any] = {"task_id": query[:5], "top_k": 20}
        in_memory = await extract_result(app, query, materials=text, **options)
        document = in_memory["document"]
        from_database = await extract_result(app, query, document=document, **options)
        assert from_database == in_memory | {"known": True}
    await app.aclose()


@pytest.mark.requirement("001-F7")
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


@pytest.mark.requirement("001-D10")
async def test_a_workspace_of_many_texts_is_ranked_as_one_text(app: App) -> None:
    """There are more texts than one Firestore query compares."""
    texts = [f"{make_filler(f'text {number}', 4)}\n\nmark {number}" for number in range(35)]
    documents = {}
    for text in texts:
        result = await extract_result(app, "mark", materials=text)
        documents[result["document"]] = text
    for query in ("anchor in a storm", "mark 7"):
        result = await extract_result(app, query, scope="task", top_k=MAX_CONTEXTS)
        assert_scores_match(await score_by_brute_force(texts, query), result, MAX_CONTEXTS)
        assert_quoted(documents, result)


async def test_a_changed_passage_length_applies_to_a_new_upload(
    open_app: Callable[..., App],
) -> None:
    """The passages of the earlier splitting are gone."""
    text = " ".join(f"{sentence}." for sentence in make_filler("long", 60).split("\n\n"))
    query = "anchor storm"
    await extract_result(open_app(), query, materials=text, top_k=MAX_CONTEXTS)

    app = open_app(extract_passage_characters=200)
    upload = await extract_result(app, query, materials=text, top_k=MAX_CONTEXTS)
    by_text = await extract_result(app, query, materials=text, top_k=MAX_CONTEXTS)
    of_workspace = await extract_result(app, query, scope="task", top_k=MAX_CONTEXTS)
    for result in (by_text, of_workspace):
        assert result["contexts"] == upload["contexts"]
        assert result["passages"] == upload["passages"]


async def test_a_longer_passage_length_applies_to_a_new_upload(
    open_app: Callable[..., App],
) -> None:
    text = " ".join(f"{sentence}." for sentence in make_filler("long", 120).split("\n\n"))
    query = "anchor storm"
    earlier_app = open_app(extract_passage_characters=200)
    await extract_result(earlier_app, query, materials=text, top_k=MAX_CONTEXTS)

    app = open_app(extract_passage_characters=600)
    upload = await extract_result(app, query, materials=text, top_k=MAX_CONTEXTS)
    by_text = await extract_result(app, query, materials=text, top_k=MAX_CONTEXTS)
    assert by_text == upload | {"known": True}


async def test_a_document_is_found_after_passages_changed_in_length(
    open_app: Callable[..., App],
) -> None:
    """The caller of a known document may no longer have its text."""
    text = make_filler("kept", 5)
    document = (await extract_result(open_app(), "anchor", materials=text))["document"]
    later_app = open_app(extract_passage_characters=1_000)
    result = await extract_result(later_app, "anchor", document=document)
    assert result["considered"] == 5


async def test_a_passage_repeated_in_a_later_text_counts_as_later(
    open_app: Callable[..., App],
) -> None:
    for number, text in enumerate(("anchor storm", "ANCHOR storm", "rye\n\nanchor \tstorm")):
        await extract_result(open_app(NOON + timedelta(seconds=number)), "sail", materials=text)
    result = await extract_result(open_app(NOON), "anchor storm", scope="task")
    assert result["contexts"] == ["anchor \tstorm", "ANCHOR storm", "rye"]


@pytest.mark.requirement("001-F8")
@pytest.mark.parametrize("other_spelling", ["ANCHOR storm", "anchor STORM"])
async def test_the_later_of_two_texts_with_equal_scores_comes_first(
    open_app: Callable[..., App], other_spelling: str
) -> None:
    texts = ["anchor storm", other_spelling]
    for task_id, uploads in (("forth", texts), ("back", texts[::-1])):
        for number, text in enumerate(uploads):
            app = open_app(NOON + timedelta(seconds=number))
            await extract_result(app, "sail", materials=text, task_id=task_id)
        result = await extract_result(open_app(NOON), "anchor storm", scope="task", task_id=task_id)
        assert result["contexts"] == uploads[::-1]
        assert len({passage["score"] for passage in result["passages"]}) == 1


async def test_the_latest_of_many_texts_with_equal_scores_come_first(
    open_app: Callable[..., App],
) -> None:
    """There are as many spellings with equal scores as the search by meaning returns."""
    variants = itertools.product(*((letter, letter.upper()) for letter in "anchor"))
    spellings = ["".join(letters) for letters in itertools.islice(variants, DENSE_CANDIDATES)]
    for number, text in enumerate(spellings):
        app = open_app(NOON + timedelta(seconds=number))
        await extract_result(app, "sail", materials=text)
    result = await extract_result(open_app(NOON), "anchor", scope="task")
    assert result["contexts"] == spellings[::-1][:5]


async def test_equal_scores_in_a_text_are_in_the_order_of_the_text(app: App) -> None:
    equal_passages = ["anchor storm", "ANCHOR storm", "anchor Storm", "Anchor Storm"]
    text = "\n\n".join(["an oven", *equal_passages])
    for _ in range(2):
        result = await extract_result(app, "anchor storm", materials=text)
        assert result["contexts"] == [*equal_passages, "an oven"]


@pytest.mark.parametrize("limit", [4, pytest.param(MAX_DOCUMENTS, marks=pytest.mark.slow)])
async def test_only_a_truncated_workspace_says_so(
    app: App, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(tool, "MAX_DOCUMENTS", limit)
    for number in range(limit):
        await extract_result(app, "anchor", materials=f"anchor {number}")
    result = await extract_result(app, "anchor", scope="task")
    assert result["considered"] == limit
    assert result.get("message") is None

    await extract_result(app, "anchor", materials="one more anchor")
    truncated_result = await extract_result(app, "anchor", scope="task")
    assert truncated_result["considered"] == limit
    # The message was made before the test changed the limit.
    assert f"latest {MAX_DOCUMENTS}" in truncated_result["message"]


async def test_matching_words_outrank_distant_vectors(app: App) -> None:
    """An embedding model finds all lines of a log alike, so the differences are noise."""
    log = [
        f"2026-11-22T10:{second // 60:02}:{second % 60:02} INFO worker {second % 7} "
        f"took job {second} in {second % 90} ms"
        for second in range(600)
    ]
    log[431] = "2026-11-22T10:07:11 ERROR disk full on /var/lib/db, write aborted"
    for query in ("disk full", "write aborted"):
        result = await extract_result(app, query, materials="\n".join(log))
        assert "disk full" in result["contexts"][0]


async def test_the_end_of_a_long_passage_is_found_by_its_words(app: App) -> None:
    """The local model reads only the first 256 tokens."""
    chapters = [
        f"Chapter {number} is about the marketing plan of region {number}." for number in range(40)
    ]
    long_beginning = "The committee met and talked of the weather. " * 30
    chapters[17] = f"{long_beginning}The treasurer keeps the vault key in Lisbon."
    result = await extract_result(app, "Where is the vault key?", materials="\n\n".join(chapters))
    assert "Lisbon" in result["contexts"][0]
