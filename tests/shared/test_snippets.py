"""How a passage begins."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.retrieval.snippets import LENGTH, snippet

words = st.text(alphabet=st.sampled_from("ab,.\n \té"), max_size=3 * LENGTH)


def test_a_short_passage_is_its_own_snippet() -> None:
    assert snippet("Knead the dough.") == "Knead the dough."
    assert snippet("a" * LENGTH) == "a" * LENGTH


def test_lines_and_runs_of_white_space_become_one_space() -> None:
    assert snippet(" one\n\n two\t three ") == "one two three"


def test_a_long_passage_ends_with_a_whole_word_and_an_ellipsis() -> None:
    assert snippet("word " * 100) == "word " * 55 + "word…"


@pytest.mark.parametrize("mark", [",", ";", ":", "."])
def test_no_punctuation_is_left_before_the_ellipsis(mark: str) -> None:
    cut = snippet(f"{'a' * 270}{mark} {'b' * 270}")
    assert cut == "a" * 270 + "…"


def test_a_word_longer_than_a_snippet_is_cut() -> None:
    assert snippet("a" * 300) == "a" * (LENGTH - 1) + "…"


@settings(deadline=None)
@given(words | st.text(max_size=2 * LENGTH))
def test_a_snippet_is_one_line_that_its_passage_begins_with(content: str) -> None:
    line = " ".join(content.split())
    cut = snippet(content)
    assert len(cut) <= LENGTH
    assert len(cut.splitlines()) <= 1
    assert line == cut or line.startswith(cut.removesuffix("…"))


@settings(deadline=None)
@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=20), max_size=200))
def test_a_snippet_holds_whole_words_only(passage: list[str]) -> None:
    cut = snippet(" ".join(passage)).removesuffix("…").split()
    assert cut == passage[: len(cut)]
