"""A cleaned text is one line of what is visible."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.text.folding import normalize_line

FAMILY = "👩\u200d👩\u200d👧\u200d👦"


def list_visible_characters(text: str) -> list[str]:
    """Return the letters, numbers and signs of a text."""
    return [character for character in text if unicodedata.category(character)[0] in "LMNPS"]


@given(st.text() | st.text(st.characters()))
def test_a_cleaned_text_is_one_line_of_what_is_visible(text: str) -> None:
    line = normalize_line(text)
    assert normalize_line(line) == line == " ".join(line.split())
    assert {unicodedata.category(character) for character in line}.isdisjoint({"Cc", "Cs"})
    assert list_visible_characters(line) == list_visible_characters(text)


@pytest.mark.requirement("001-P2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" one\r\n\ttwo\u3000\xa0three\x1c\x1ffour\u2028", "one two three four"),
        ("a\x00b\x1b[0m\x7f\x9f", "ab[0m"),
        ("zero\u200bwidth \u200b word\u2060joiner\ufeff", "zerowidth wordjoiner"),
        ("\u202eright\u202c \u2067to\u2069 \u200fleft\u061c", "right to left"),
        ("Donau\xaddampf\xadschiff", "Donaudampfschiff"),
        ("a\ud800b\udfff", "ab"),
        (f"{FAMILY} ❤\ufe0f 👍🏽", f"{FAMILY} ❤\ufe0f 👍🏽"),
        ("می\u200cروم क्\u200dष", "می\u200cروم क्\u200dष"),
        ("e\u0301 ﬁ \uff21 ½", "e\u0301 ﬁ \uff21 ½"),
        ("\x00\ufeff \u200b\r\n\ud800", ""),
        ("", ""),
    ],
)
def test_a_text_is_cleaned(text: str, expected: str) -> None:
    assert normalize_line(text) == expected
