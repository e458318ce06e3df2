"""Joins words that a hyphen divides at the end of a line or page, and keeps those of compounds."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK: Final = "\ufffe"
"""The character that PDFium writes for a hyphen at the end of a line."""
_LINE_END_HYPHEN: Final = re.compile(
    rf"-?{_MARK}\r?\n?|(?<=[^\W\d_])(?:[\xad\u2010]\r?\n|[-\xad\u2010]\s*\Z)"
)
"""A hyphen at the end of a line, and the line break. PDFium marks none at the end of a page, and no
U+2010, which some fonts have for a hyphen."""
_WORD: Final = re.compile(r"\w+")
_LAST_WORD: Final = re.compile(r"\w+\Z")
_MAX_WORD: Final = 100
"""The word at the end of a line is looked for in this many characters, to limit the time."""
_COMPOUND: Final = re.compile(r"\w+(?:-\w+)*")
_CONJUNCTIONS: Final = frozenset({"and", "or", "und", "oder"})
"""Words that a space separates from the hyphen before them: `pre- and postwar`."""


def mark_hyphens(text: str) -> str:
    """Mark the lines of a page or highlight that end with a hyphen, for `join_words`."""
    return _LINE_END_HYPHEN.sub(f"{_MARK}\n", text)


def count_spellings(pages: Sequence[str]) -> Counter[str]:
    """Count the words of a document, and the pairs that a hyphen joins, such as `long-term`.

    Nothing is counted if no line ends with a hyphen.
    """
    counts: Counter[str] = Counter()
    if any(_LINE_END_HYPHEN.search(page) for page in pages):
        for page in pages:
            for compound in _COMPOUND.findall(page.casefold()):
                first, *others = compound.split("-")
                pairs = pairwise((first, *others))
                counts.update([f"{left}-{right}" for left, right in pairs] if others else [first])
    return counts


def join_words(pages: Sequence[Sequence[str]], spellings: Counter[str]) -> list[list[str]]:
    """Move the rest of each divided word up to the line, or page, on which the word begins.

    A hyphen is kept before a capital or a digit, and where the document spells the word with a
    hyphen more often than without one.

    Args:
        pages: The lines of each page, with their marks from `mark_hyphens`, and without running
            heads, which would come between the parts of a word.
        spellings: The words and pairs of the document, from `count_spellings`.
    """
    joined = [list(lines) for lines in pages]
    next_page: list[str] = []
    for lines in reversed(joined):
        for index in reversed(range(len(lines))):
            if lines[index].endswith(_MARK):
                rest = _take_rest(lines, index, next_page)
                lines[index] = _join_word(lines[index].removesuffix(_MARK), rest, spellings)
        if any(lines):
            next_page = lines
    return joined


def _take_rest(lines: list[str], index: int, next_page: list[str]) -> str:
    """Remove the rest of a word that a line ends with from the line after it, and return it.

    Return "" if nothing continues the word. On the next page, only a small letter does, because a
    heading or a picture may begin it.
    """
    if any(lines[index + 1 :]):
        source, position = lines, index + 1
    else:
        source = next_page
        position = next((position for position, line in enumerate(source) if line), 0)
        if not source or not source[position][0].islower():
            return ""
    rest, _, others = source[position].partition(" ")
    if rest.casefold() in _CONJUNCTIONS:
        return ""
    if others:
        source[position] = others
    elif rest:  # an empty line would end the paragraph
        del source[position]
    return rest


def _join_word(left: str, rest: str, spellings: Counter[str]) -> str:
    if not rest or rest[0].isupper() or rest[0].isdigit():
        return f"{left}-{rest}"
    first, last = _LAST_WORD.search(left[-_MAX_WORD:]), _WORD.match(rest)
    if first is None or last is None:
        return left + rest
    head, tail = first[0].casefold(), last[0].casefold()
    return f"{left}-{rest}" if spellings[f"{head}-{tail}"] > spellings[head + tail] else left + rest
