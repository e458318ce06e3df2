"""Frequent words without content, by language."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parent / "data"
"""The folder with lists of words."""


def _load_words(language: str) -> frozenset[str]:
    return frozenset((DATA / f"stop-words.{language}.txt").read_text("utf-8").split())


ENGLISH: Final = _load_words("english")
GERMAN: Final = _load_words("german")
_GERMAN_QUESTION_WORDS: Final = frozenset(
    {"wann", "warum", "wem", "wen", "wer", "weshalb", "wessen", "wieso", "wodurch", "woher"}
    | {"wohin", "womit", "woran", "worauf", "worin", "worüber", "wovon", "wozu"}
)
"""Words missing from the Snowball list. They help to detect the language, but are indexed."""
STOP_WORDS: Final = {
    "en": ENGLISH,
    "de": GERMAN | _GERMAN_QUESTION_WORDS,
    **{
        line[:2]: frozenset(line[2:].split())
        for line in (DATA / "stop-words.other.txt").read_text("utf-8").splitlines()
    },
}
"""The stop words of each language, by its ISO 639-1 code."""

AMBIGUOUS: Final = frozenset(
    {"als", "am", "an", "das", "den", "des", "die", "dies", "er", "es", "hat", "im", "in"}
    | {"man", "mir", "mit", "nun", "so", "war", "was", "will"}
)
"""English and German stop words that do not identify their language, because the other language has
the same words, or names that look like them (ALS, ER, MIT)."""
