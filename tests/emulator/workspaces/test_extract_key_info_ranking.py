"""`extract_key_info` ranks as brute force does, in memory and from the database."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as sampled
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

pytestmark = pytest.mark.anyio

LIMIT = tool.MAX_DOCUMENTS
"""The limit that the message names."""

WORDS: Final = (
    *("rye", "wheat", "oven", "dough", "Salt", "yeast", "lamp", "bell", "sail", "anchor"),
    *("storm", "the", "of", "reef", "knots", "über", "麦", "🌾"),
)
PARTS: Final = ("\n\n", "\r\n\r\n", "\n \t\n\n")
PASSAGES: Final = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)
TEXTS: Final = st.lists(
    st.tuples(PASSAGES, st.sampled_from((" ", "  ", "\n")), st.sampled_from(PARTS)),
    min_size=1,
    max_size=12,
).map(lambda parts: "".join(gap.join(words) + end for words, gap, end in parts))
QUERIES: Final = st.lists(st.sampled_from((*WORDS, "unheard")), min_size=1, max_size=4).map(
    " ".join
)
MOST: Final = 50

few_examples = sampled(
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
    """The deepest search that settings allow."""
    return Settings(google_cloud_project=project, extract_top_k_limit=MOST)


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
    chance = random.Random(seed)  # noqa: S311 - no secret
    return "\n\n".join(" ".join(chance.choices(WORDS, k=7)) for _ in range(passages))


async def assert_same_in_all_ways(app: App, text: str, query: str) -> None:
    """Assert that an upload, a repeated call and a call by document return the best passages."""
    arguments: dict[str, Any] = {"task_id": uuid.uuid4().hex, "top_k": MOST}
    first = await extract_result(app, query, materials=text, **arguments)
    second = await extract_result(app, query, materials=text, **arguments)
    by_id = await extract_result(app, query, document=first["document"], **arguments)
    of_task = await extract_result(app, query, scope="task", **arguments)
    assert first["known"] is False
    assert second["known"] is True
    assert first | {"known": True} == second
    assert second == by_id
    for name in ("contexts", "passages", "considered", "matches"):
        assert first[name] == of_task[name]
    assert_scores_match(await score_by_brute_force([text], query), first, MOST)
    assert_quoted({first["document"]: text}, first)


def assert_quoted(texts: dict[str, str], result: dict[str, Any]) -> None:
    """Assert that contexts are exact slices of their texts, best first, without repeats."""
    passages = result["passages"]
    quoted = [texts[passage["document"]][passage["start"] : passage["end"]] for passage in passages]
    assert quoted == result["contexts"]
    scores = [passage["score"] for passage in passages]
    assert sorted(scores, reverse=True) == scores
    assert all(0 <= score <= 1 for score in scores)
    assert len({" ".join(quote.split()) for quote in quoted}) == len(quoted)


@few_examples
@given(TEXTS, QUERIES)
async def test_memory_and_store_rank_as_brute_force(app: App, text: str, query: str) -> None:
    await assert_same_in_all_ways(app, text, query)


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
        await assert_same_in_all_ways(app, text, query)


@pytest.mark.slow
async def test_memory_and_store_agree_with_the_local_model(
    settings: Settings, local_model: LocalEmbedder
) -> None:
    app = App(settings, embedder=local_model)
    text = make_filler("shelf of the model", 80)
    for query in ("anchor in a storm", "oven of salt and yeast", "unheard"):
        first = await extract_result(app, query, materials=text, task_id=query[:5], top_k=20)
        result = await extract_result(
            app, query, document=first["document"], task_id=query[:5], top_k=20
        )
        assert first | {"known": True} == result
    await app.aclose()


@few_examples
@given(st.lists(TEXTS, min_size=1, max_size=5), QUERIES)
async def test_a_workspace_is_ranked_as_one(app: App, texts: Sequence[str], query: str) -> None:
    task_id = uuid.uuid4().hex
    documents = {}
    for text in texts:
        result = await extract_result(app, query, materials=text, task_id=task_id)
        documents[result["document"]] = text
    result = await extract_result(app, query, scope="task", task_id=task_id, top_k=MOST)
    assert_scores_match(await score_by_brute_force(texts, query), result, MOST)
    assert_quoted(documents, result)


async def test_a_workspace_of_many_texts_is_ranked_as_one(app: App) -> None:
    """More documents than one Firestore query compares."""
    texts = {f"{make_filler(f'text {number}', 4)}\n\nmark {number}" for number in range(35)}
    documents = {}
    for text in texts:
        result = await extract_result(app, "mark", materials=text)
        documents[result["document"]] = text
    for query in ("anchor in a storm", "mark 7"):
        result = await extract_result(app, query, scope="task", top_k=MOST)
        assert_scores_match(await score_by_brute_force(texts, query), result, MOST)
        assert_quoted(documents, result)


async def test_a_changed_passage_length_applies_to_a_new_upload(
    open_app: Callable[..., App],
) -> None:
    """The passages of the earlier splitting are gone."""
    text = " ".join(f"{sentence}." for sentence in make_filler("long", 60).split("\n\n"))
    long = open_app()
    short = open_app(extract_passage_characters=200)
    await extract_result(long, "anchor storm", materials=text, top_k=MOST)
    first = await extract_result(short, "anchor storm", materials=text, top_k=MOST)
    second = await extract_result(short, "anchor storm", materials=text, top_k=MOST)
    of_task = await extract_result(short, "anchor storm", scope="task", top_k=MOST)
    assert first["contexts"] == second["contexts"] == of_task["contexts"]
    assert first["passages"] == second["passages"] == of_task["passages"]


async def test_a_longer_passage_length_applies_to_a_new_upload(
    open_app: Callable[..., App],
) -> None:
    text = " ".join(f"{sentence}." for sentence in make_filler("long", 120).split("\n\n"))
    short, long = open_app(extract_passage_characters=200), open_app(extract_passage_characters=600)
    await extract_result(short, "anchor storm", materials=text, top_k=MOST)
    first = await extract_result(long, "anchor storm", materials=text, top_k=MOST)
    second = await extract_result(long, "anchor storm", materials=text, top_k=MOST)
    assert first | {"known": True} == second


async def test_a_document_is_found_after_passages_changed_in_length(
    open_app: Callable[..., App],
) -> None:
    """The caller of a known document may no longer have its text."""
    text = make_filler("kept", 5)
    document = (await extract_result(open_app(), "anchor", materials=text))["document"]
    later = open_app(extract_passage_characters=1_000)
    result = await extract_result(later, "anchor", document=document)
    assert result["considered"] == 5


NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def test_a_passage_repeated_in_a_later_text_counts_as_later(
    open_app: Callable[..., App],
) -> None:
    for number, text in enumerate(("anchor storm", "ANCHOR storm", "rye\n\nanchor \tstorm")):
        await extract_result(open_app(NOON + timedelta(seconds=number)), "sail", materials=text)
    result = await extract_result(open_app(NOON), "anchor storm", scope="task")
    assert result["contexts"] == ["anchor \tstorm", "ANCHOR storm", "rye"]


@pytest.mark.parametrize("later", ["ANCHOR storm", "anchor STORM"])
async def test_of_two_equal_scores_the_later_text_comes_first(
    open_app: Callable[..., App], later: str
) -> None:
    texts = ["anchor storm", later]
    for task_id, order in (("forth", texts), ("back", texts[::-1])):
        for number, text in enumerate(order):
            app = open_app(NOON + timedelta(seconds=number))
            await extract_result(app, "sail", materials=text, task_id=task_id)
        result = await extract_result(open_app(NOON), "anchor storm", scope="task", task_id=task_id)
        assert result["contexts"] == [order[1], order[0]]
        assert len({passage["score"] for passage in result["passages"]}) == 1


async def test_of_many_equal_scores_the_latest_come_first(open_app: Callable[..., App]) -> None:
    """There are as many spellings with equal scores as the search by meaning returns."""
    spellings = [
        "".join(letter.upper() if number >> n & 1 else letter for n, letter in enumerate("anchor"))
        for number in range(DENSE_CANDIDATES)
    ]
    for number, text in enumerate(spellings):
        app = open_app(NOON + timedelta(seconds=number))
        await extract_result(app, "sail", materials=text)
    result = await extract_result(open_app(NOON), "anchor", scope="task")
    assert spellings[:-6:-1] == result["contexts"]


async def test_of_equal_scores_in_a_text_the_first_comes_first(app: App) -> None:
    text = "an oven\n\nanchor storm\n\nANCHOR storm\n\nanchor Storm\n\nAnchor Storm"
    first = await extract_result(app, "anchor storm", materials=text)
    second = await extract_result(app, "anchor storm", materials=text)
    expected = [*text.split("\n\n")[1:], "an oven"]
    assert first["contexts"] == expected
    assert second["contexts"] == expected


@pytest.mark.parametrize("searched", [4, pytest.param(LIMIT, marks=pytest.mark.slow)])
async def test_only_a_truncated_workspace_says_so(
    app: App, monkeypatch: pytest.MonkeyPatch, searched: int
) -> None:
    monkeypatch.setattr(tool, "MAX_DOCUMENTS", searched)
    for number in range(searched):
        await extract_result(app, "anchor", materials=f"anchor {number}")
    full = await extract_result(app, "anchor", scope="task")
    await extract_result(app, "anchor", materials="one more anchor")
    beyond = await extract_result(app, "anchor", scope="task")
    assert full["considered"] == searched
    assert beyond["considered"] == searched
    assert full.get("message") is None
    assert f"latest {LIMIT}" in beyond["message"]


async def test_matching_words_outrank_distant_vectors(app: App) -> None:
    """To the local model all lines of a log are alike: their differences are noise."""
    log = [
        f"2026-11-22T10:{n // 60:02}:{n % 60:02} INFO worker {n % 7} took job {n} in {n % 90} ms"
        for n in range(600)
    ]
    log[431] = "2026-11-22T10:07:11 ERROR disk full on /var/lib/db, write aborted"
    for query in ("disk full", "write aborted"):
        result = await extract_result(app, query, materials="\n".join(log))
        assert "disk full" in result["contexts"][0]


async def test_the_end_of_a_long_passage_is_found_by_its_words(app: App) -> None:
    """The local model reads only the first 256 tokens."""
    chapters = [f"Chapter {n} is about the marketing plan of region {n}." for n in range(40)]
    long = "The committee met and talked of the weather. " * 30
    chapters[17] = f"{long}The treasurer keeps the vault key in Lisbon."
    result = await extract_result(app, "Where is the vault key?", materials="\n\n".join(chapters))
    assert "Lisbon" in result["contexts"][0]
