"""Words too common to look for, in English and German: the Snowball project's lists.

Where they come from and their licence: `data/NOTICE.txt`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_DATA: Final = Path(__file__).parent / "data"


def _words(language: str) -> frozenset[str]:
    return frozenset((_DATA / f"stop-words.{language}.txt").read_text("utf-8").split())


ENGLISH: Final = _words("english")
GERMAN: Final = _words("german")

AMBIGUOUS: Final = frozenset(
    {"als", "am", "an", "das", "den", "des", "die", "dies", "er", "es", "hat", "im", "in"}
    | {"man", "mir", "mit", "nun", "so", "war", "was", "will"}
)
"""Stop words that say little about the language: the other one has them, or writes names that
look like them (ALS, ER, MIT)."""
