"""A text is split into sentences of prose, which are ranked by how central they are."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.text.key_sentences import rank_sentences
from shared.text.sentences import split_sentences

BAKING_TEXT = (
    "Flour, water and salt make the dough. A dough needs time more than it needs kneading."
    " My aunt owned a red car. Time lets the dough rise without much kneading."
    " What happens if it is rushed? Rushed dough tears in the oven."
)


def rank_texts(text: str, title: str = "") -> Sequence[str]:
    """Return the sentences of a text, the most central first."""
    return [sentence.text for sentence in rank_sentences(split_sentences(text), title)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One comes first. Two comes then.", ["One comes first.", "Two comes then."]),
        ("A line that is\nbroken by hand.", ["A line that is broken by hand."]),
        ("# Of bread\n\nKnead it.", ["Knead it."]),
        ("- Knead **well**.\n- Let it rise.", ["Knead well.", "Let it rise."]),
        ("1. Knead it.\n2) Let it rise.", ["Knead it.", "Let it rise."]),
        ("> Who kneads\n> sleeps well.", ["Who kneads sleeps well."]),
        ("See [the book](https://example.com/a) on it.", ["See the book on it."]),
        ("Knead it. https://example.com/a?b=c", ["Knead it."]),
        ("Open `http://localhost` (https://example.com/a).", ["Open `http://localhost` ."]),
        ("Do this:\n\n```python\nx = bake(1)\n```\n\nThen eat.", ["Do this:", "Then eat."]),
        ("Do this.\n\n    x = bake(1)\n\nThen eat.", ["Do this.", "Then eat."]),
        ("| a | b |\n|---|---|\n| c | d |\n\nKnead it.", ["Knead it."]),
        ("and the code ends.\n```\nThen eat it.", ["and the code ends.", "Then eat it."]),
        ("先揉面。然后等它发起来。", ["先揉面。", "然后等它发起来。"]),
        ("{[(<+=-*/&|)]}; 12 + 30 = 42", []),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_a_text_is_split_into_the_sentences_of_its_prose(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_central_sentences_come_first() -> None:
    lead, *ranked_sentences = rank_texts(BAKING_TEXT)
    assert lead == "Flour, water and salt make the dough."
    assert ranked_sentences[0] == "A dough needs time more than it needs kneading."
    related = ranked_sentences.index("Time lets the dough rise without much kneading.")
    assert related < ranked_sentences.index("My aunt owned a red car.")
    assert rank_texts(BAKING_TEXT, "Red cars of aunts")[0] == "My aunt owned a red car."


@pytest.mark.parametrize(
    "line", ["Bakery Dr. Dough, Leipzig, 4 May 2026.", "BACKGROUND Few studies are about dough."]
)
def test_letterheads_and_backgrounds_do_not_lead(line: str) -> None:
    assert rank_texts(f"{line} The dough needs time, as few studies of dough said.")[-1] == line


def test_questions_and_introductions_come_last() -> None:
    text = "The dough should rise: so the dough needs what?  The dough needs time. Dough needs:"
    assert rank_texts(text)[0] == "The dough needs time."
    assert rank_texts("Yes. It is. Dough needs much time. Oh!") == ["Dough needs much time."]
    assert rank_texts("Yes. No.") == []


def test_a_sentence_has_its_position_and_similarities() -> None:
    sentences = ["Dough needs much time.", "Dough needs much water.", "Dough needs much time."]
    by_position = {sentence.position: sentence for sentence in rank_sentences(sentences)}
    assert by_position.keys() == {0, 1, 2}
    similarity_to_itself, similarity_to_other, similarity_to_copy = by_position[0].similarities
    assert similarity_to_itself == pytest.approx(1.0)
    assert similarity_to_copy == pytest.approx(1.0)
    assert 0 < similarity_to_other < 1


@settings(max_examples=60)
@given(st.text(max_size=400), st.text(max_size=40))
def test_any_text_is_accepted(text: str, title: str) -> None:
    ranked_sentences = rank_texts(text, title)
    assert set(ranked_sentences) <= set(split_sentences(text))
    assert all("\n" not in sentence for sentence in ranked_sentences)


def test_a_long_text_is_fast() -> None:
    text = " ".join(
        f"Sentence {number} speaks of dough number {number % 7} at length." for number in range(500)
    )
    start = time.process_time()
    assert len(rank_sentences(split_sentences(text), "Dough")) == 500
    assert time.process_time() - start < 3


def test_a_german_ordinal_does_not_end_a_sentence() -> None:
    text = "Abgabe bis 2. September 2024. Danach ist Schluss."
    assert split_sentences(text) == ["Abgabe bis 2. September 2024.", "Danach ist Schluss."]
