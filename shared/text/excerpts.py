"""Excerpts: the part of a passage that matches a query best.

A passage and a query are compared by their terms (`shared.text.terms`), which are words in a form
that ignores case and inflection.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from shared.text.markup import to_plain_line
from shared.text.snippets import SNIPPET_LENGTH, find_grapheme_ends, truncate
from shared.text.terms import MAX_TERM, find_occurrences, find_variant_occurrences

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


MAX_LEAD: Final = 60
"""An excerpt begins this many characters before its first match, about ten words. It begins earlier
if the rest of the passage is shorter than an excerpt."""
_LINK: Final = "]("
"""Every text with a Markdown link that has an address contains this."""
_MARGIN: Final = 5
"""This many characters of an excerpt are reserved for ellipses and for punctuation at its end."""


class _Occurrence(NamedTuple):
    """A term, and the start and the end of its word in a text."""

    term: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a passage that matches a query best.

    Attributes:
        text: The excerpt on one line, without Markdown, cut between words. `…` marks omissions.
        matched: The matching words of the whole passage, in order and without repetitions, each as
            the passage first spells it.
        offset: Where the first matching word of the excerpt is in the passage, or 0 if none is.
    """

    text: str
    matched: list[str]
    offset: int = 0


def find_excerpt(content: str, query_terms: Collection[str]) -> Excerpt:
    """Find the part of a passage that contains the largest number of different terms of a query.

    Args:
        query_terms: The terms of the query, as `shared.text.terms.terms` returns them.
    """
    line = to_plain_line(content)
    matches = _find_matches(line, query_terms)
    text, occurrences = line, matches
    if _LINK in content:
        # The address of a link, which the plain line omits, may match, too.
        text = " ".join(content.split())
        occurrences = _find_matches(text, query_terms)
    # In reverse, so that the first spelling of each term is the one that remains.
    words = {
        occurrence.term: truncate(text[occurrence.start : occurrence.end], MAX_TERM)
        for occurrence in reversed(occurrences)
    }
    matched = list(dict.fromkeys(words[occurrence.term] for occurrence in occurrences))
    start = _find_best_start(matches)
    return Excerpt(_cut_around(line, start), matched, _find_offset(content, matches, start))


def _find_offset(content: str, matches: Sequence[_Occurrence], start: int) -> int:
    """Return where a match in the plain line of a passage is in the passage, or 0.

    The plain line lacks Markdown and line breaks, so the occurrences of the term are counted.
    """
    term = next((match.term for match in matches if match.start == start), None)
    if term is None:
        return 0
    number = sum(match.term == term and match.start < start for match in matches)
    offsets = [match.start for match in _find_matches(content, {term})]
    return offsets[number] if number < len(offsets) else 0


def _find_matches(line: str, query_terms: Collection[str]) -> list[_Occurrence]:
    """Return the occurrences of the query's terms in a line."""
    matches = {
        _Occurrence(*occurrence)
        for occurrence in (*find_occurrences(line), *find_variant_occurrences(line))
        if occurrence[0] in query_terms
    }
    return sorted(matches, key=lambda match: (match.start, match.end, match.term))


def _cut_around(line: str, match_start: int) -> str:
    if match_start <= MAX_LEAD or len(line) <= SNIPPET_LENGTH:
        return truncate(line, SNIPPET_LENGTH)
    earliest = min(match_start - MAX_LEAD, len(line) - SNIPPET_LENGTH + 1)
    start = _find_word_start(line, earliest, match_start)
    return "…" + truncate(line[start:], SNIPPET_LENGTH - 1)


def _find_best_start(matches: Sequence[_Occurrence]) -> int:
    """Return the start of the match that an excerpt should begin with.

    From there, the excerpt contains the largest number of different terms. Without matches, the
    result is 0. A window slides over the matches. It grows at its end and shrinks at its start, so
    the search takes linear time.
    """
    best_start = max_terms = next_match = 0
    term_counts: Counter[str] = Counter()
    for number, first in enumerate(matches):
        limit = first.start + SNIPPET_LENGTH - MAX_LEAD - _MARGIN
        while next_match < len(matches) and (
            next_match <= number or matches[next_match].end <= limit
        ):
            term_counts[matches[next_match].term] += 1
            next_match += 1
        if len(term_counts) > max_terms:
            best_start = first.start
            max_terms = len(term_counts)
        term_counts[first.term] -= 1
        if not term_counts[first.term]:
            del term_counts[first.term]
    return best_start


def _find_word_start(line: str, index: int, match_start: int) -> int:
    """Return the first start of a word from `index` on, up to the match.

    If no word starts there, because the word is very long, return the start of a grapheme cluster.
    """
    space = line.find(" ", index - 1, match_start)
    if space >= 0:
        return space + 1
    # The end of one cluster is the start of the next.
    return next(end for end in find_grapheme_ends(line) if end >= index)
