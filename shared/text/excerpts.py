"""Where a passage speaks of what was asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.text.snippets import LEAD, LENGTH, character_ends, truncate
from shared.text.terms import MAX_TERM, term_occurrences

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


_MARGIN: Final = 5
"""Characters of an excerpt for its ellipses, and for punctuation after its last word."""


_Occurrence = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The stretch of a passage that speaks most of what was asked.

    Attributes:
        text: On one line, cut between words; `…` stands where something is left out.
        matched: The words of the whole passage that match, as they first stand in it.
    """

    text: str
    matched: list[str]


def excerpt(content: str, query_terms: Collection[str]) -> Excerpt:
    """The part of a passage that holds the most different terms of a query.

    Args:
        content: The passage.
        query_terms: The terms of the query, as `terms` makes them.
    """
    line = " ".join(content.split())
    found = [each for each in term_occurrences(line) if each[0] in query_terms]
    words = {term: truncate(line[start:end], MAX_TERM) for term, start, end in reversed(found)}
    matched = list(dict.fromkeys(words[term] for term, _, _ in found))
    return Excerpt(_around(line, _best_start(found)), matched)


def _around(line: str, match: int) -> str:
    """A line from a little before a match on."""
    if match <= LEAD or len(line) <= LENGTH:
        return truncate(line, LENGTH)
    start = _word_start(line, min(match - LEAD, len(line) - LENGTH + 1), match)
    return "…" + truncate(line[start:], LENGTH - 1)


def _best_start(found: Sequence[_Occurrence]) -> int:
    """Where a stretch begins that holds the most different terms; the first of such."""
    best, most, seen = 0, 0, 0
    inside: Counter[str] = Counter()
    for number, (term, start, _) in enumerate(found):
        until = start + LENGTH - LEAD - _MARGIN
        while seen < len(found) and (seen <= number or found[seen][2] <= until):
            inside[found[seen][0]] += 1
            seen += 1
        if len(inside) > most:
            best, most = start, len(inside)
        inside[term] -= 1
        if not inside[term]:
            del inside[term]
    return best


def _word_start(line: str, index: int, match: int) -> int:
    """The first start of a word from `index` on; where the match stands in one, of a character."""
    space = line.find(" ", index - 1, match)
    if space >= 0:
        return space + 1
    return next(end for end in character_ends(line) if end >= index)
