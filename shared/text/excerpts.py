"""Excerpts: the parts of a passage that match a query best.

A passage and a query are compared by their terms (`shared.text.terms`), which are words in a form
that ignores case and inflection. The passages of an answer share a number of characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from shared.text.entries import find_entries
from shared.text.markup import to_plain_line, to_plain_text
from shared.text.snippets import truncate
from shared.text.spans import Span
from shared.text.terms import MAX_TERM, find_occurrences, find_variant_occurrences

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

TOTAL_LENGTH: Final = 2_500
"""The passages of an answer share this many characters."""
MIN_LENGTH: Final = 310
"""Each passage may have this many characters, even if all together then have more."""
# To the end of a sentence or a line, else between two words, else within a word.
_PIECE: Final = re.compile(
    r"\S.{0,58}?(?:(?<!\d)[.!?]+[\"'»”)]*(?=\s)|[。\uff01\uff1f]|(?<=\S)$)|\S.{0,58}\S(?=\s)|\S.{0,59}",
    re.MULTILINE,
)
"""A piece of an excerpt: a line, a sentence, or a part of a long one. In logs and lists, a whole
entry is a piece; see `_split_into_pieces`."""
_MARK: Final = "…"
_MARK_LENGTH: Final = 3
"""The length of a mark in the middle of an excerpt, with the white space around it."""
_MARKS_LENGTH: Final = 2
"""The length of the marks at both ends of an excerpt."""
_LINK: Final = "]("
"""Every text with a Markdown link that has an address contains this."""
_EMPTY_LINES: Final = re.compile(r"\n\s*\n")


class _Occurrence(NamedTuple):
    """A term, and the start and the end of its word in a text."""

    term: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The parts of a passage that match a query best.

    Attributes:
        text: The excerpt without Markdown, with its lines. `…` marks omissions.
        matched: The matching words of the whole passage, in order and without repetitions, each as
            the passage first spells it.
        offset: Where the first matching word of the excerpt is in the passage, or 0 if none is.
    """

    text: str
    matched: list[str]
    offset: int = 0


def share_excerpts(contents: Sequence[str], query_terms: Collection[str]) -> list[Excerpt]:
    """Find an excerpt of each passage. They share TOTAL_LENGTH, and the first get most of it."""
    available = TOTAL_LENGTH
    reserved = sum(min(len(content), MIN_LENGTH) for content in contents)
    excerpts: list[Excerpt] = []
    for content in contents:
        reserved -= min(len(content), MIN_LENGTH)
        length = max(MIN_LENGTH, available - reserved)
        excerpts.append(find_excerpt(content, query_terms, length))
        available -= len(excerpts[-1].text)
    return excerpts


def find_excerpt(content: str, query_terms: Collection[str], length: int = MIN_LENGTH) -> Excerpt:
    """Find the parts of a passage that together have the most terms of a query."""
    text = _EMPTY_LINES.sub("\n", to_plain_text(content)).strip() or to_plain_line(content)
    matches = _find_matches(text, query_terms)
    # The address of a link, which the plain text omits, may match, too.
    matched = find_matching_words(content if _LINK in content else text, query_terms)
    if len(text) <= length:
        return Excerpt(text, matched, _find_offset(content, matches, matches[:1]))
    pieces = list(_split_into_pieces(text, matches, length))
    starts = [piece.start for piece in pieces]
    matches_by_piece: list[list[_Occurrence]] = [[] for _ in pieces]
    for match in matches:
        matches_by_piece[bisect_right(starts, match.start) - 1].append(match)
    chosen = _choose_pieces(pieces, matches_by_piece, length)
    in_excerpt = [match for number in chosen for match in matches_by_piece[number]]
    offset = _find_offset(content, matches, in_excerpt[:1])
    return Excerpt(_join_pieces(text, pieces, chosen), matched, offset)


def _split_into_pieces(text: str, matches: Sequence[_Occurrence], length: int) -> Iterator[Span]:
    """Yield the pieces that an excerpt of at most this length can consist of.

    A log or list entry is one piece if it is short, or if it contains a match and fits.
    """
    starts = [0, *find_entries(text)]
    for start, end in pairwise([*starts, len(text)]):
        size = len(text[start:end].rstrip())
        has_match = any(start <= match.start < end for match in matches)
        maximum = length - _MARKS_LENGTH - _MARK_LENGTH if has_match else length // 3
        if len(starts) > 1 and size <= maximum:
            yield Span(start, start + size)
        else:
            yield from (Span(*piece.span()) for piece in _PIECE.finditer(text, start, end))


def find_matching_words(text: str, query_terms: Collection[str]) -> list[str]:
    """Return the words of a text that match, in order, each as it is first spelled."""
    occurrences = _find_matches(text, query_terms)
    # In reverse, so that the first spelling of each term is the one that remains.
    words = {
        occurrence.term: truncate(text[occurrence.start : occurrence.end], MAX_TERM)
        for occurrence in reversed(occurrences)
    }
    return list(dict.fromkeys(words[occurrence.term] for occurrence in occurrences))


def _find_offset(content: str, matches: Sequence[_Occurrence], first: Sequence[_Occurrence]) -> int:
    """Return where a match in the plain text of a passage is in the passage, or 0.

    The plain text lacks Markdown, so the occurrences of the term are counted.
    """
    for term, start, _ in first:
        number = sum(match.term == term and match.start < start for match in matches)
        offsets = [match.start for match in _find_matches(content, {term})]
        return offsets[number] if number < len(offsets) else 0
    return 0


def _find_matches(text: str, query_terms: Collection[str]) -> list[_Occurrence]:
    """Return the occurrences of the query's terms in a text."""
    matches = {
        _Occurrence(*occurrence)
        for occurrence in (*find_occurrences(text), *find_variant_occurrences(text))
        if occurrence[0] in query_terms
    }
    return sorted(matches, key=lambda match: (match.start, match.end, match.term))


def _choose_pieces(
    pieces: Sequence[Span], matches: Sequence[Sequence[_Occurrence]], length: int
) -> list[int]:
    """Return the numbers of the pieces for an excerpt, in order.

    First come those with the most terms that the others lack, then their neighbours.
    """
    terms = [{match.term for match in in_piece} for in_piece in matches]
    numbers = range(len(pieces))
    missing: set[str] = set().union(*terms)
    candidates: list[int] = []
    while missing:
        best = max(numbers, key=lambda number: (len(terms[number] & missing), -number))
        missing -= terms[best]
        candidates.append(best)
    available = length - _MARKS_LENGTH
    chosen: set[int] = set()
    candidates = candidates or [0]
    for number in candidates:  # grows by the neighbours of those that fit
        needed = pieces[number].end - pieces[number].start + _MARK_LENGTH
        if number not in chosen and needed <= available:
            available -= needed
            chosen.add(number)
            candidates += [near for near in (number + 1, number - 1) if near in numbers]
    return sorted(chosen)


def _join_pieces(text: str, pieces: Sequence[Span], chosen: Sequence[int]) -> str:
    """Join pieces with the white space between them, or a mark where others are left out."""
    parts = [] if chosen[0] == 0 else [_MARK]
    previous = None
    for number in chosen:
        piece = pieces[number]
        if previous is not None:
            between = text[pieces[previous].end : piece.start]
            if number > previous + 1:
                between = f"\n{_MARK}\n" if "\n" in between else f" {_MARK} "
            parts.append(between)
        parts.append(text[piece.start : piece.end])
        previous = number
    return "".join(parts) + ("" if chosen[-1] == len(pieces) - 1 else _MARK)
