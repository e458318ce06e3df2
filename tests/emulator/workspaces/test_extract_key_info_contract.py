"""`extract_key_info` accepts valid arguments, and names the invalid ones that it refuses.

The tool returns the passages of a text, the contexts, that answer a question best. It stores the
text in a workspace, whose id the argument `task_id` gives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from functions.tools.workspaces.extract_key_info import ranking
from shared.ai.embedding import Embedder
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.materials import BREAD, COMET, TEXT, extract_error, extract_result

LOG: Final = "\n\n".join(f"Line {number} of the log says {number * 7}." for number in range(30))
UNUSUAL_IDS: Final = (
    "a b",
    "a-b",
    "a.b",
    "../..",
    "__a__",
    ".",
    "é",
    "麦 🍞",
    "/",
    "\x00",
    "x" * 190,
)
"""Valid ids of workspaces."""


@pytest.fixture
async def open_app(project: str, embedder: Embedder) -> AsyncIterator[Callable[..., App]]:
    """A function that makes apps with other settings for one database."""
    apps: list[App] = []

    def make_app(**settings: Any) -> App:
        app_settings = Settings(google_cloud_project=project, **settings)
        apps.append(App(app_settings, embedder=embedder))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


async def count_contexts(app: App, **arguments: Any) -> int:
    """Return the number of contexts that a call returns for a text of thirty passages."""
    return len((await extract_result(app, "log", materials=LOG, **arguments))["contexts"])


def normalize(values: list[float]) -> list[float]:
    """Map values linearly to the range from 0 to 1."""
    return [(value - min(values)) / (max(values) - min(values)) for value in values]


@pytest.mark.requirement("001-C5")
async def test_five_contexts_are_the_default(app: App) -> None:
    assert await count_contexts(app) == 5
    assert await count_contexts(app, top_k=None) == 5


@pytest.mark.parametrize("top_k", [1, 2, 19, 20])
async def test_top_k_contexts_are_returned(app: App, top_k: int) -> None:
    assert await count_contexts(app, top_k=top_k) == top_k


@pytest.mark.requirement("001-C2")
async def test_both_spellings_of_top_k_are_accepted(app: App) -> None:
    assert await count_contexts(app, top_k=7) == 7
    assert await count_contexts(app, topK=7) == 7
    assert await count_contexts(app, topK=7.0) == 7


async def test_all_passages_are_returned_if_fewer_than_top_k(app: App) -> None:
    result = await extract_result(app, "comet", materials=TEXT, top_k=20)
    assert len(result["contexts"]) == 4
    assert len(result["passages"]) == 4
    assert result["considered"] == 4


@pytest.mark.requirement("001-C5", "001-G4")
async def test_the_default_of_top_k_is_a_setting(open_app: Callable[..., App]) -> None:
    app = open_app(extract_top_k=3)
    assert await count_contexts(app) == 3
    assert await count_contexts(app, top_k=4) == 4


@pytest.mark.parametrize(
    "query", ["?", "🌠", "x" * 2_000, "the of and", "\x00comet\x1b", "a\u0301"]
)
async def test_a_query_without_terms_is_answered(app: App, query: str) -> None:
    result = await extract_result(app, query, materials=TEXT)
    repeated = await extract_result(app, query, materials=TEXT)
    assert len(result["contexts"]) == 4
    assert repeated == result | {"known": True}


async def test_white_space_around_a_query_does_not_matter(app: App) -> None:
    plain = await extract_result(app, "comet's tail", materials=TEXT)
    spaced = await extract_result(app, " \n comet's tail\t", materials=TEXT)
    assert plain | {"known": True} == spaced


@pytest.mark.parametrize("materials", ["\x00\x01\x1f", "\u200b\ufeff"])
async def test_invisible_materials_are_refused(app: App, materials: str) -> None:
    error = await extract_error(app, "comet", materials=materials)
    assert error.code == "VALIDATION_ERROR"
    assert {*(error.details or {})} == {"materials"}


async def test_a_document_of_another_workspace_is_not_found(app: App) -> None:
    document = (await extract_result(app, "comet", materials=TEXT, task_id="one"))["document"]
    error = await extract_error(app, "comet", document=document, task_id="two")
    assert error.code == "NOT_FOUND"
    assert "two" in error.message


async def test_an_empty_workspace_is_not_found(app: App) -> None:
    error = await extract_error(app, "comet", scope="task", task_id="empty")
    assert error.code == "NOT_FOUND"
    assert {*(error.details or {})} == {"task_id"}


async def test_the_default_scope_is_the_text_alone(app: App) -> None:
    await extract_result(app, "comet", materials=COMET)
    default = await extract_result(app, "comet", materials=BREAD)
    text_alone = await extract_result(app, "comet", materials=BREAD, scope="materials")
    all_texts = await extract_result(app, "comet", materials=BREAD, scope="task")
    assert default["contexts"] == [BREAD]
    assert text_alone["contexts"] == [BREAD]
    assert all_texts["contexts"] == [COMET, BREAD]


async def test_scope_task_includes_a_new_text(app: App) -> None:
    await extract_result(app, "bread", materials=BREAD)
    result = await extract_result(app, "comet", materials=COMET, scope="task")
    assert result["considered"] == 2
    assert result["known"] is False
    assert result["contexts"] == [COMET, BREAD]


async def test_a_document_can_be_searched_alone_or_with_all(app: App) -> None:
    document = (await extract_result(app, "comet", materials=COMET))["document"]
    await extract_result(app, "bread", materials=BREAD)
    text_alone = await extract_result(app, "comet", document=document)
    all_texts = await extract_result(app, "comet", document=document, scope="task")
    assert text_alone["contexts"] == [COMET]
    assert all_texts["contexts"] == [COMET, BREAD]
    for result in (text_alone, all_texts):
        assert result["document"] == document
        assert result["known"] is True


@pytest.mark.requirement("001-B1")
async def test_unusual_task_ids_are_separate_workspaces(app: App) -> None:
    stored_ids: set[str] = set()
    for number, task_id in enumerate(UNUSUAL_IDS):
        text = f"Passage {number} of a task."
        result = await extract_result(app, "passage", materials=text, task_id=task_id)
        for equivalent_id in (task_id, f" {task_id}\n", result["task_id"]):
            repeated = await extract_result(app, "passage", scope="task", task_id=equivalent_id)
            assert repeated["contexts"] == [text]
            assert repeated["task_id"] == result["task_id"]
        stored_ids.add(result["task_id"])
    assert len(stored_ids) == len(UNUSUAL_IDS)


@pytest.mark.requirement("001-F3")
async def test_the_workspace_is_the_argument_the_key_or_default(app: App) -> None:
    essay = Caller.of("reader", task="essay")  # a key can name a workspace
    by_argument = await extract_result(app, "comet", essay, materials=TEXT, task_id="thesis")
    by_key = await extract_result(app, "comet", essay, materials=TEXT)
    by_default = await extract_result(app, "comet", materials=TEXT)
    assert by_argument["task_id"] == "thesis"
    assert by_key["task_id"] == "essay"
    assert by_default["task_id"] == "default"
    assert not any(result["known"] for result in (by_argument, by_key, by_default))


async def test_the_weight_ranges_from_words_to_meaning(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for weight, part in ((1.0, "similarity"), (0.0, "bm25")):
        monkeypatch.setattr(ranking, "SEMANTIC_WEIGHT", weight)
        passages = (await extract_result(app, "rye and a comet", materials=TEXT))["passages"]
        parts = [passage[part] for passage in passages]
        scores = [passage["score"] for passage in passages]
        assert parts == sorted(parts, reverse=True)
        assert scores == pytest.approx(normalize(parts), abs=1e-3)


@pytest.mark.requirement("001-F8")
async def test_the_default_weights_are_the_required_ones(app: App) -> None:
    passages = (await extract_result(app, "rye and a comet", materials=TEXT))["passages"]
    similarities = normalize([passage["similarity"] for passage in passages])
    word_scores = normalize([passage["bm25"] for passage in passages])
    expected = [
        0.65 * similarity + 0.35 * word_score
        for similarity, word_score in zip(similarities, word_scores, strict=True)
    ]
    assert [passage["score"] for passage in passages] == pytest.approx(expected, abs=1e-3)


@pytest.mark.requirement("001-G6")
async def test_the_length_of_a_passage_is_a_setting(open_app: Callable[..., App]) -> None:
    text = " ".join(f"Sentence number {number} is about the sea." for number in range(60))
    for max_characters in (200, 1_500):
        app = open_app(extract_passage_characters=max_characters)
        result = await extract_result(app, "sea", materials=text, top_k=20)
        assert max(map(len, result["contexts"])) <= max_characters
        assert len(result["contexts"]) == min(result["considered"], 20)
        assert result["considered"] >= len(text) // max_characters
