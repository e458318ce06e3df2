"""`extract_key_info`, against the emulator: what is answered, and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.materials import BREAD, COMET, PAGES, extracted

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def test_the_passage_that_answers_comes_first_word_for_word(app: App) -> None:
    result = await extracted(app, "Why does rye need sour dough?", materials=PAGES)
    assert BREAD == result["contexts"][0]
    first = result["passages"][0]
    assert BREAD == PAGES[first["start"] : first["end"]]
    assert (2, 4, False, "ready") == (
        first["position"],
        result["considered"],
        result["known"],
        result["status"],
    )


async def test_materials_are_known_the_second_time_and_answer_the_same(app: App) -> None:
    first = await extracted(app, "Where does a comet's tail point?", materials=PAGES)
    second = await extracted(app, "Where does a comet's tail point?", materials=PAGES)
    assert first | {"known": True} == second
    assert COMET == second["contexts"][0]
    by_id = await extracted(app, "Where does a comet's tail point?", document=first["document"])
    assert second == by_id


async def test_a_task_is_searched_as_a_whole(app: App) -> None:
    await extracted(app, "comet", materials=COMET)
    await extracted(app, "bread", materials=BREAD)
    result = await extracted(app, "What does rye bread need?", scope="task")
    assert [BREAD, COMET] == result["contexts"]
    assert 2 == result["considered"]
