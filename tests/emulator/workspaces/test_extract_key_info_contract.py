"""`extract_key_info`: what it takes and what it refuses, each refusal by the field's own name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.tools.workspaces.extract_key_info.tool import TOOL
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.materials import BREAD, COMET, TEXT, call_extract, extract_error, extract_result
from tests.support.mcp_wire import assert_fits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.ai.embedding import Embedder

pytestmark = pytest.mark.anyio

LINES: Final = "\n\n".join(f"Line {number} of the log says {number * 7}." for number in range(30))
MISSING: Final = "0" * 32


@pytest.fixture
async def opened(project: str, embedder: Embedder) -> AsyncIterator[Callable[..., App]]:
    """Makes backends of other settings over one database."""
    backends: list[App] = []

    def make(**settings: Any) -> App:
        chosen = Settings(google_cloud_project=project, **settings)
        backends.append(App(chosen, embedder=embedder))
        return backends[-1]

    yield make
    for app in backends:
        await app.aclose()


async def brought(app: App, **arguments: Any) -> int:
    """How many contexts such a call brings out of thirty."""
    return len((await extract_result(app, "log", materials=LINES, **arguments))["contexts"])


async def test_five_contexts_come_unless_told_otherwise(app: App) -> None:
    assert 5 == await brought(app)
    assert 5 == await brought(app, top_k=None)


@pytest.mark.parametrize("asked", [1, 2, 19, 20])
async def test_as_many_contexts_come_as_were_asked_for(app: App, asked: int) -> None:
    assert asked == await brought(app, top_k=asked)


async def test_both_spellings_of_top_k_are_taken(app: App) -> None:
    assert (7, 7, 7) == (
        await brought(app, top_k=7),
        await brought(app, topK=7),
        await brought(app, topK=7.0),
    )


async def test_fewer_passages_than_were_asked_for_all_come(app: App) -> None:
    result = await extract_result(app, "comet", materials=TEXT, top_k=20)
    assert (4, 4, 4) == (len(result["contexts"]), len(result["passages"]), result["considered"])


@pytest.mark.parametrize("asked", [0, -1, 21, 10**30, 1.5, "5", "", True, [5], {"k": 5}])
@pytest.mark.parametrize("name", ["top_k", "topK"])
async def test_another_top_k_is_refused(app: App, name: str, asked: Any) -> None:
    error = await extract_error(app, "log", materials=LINES, **{name: asked})
    assert ("VALIDATION_ERROR", 1) == (error.code, len(error.details or {}))
    assert {*(error.details or {})} <= {"top_k", "topK"}


async def test_a_top_k_that_is_too_large_is_told_the_limit(app: App) -> None:
    error = await extract_error(app, "log", materials=LINES, top_k=21)
    assert ("top_k" in error.message, "20" in error.message) == (True, True)


async def test_two_spellings_at_once_are_refused_as_two_spellings(app: App) -> None:
    """That topK were no parameter would be a lie: alone it is taken."""
    error = await extract_error(app, "log", materials=LINES, top_k=3, topK=4)
    assert ("top_k" in error.message, "topK" in error.message) == (True, True)
    assert "not a parameter" not in error.message


async def test_the_default_and_the_limit_of_top_k_are_settings(
    opened: Callable[..., App],
) -> None:
    app = opened(extract_top_k=3, extract_top_k_limit=25)
    assert (3, 25) == (await brought(app), await brought(app, top_k=25))
    error = await extract_error(app, "log", materials=LINES, top_k=26)
    assert {"top_k": "must be at most 25"} == error.details


@pytest.mark.parametrize(
    "query", ["", " \n\t ", "\u3000", "\u200b", "\x00", None, 5, ["comet"], "x" * 2_001]
)
async def test_a_query_that_asks_nothing_is_refused(app: App, query: Any) -> None:
    error = await extract_error(app, query, materials=TEXT)
    assert ("VALIDATION_ERROR", {"query"}) == (error.code, {*(error.details or {})})


async def test_a_query_that_is_too_long_is_told_how_long_it_may_be(app: App) -> None:
    error = await extract_error(app, "x" * 2_001, materials=TEXT)
    assert "2000" in error.message.replace(",", "")


@pytest.mark.parametrize(
    "query", ["?", "🌠", "x" * 2_000, "the of and", "\x00comet\x1b", "a\u0301"]
)
async def test_a_query_without_words_that_count_is_answered(app: App, query: str) -> None:
    result = await extract_result(app, query, materials=TEXT)
    again = await extract_result(app, query, materials=TEXT)
    assert (4, result | {"known": True}) == (len(result["contexts"]), again)


async def test_white_space_around_a_query_says_nothing(app: App) -> None:
    plain = await extract_result(app, "comet's tail", materials=TEXT)
    spaced = await extract_result(app, " \n comet's tail\t", materials=TEXT)
    assert plain | {"known": True} == spaced


@pytest.mark.parametrize(
    "materials",
    ["", " ", "\r\n\t \n", "\u3000\u2028", "\x00\x01\x1f", "\u200b\ufeff", None, 5, ["a"], {}],
)
async def test_materials_that_hold_nothing_are_refused(app: App, materials: Any) -> None:
    error = await extract_error(app, "comet", materials=materials)
    assert ("VALIDATION_ERROR", {"materials"}) == (error.code, {*(error.details or {})})


async def test_a_call_without_materials_is_told_to_send_some(app: App) -> None:
    error = await extract_error(app, "comet")
    assert ("VALIDATION_ERROR", {"materials"}) == (error.code, {*(error.details or {})})


async def test_materials_and_a_document_at_once_are_refused(app: App) -> None:
    document = (await extract_result(app, "comet", materials=TEXT))["document"]
    error = await extract_error(app, "comet", materials=TEXT, document=document)
    assert ("VALIDATION_ERROR", {"document"}) == (error.code, {*(error.details or {})})


@pytest.mark.parametrize("document", ["", "x", "../" * 10, MISSING.upper() + "A", 5, "é" * 32])
async def test_a_document_that_no_answer_named_is_refused(app: App, document: Any) -> None:
    error = await extract_error(app, "comet", document=document)
    assert ("VALIDATION_ERROR", {"document"}) == (error.code, {*(error.details or {})})


@pytest.mark.parametrize("scope", ["materials", "task"])
async def test_a_document_that_was_never_brought_is_not_found(app: App, scope: str) -> None:
    error = await extract_error(app, "comet", document=MISSING, scope=scope)
    assert ("NOT_FOUND", {"document"}) == (error.code, {*(error.details or {})})
    assert "materials" in error.message


async def test_a_document_of_another_task_is_not_found(app: App) -> None:
    document = (await extract_result(app, "comet", materials=TEXT, task_id="one"))["document"]
    error = await extract_error(app, "comet", document=document, task_id="two")
    assert "NOT_FOUND" == error.code
    assert "two" in error.message


async def test_a_task_without_materials_is_not_found(app: App) -> None:
    error = await extract_error(app, "comet", scope="task", task_id="empty")
    assert ("NOT_FOUND", {"task_id"}) == (error.code, {*(error.details or {})})


@pytest.mark.parametrize("scope", ["", "all", "TASK", None, 1, ["task"]])
async def test_another_scope_is_refused(app: App, scope: Any) -> None:
    error = await extract_error(app, "comet", materials=TEXT, scope=scope)
    assert ("VALIDATION_ERROR", {"scope"}) == (error.code, {*(error.details or {})})
    assert ("materials" in error.message, "task" in error.message) == (True, True)


async def test_the_scope_is_these_materials_unless_told_otherwise(app: App) -> None:
    await extract_result(app, "comet", materials=COMET)
    only = await extract_result(app, "comet", materials=BREAD)
    same = await extract_result(app, "comet", materials=BREAD, scope="materials")
    both = await extract_result(app, "comet", materials=BREAD, scope="task")
    assert [[BREAD], [BREAD], [COMET, BREAD]] == [each["contexts"] for each in (only, same, both)]


async def test_new_materials_are_part_of_the_task_they_are_asked_with(
    app: App,
) -> None:
    await extract_result(app, "bread", materials=BREAD)
    result = await extract_result(app, "comet", materials=COMET, scope="task")
    assert (2, False, [COMET, BREAD]) == (
        result["considered"],
        result["known"],
        result["contexts"],
    )


async def test_a_document_names_materials_and_its_task_too(app: App) -> None:
    document = (await extract_result(app, "comet", materials=COMET))["document"]
    await extract_result(app, "bread", materials=BREAD)
    alone = await extract_result(app, "comet", document=document)
    of_task = await extract_result(app, "comet", document=document, scope="task")
    assert [[COMET], [COMET, BREAD]] == [each["contexts"] for each in (alone, of_task)]
    assert [(document, True)] * 2 == [
        (each["document"], each["known"]) for each in (alone, of_task)
    ]


@pytest.mark.parametrize("task_id", ["", " ", "\t\n", "\u3000"])
async def test_a_task_without_a_name_is_refused(app: App, task_id: str) -> None:
    error = await extract_error(app, "comet", materials=TEXT, task_id=task_id)
    assert ("VALIDATION_ERROR", {"task_id"}) == (error.code, {*(error.details or {})})


@pytest.mark.parametrize("task_id", [5, True, ["a"], "x" * 201])
async def test_a_name_that_is_no_text_or_a_long_one_is_refused(app: App, task_id: Any) -> None:
    error = await extract_error(app, "comet", materials=TEXT, task_id=task_id)
    assert ("VALIDATION_ERROR", {"task_id"}) == (error.code, {*(error.details or {})})


ODD: Final = ("a b", "a-b", "a.b", "../..", "__a__", ".", "é", "日本語 🍞", "/", "\x00", "x" * 190)


async def test_odd_names_are_tasks_of_their_own_that_the_answer_names(app: App) -> None:
    names: set[str] = set()
    for number, task_id in enumerate(ODD):
        text = f"Passage {number} of a task."
        result = await extract_result(app, "passage", materials=text, task_id=task_id)
        for name in (task_id, f" {task_id}\n", result["task_id"]):
            again = await extract_result(app, "passage", scope="task", task_id=name)
            assert ([text], result["task_id"]) == (again["contexts"], again["task_id"])
        names.add(result["task_id"])
    assert len(ODD) == len(names)


async def test_the_task_is_that_of_the_arguments_or_the_key_or_default(
    app: App,
) -> None:
    essay = Caller.of("reader", task="essay")
    named = await extract_result(app, "comet", essay, materials=TEXT, task_id="thesis")
    of_key = await extract_result(app, "comet", essay, materials=TEXT)
    neither = await extract_result(app, "comet", materials=TEXT)
    assert ["thesis", "essay", "default"] == [each["task_id"] for each in (named, of_key, neither)]
    assert [False] * 3 == [each["known"] for each in (named, of_key, neither)]


@pytest.mark.parametrize("name", ["material", "text", "k", "user_id", "top_K", "Query"])
async def test_an_unknown_field_is_refused_and_the_known_ones_are_told(app: App, name: str) -> None:
    unknown: dict[str, Any] = {name: "x"}
    error = await extract_error(app, "comet", materials=TEXT, **unknown)
    assert ("VALIDATION_ERROR", {name}) == (error.code, {*(error.details or {})})
    assert all(known in error.message for known in ("query", "materials", "top_k", "task_id"))


async def test_several_wrong_fields_are_told_at_once(app: App) -> None:
    error = await extract_error(app, "", materials=5, top_k=0, scope="all")
    assert {"query", "materials", "top_k", "scope"} == {*(error.details or {})}


async def test_what_is_refused_is_neither_stored_nor_charged(app: App) -> None:
    answer = await call_extract(app, "comet", materials=TEXT, top_k=21)
    assert (0, 0) == (answer.receipt.documents_read, answer.receipt.documents_written)
    assert (await extract_result(app, "comet", materials=TEXT))["known"] is False


async def test_a_weight_of_one_leaves_meaning_and_of_zero_leaves_words(
    opened: Callable[..., App],
) -> None:
    for weight, part in ((1.0, "similarity"), (0.0, "bm25")):
        app = opened(extract_semantic_weight=weight)
        found = (await extract_result(app, "rye and a comet", materials=TEXT))["passages"]
        parts = [each[part] for each in found]
        low, high = min(parts), max(parts)
        assert sorted(parts, reverse=True) == parts
        assert [each["score"] for each in found] == pytest.approx(
            [(value - low) / (high - low) for value in parts], abs=1e-3
        )


async def test_the_weights_are_those_of_the_requirement_unless_set(app: App) -> None:
    found = (await extract_result(app, "rye and a comet", materials=TEXT))["passages"]
    assert [each["score"] for each in found] == pytest.approx(
        [
            0.65 * meaning + 0.35 * words
            for meaning, words in zip(
                _normal([each["similarity"] for each in found]),
                _normal([each["bm25"] for each in found]),
                strict=True,
            )
        ],
        abs=1e-3,
    )


def _normal(values: list[float]) -> list[float]:
    return [(each - min(values)) / (max(values) - min(values)) for each in values]


async def test_the_length_of_a_passage_is_a_setting(opened: Callable[..., App]) -> None:
    text = " ".join(f"Sentence number {number} is about the sea." for number in range(60))
    for most in (200, 1_500):
        result = await extract_result(
            opened(extract_passage_characters=most), "sea", materials=text, top_k=20
        )
        assert max(map(len, result["contexts"])) <= most
        assert min(result["considered"], 20) == len(result["contexts"])
        assert result["considered"] >= len(text) // most


async def test_an_answer_is_what_the_declaration_says(app: App) -> None:
    declared = TOOL.declaration()
    for arguments in ({}, {"scope": "task"}, {"top_k": 1}):
        result = await extract_result(app, "comet", materials=TEXT, **arguments)
        assert_fits(result, declared["outputSchema"])
    assert {"query"} == set(declared["inputSchema"]["required"])
    described = declared["inputSchema"]["properties"].values()
    assert all(each.get("description") for each in described)
