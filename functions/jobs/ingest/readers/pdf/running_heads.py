"""Removes the running heads and page numbers of a PDF, which interrupt its sentences.

They are recognized by their repetition at the edges of pages. Titles that merely resemble them are
kept: the title of a few slides, `Exercise 3`, the year 1914.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_EDGE_LINES: Final = 2
"""Only this many lines at the top and at the bottom of a page can be running heads or page
numbers."""
_MAX_LENGTH: Final = 200
"""A line with more characters than this is text."""
_MIN_REPEATS: Final = 3
"""A running head appears on at least this many pages and on more than half of the pages in its
sequence (`_PAGE_SEQUENCES`), or else in a long enough run (`_MIN_RUN`)."""
_MIN_RUN: Final = 5
"""A running head on fewer pages, such as a chapter title, appears on at least this many consecutive
pages of its sequence."""
_PAGE_SEQUENCES: Final = ((0, 1), (0, 2), (1, 2))
"""The first index and the stride of all pages, of right-hand pages and of left-hand pages. Facing
pages may have different heads."""
_YEAR_OFFSETS: Final = range(1000, 2100)
"""If a number exceeds its page index by an amount in this range, it may be a year."""
_MIN_WORDS: Final = 2
"""A line with a number and fewer words than this may be a heading or a date, such as `Exercise 3`
or `3 May`."""
_NUMBER: Final = (
    r"(?P<label>(?:page|p\.|seite|s\.|p[áa]gina|p[áa]g\.|стр\.)\s*)?(?P<number>\d{1,5})"
    r"(?P<total>\s*(?:of|von|de|di|sur|из|/)\s*\d{1,5})?"
)
_DASH: Final = "[-–—]"  # noqa: RUF001 - dashes
_SEPARATOR: Final = rf"(?:\s*(?P<bar>[|·•])\s*|\s+(?P<dash>{_DASH})\s+|\s+)"
"""What separates a running head from its page number."""
_PAGE_NUMBER: Final = re.compile(rf"(?:{_DASH}\s*)?{_NUMBER}(?:\s*{_DASH})?", re.IGNORECASE)
_NUMBERED_HEADS: Final = (
    re.compile(rf"{_NUMBER}{_SEPARATOR}(?P<text>.+)", re.IGNORECASE),
    re.compile(rf"(?P<text>.+?){_SEPARATOR}{_NUMBER}", re.IGNORECASE),
)
_WORD: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class _RunningHead:
    """The properties of a running head or a page number that are the same on all of its pages.

    Attributes:
        text: The text without the page number; "" for a page number alone.
        edge: 1 at the top of pages, -1 at the bottom. 0 for a page number alone, which often moves
            to the other edge on the first page of a chapter.
        offset: The page number minus the page index; None without a page number.
        is_ambiguous: Whether the number may be part of a heading, such as `Exercise 3`.
    """

    text: str
    edge: int
    offset: int | None = None
    is_ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """The indexes of the pages on which a running head appears.

    Attributes:
        first: The first page of each series. The running head is kept there.
        repeated: The other pages.
    """

    first: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()


def remove_running_heads(pages: Sequence[list[str]]) -> list[list[str]]:
    """Remove running heads and page numbers.

    Keep the first occurrence of each running head, without its page number.

    Returns:
        The remaining lines of each page.
    """
    heads = _find_running_heads(pages)
    return [
        _trim(_trim(lines, 1, index, heads), -1, index, heads) for index, lines in enumerate(pages)
    ]


def _find_running_heads(pages: Sequence[list[str]]) -> dict[_RunningHead, _Occurrences]:
    """Find the running heads and page numbers that repeat often enough, and their pages."""
    indexes_by_head: dict[_RunningHead, list[int]] = defaultdict(list)
    for index, lines in enumerate(pages):
        for head in _find_candidates(lines, index):
            indexes_by_head[head].append(index)
    numbered_pages_by_offset = {
        head.offset: set().union(*_find_series(head, indexes, len(pages)))
        for head, indexes in indexes_by_head.items()
        if not head.text
    }
    heads = {}
    for head, indexes in indexes_by_head.items():
        all_series = list(_find_series(head, indexes, len(pages)))
        if head.text and head.offset is not None and not head.is_ambiguous:
            # The head of a short chapter is rare, but the page numbers next to it continue the
            # numbers of other chapters.
            numbered_pages = numbered_pages_by_offset[head.offset]
            numbered = [index for index in indexes if index in numbered_pages]
            if len(numbered) > 1:
                all_series.append(numbered)
        if all_series:
            repeated = {index for series in all_series for index in series[1:]}
            first = {series[0] for series in all_series} - repeated
            heads[head] = _Occurrences(frozenset(first), frozenset(repeated))
    return heads


def _find_candidates(lines: list[str], index: int) -> set[_RunningHead]:
    """Return the possible running heads and page numbers of a page.

    No page states its number twice: if page 3 has its number alone on a line, the number in
    `Exercise 3` is not the page number.
    """
    candidates = {
        head
        for edge in (1, -1)
        for line in [line for line in lines[::edge] if line][:_EDGE_LINES]
        for head in _parse_line(line, edge, index)
    }
    lone_offsets = {head.offset for head in candidates if not head.text}
    heads = {head for head in candidates if not head.text or head.offset not in lone_offsets}
    offsets = {head.offset for head in heads if not head.is_ambiguous} - {None}
    return heads | {_RunningHead("", 0, offset) for offset in offsets}


def _parse_line(line: str, edge: int, index: int) -> Iterator[_RunningHead]:
    """Yield the possible readings of a line: a page number, or a head with or without a number.

    The page number is the whole line, or the first or the last number in the line: `- 3 -`,
    `12 Sails`, `Sails | Page 3 of 90`.
    """
    if len(line) > _MAX_LENGTH:
        return
    if match := _PAGE_NUMBER.fullmatch(line):
        if not _may_be_year(match, index):
            yield _RunningHead("", 0, int(match["number"]) - index)
        return
    yield _RunningHead(line, edge)
    for pattern in _NUMBERED_HEADS:
        match = pattern.fullmatch(line)
        words = _WORD.findall(match["text"]) if match else []
        if match and words and not _may_be_year(match, index):
            cues = (match["label"], match["total"], match["bar"], match["dash"])
            is_ambiguous = len(words) < _MIN_WORDS and not any(cues)
            yield _RunningHead(match["text"], edge, int(match["number"]) - index, is_ambiguous)


def _may_be_year(match: re.Match[str], index: int) -> bool:
    return not match["label"] and int(match["number"]) - index in _YEAR_OFFSETS


def _find_series(
    head: _RunningHead, indexes: Sequence[int], page_count: int
) -> Iterator[Sequence[int]]:
    """Yield each series of pages on which a line repeats often enough to be a running head.

    An ambiguous line must be on left-hand pages only, or on right-hand pages only. Its numbers then
    rise by two, unlike the numbers of exercises.

    Args:
        indexes: The pages on which the line occurs.
    """
    for start, stride in _PAGE_SEQUENCES:
        sequence = range(start, page_count, stride)
        present = [index for index in indexes if index in sequence]
        if head.is_ambiguous and (stride == 1 or len(present) < len(indexes)):
            continue
        if len(present) >= _MIN_REPEATS and 2 * len(present) > len(sequence):
            yield present
        else:
            yield from (run for run in _split_runs(present, stride) if len(run) >= _MIN_RUN)


def _split_runs(indexes: Sequence[int], stride: int) -> list[list[int]]:
    """Split ascending indexes at gaps larger than `stride`."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][-1] + stride:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _trim(
    lines: list[str], edge: int, index: int, heads: Mapping[_RunningHead, _Occurrences]
) -> list[str]:
    """Remove the running heads at the top (`edge` 1) or the bottom (-1) of a page."""
    rest = lines[::edge]
    kept: list[str] = []
    for _ in range(_EDGE_LINES):
        position = next((position for position, line in enumerate(rest) if line), None)
        if position is None:
            break
        candidates = [head for head in _parse_line(rest[position], edge, index) if head in heads]
        if not any(index in heads[head].repeated for head in candidates):
            texts = [head.text for head in candidates if index in heads[head].first]
            if not texts:
                break
            if texts[0]:
                kept.append(texts[0])
        rest = rest[position + 1 :]
    return [*kept, *rest][::edge]
