"""Joins words that a hyphen divides at the end of a line, and keeps the hyphens of compounds."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK: Final = "\ufffe"
"""The character that PDFium writes for a hyphen at the end of a line."""
_LINE_END_HYPHEN: Final = re.compile(f"-?{_MARK}\r?\n?")
"""How PDFium writes a hyphen at the end of a line, and the line break."""
_WORD: Final = re.compile(r"\w+")
_LAST_WORD: Final = re.compile(r"\w+\Z")
_MAX_WORD: Final = 100
"""The word at the end of a line is looked for in this many characters, to limit the time."""
_COMPOUND: Final = re.compile(r"\w+(?:-\w+)*")
_CONJUNCTIONS: Final = frozenset({"and", "or", "und", "oder"})
"""Words that a space separates from the hyphen before them: `pre- and postwar`."""


def count_spellings(pages: Sequence[str]) -> Counter[str]:
    """Count the words of a document, and the pairs that a hyphen joins, such as `long-term`.

    Nothing is counted if no line ends with a hyphen.
    """
    counts: Counter[str] = Counter()
    if any(_MARK in page for page in pages):
        for page in pages:
            for compound in _COMPOUND.findall(page.casefold()):
                first, *others = compound.split("-")
                pairs = pairwise((first, *others))
                counts.update([f"{left}-{right}" for left, right in pairs] if others else [first])
    return counts


def join_words(text: str, spellings: Counter[str]) -> str:
    """Join words that a line break divides.

    A hyphen is kept before a capital or a digit, and where the document spells the word with a
    hyphen more often than without one.

    Args:
        text: The text of a page as PDFium writes it.
        spellings: The words and pairs of the document, from `count_spellings`.
    """
    joined, *rest = _LINE_END_HYPHEN.split(text)
    parts = [joined]
    for left, right in pairwise((joined, *rest)):
        parts += (_choose_hyphen(left, right, spellings), right)
    return "".join(parts)


def _choose_hyphen(left: str, right: str, spellings: Counter[str]) -> str:
    """Return what replaces the line-end hyphen between two texts."""
    if right[:1].isupper() or right[:1].isdigit():
        return "-"
    first, last = _LAST_WORD.search(left[-_MAX_WORD:]), _WORD.match(right)
    if first is None or last is None:
        return ""
    if last[0].casefold() in _CONJUNCTIONS:
        return "- "
    head, tail = first[0].casefold(), last[0].casefold()
    return "-" if spellings[f"{head}-{tail}"] > spellings[head + tail] else ""
