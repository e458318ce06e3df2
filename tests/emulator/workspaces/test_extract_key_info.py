"""`extract_key_info` returns the passages of a text that answer a question best.

It stores the text in a workspace, whose id the argument `task_id` gives. With `scope="task"`, it
searches all texts of the workspace.
"""

from __future__ import annotations

import pytest

from shared.runtime.context import App
from tests.support.materials import BREAD, COMET, TEXT, extract_result


@pytest.mark.requirement("001-B2", "001-C6", "001-F9", "001-X2")
async def test_the_passage_that_answers_comes_first_verbatim(app: App) -> None:
    result = await extract_result(app, "Why does rye need sour dough?", materials=TEXT)
    assert result["contexts"][0] == BREAD
    passage = result["passages"][0]
    assert TEXT[passage["start"] : passage["end"]] == BREAD
    assert passage["position"] == 2
    assert result["considered"] == 4
    assert result["known"] is False
    assert result["status"] == "ready"


@pytest.mark.requirement("001-C4")
async def test_a_known_text_gives_the_same_answer(app: App) -> None:
    question = "Where does a comet's tail point?"
    first_result = await extract_result(app, question, materials=TEXT)
    result_of_text = await extract_result(app, question, materials=TEXT)
    result_of_id = await extract_result(app, question, document=first_result["document"])
    assert first_result["contexts"][0] == COMET
    assert result_of_text == first_result | {"known": True}
    assert result_of_id == result_of_text


async def test_scope_task_searches_all_texts(app: App) -> None:
    await extract_result(app, "comet", materials=COMET)
    await extract_result(app, "bread", materials=BREAD)
    result = await extract_result(app, "What does rye bread need?", scope="task")
    assert result["contexts"] == [BREAD, COMET]
    assert result["considered"] == 2
