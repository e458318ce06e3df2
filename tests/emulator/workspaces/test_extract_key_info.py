"""`extract_key_info` with the emulator: the answer, and which texts it searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.materials import BREAD, COMET, TEXT, extract_result

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def test_the_passage_that_answers_comes_first_verbatim(app: App) -> None:
    result = await extract_result(app, "Why does rye need sour dough?", materials=TEXT)
    assert result["contexts"][0] == BREAD
    first = result["passages"][0]
    assert TEXT[first["start"] : first["end"]] == BREAD
    assert first["position"] == 2
    assert result["considered"] == 4
    assert result["known"] is False
    assert result["status"] == "ready"


async def test_a_known_text_gives_the_same_answer(app: App) -> None:
    first = await extract_result(app, "Where does a comet's tail point?", materials=TEXT)
    second = await extract_result(app, "Where does a comet's tail point?", materials=TEXT)
    assert first | {"known": True} == second
    assert second["contexts"][0] == COMET
    by_id = await extract_result(
        app, "Where does a comet's tail point?", document=first["document"]
    )
    assert second == by_id


async def test_scope_task_searches_all_texts(app: App) -> None:
    await extract_result(app, "comet", materials=COMET)
    await extract_result(app, "bread", materials=BREAD)
    result = await extract_result(app, "What does rye bread need?", scope="task")
    assert result["contexts"] == [BREAD, COMET]
    assert result["considered"] == 2
