"""Removing the running heads and page numbers of a PDF, which interrupt its sentences.

They are recognized by their repetition at the edges of pages. Titles that only look like them are
text: the title of a few slides, `Exercise 3`, the year 1914.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_EDGE_LINES: Final = 2
"""The lines at the top and at the bottom of a page that may be running heads or page numbers."""
_MAX_LENGTH: Final = 200
"""A longer line is text."""
_MIN_REPEATS: Final = 3
"""A running head is on at least this many pages, and on more than half of all pages."""
_MIN_RUN: Final = 5
"""A running head on fewer pages, such as that of a chapter, is on at least this many in a row."""
_PAGE_SEQUENCES: Final = ((0, 1), (0, 2), (1, 2))
"""The first index and the step of all pages, of right-hand pages and of left-hand pages. Facing
pages may have different heads."""
_YEARS: Final = range(1000, 2100)
"""A number that exceeds the index of its page by this much may be a year."""
_MIN_WORDS: Final = 2
"""A line with a number and fewer words may be a heading, such as `Exercise 3` or `3 May`."""
_NUMBER: Final = (
    r"(?P<label>(?:page|p\.|seite|s\.|p[áa]gina|p[áa]g\.|стр\.)\s*)?(?P<number>\d{1,5})"
    r"(?P<total>\s*(?:of|von|de|di|sur|из|/)\s*\d{1,5})?"
)
_DASH: Final = "[-–—]"  # noqa: RUF001 - dashes
_GAP: Final = rf"(?:\s*(?P<rule>[|·•])\s*|\s+(?P<dash>{_DASH})\s+|\s+)"
_PAGE_NUMBER: Final = re.compile(rf"(?:{_DASH}\s*)?{_NUMBER}(?:\s*{_DASH})?", re.IGNORECASE)
_NUMBERED_HEADS: Final = (
    re.compile(rf"{_NUMBER}{_GAP}(?P<words>.+)", re.IGNORECASE),
    re.compile(rf"(?P<words>.+?){_GAP}{_NUMBER}", re.IGNORECASE),
)
_WORD: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class _RunningHead:
    """What a running head or a page number has in common on all of its pages.

    Attributes:
        words: Its text without the page number; "" of a page number alone.
        step: 1 at the top of pages, -1 at the bottom. 0 for a page number alone, which is often
            at the other edge on the first page of a chapter.
        offset: The page number minus the index of the page; None without a page number.
        is_ambiguous: Whether the number may be part of a heading, such as `Exercise 3`.
    """

    words: str
    step: int
    offset: int | None = None
    is_ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """The indexes of the pages with a running head: the first of each series, and the others."""

    first: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()


def remove_running_heads(pages: Sequence[list[str]]) -> list[list[str]]:
    """Remove page numbers and running heads. The first occurrence of a running head is kept.

    Args:
        pages: The lines of each page.
    """
    heads = _find_running_heads(pages)
    return [
        _trim(_trim(lines, 1, index, heads), -1, index, heads) for index, lines in enumerate(pages)
    ]


def _find_running_heads(pages: Sequence[list[str]]) -> dict[_RunningHead, _Occurrences]:
    indexes_by_head: dict[_RunningHead, list[int]] = defaultdict(list)
    for index, lines in enumerate(pages):
        for head in _find_candidates(lines, index):
            indexes_by_head[head].append(index)
    numbered_pages = {
        head.offset: set().union(*_find_series(head, indexes, len(pages)))
        for head, indexes in indexes_by_head.items()
        if not head.words
    }
    heads = {}
    for head, indexes in indexes_by_head.items():
        series = list(_find_series(head, indexes, len(pages)))
        if head.words and head.offset is not None and not head.is_ambiguous:
            # The page numbers of a short chapter continue those of the other chapters.
            numbered = [index for index in indexes if index in numbered_pages[head.offset]]
            series += [numbered] if len(numbered) > 1 else []
        if series:
            repeated = {index for indexes in series for index in indexes[1:]}
            first = {indexes[0] for indexes in series} - repeated
            heads[head] = _Occurrences(frozenset(first), frozenset(repeated))
    return heads


def _find_candidates(lines: list[str], index: int) -> set[_RunningHead]:
    """Return what the lines at the top and at the bottom of a page may be.

    No page has its number twice. If page 3 has its number alone on a line, the number in
    `Exercise 3` is not that of the page.
    """
    candidates = {
        head
        for step in (1, -1)
        for line in [line for line in lines[::step] if line][:_EDGE_LINES]
        for head in _parse_line(line, step, index)
    }
    numbers = {head.offset for head in candidates if not head.words}
    heads = {head for head in candidates if not head.words or head.offset not in numbers}
    offsets = {head.offset for head in heads if not head.is_ambiguous} - {None}
    return heads | {_RunningHead("", 0, offset) for offset in offsets}


def _parse_line(line: str, step: int, index: int) -> Iterator[_RunningHead]:
    """Yield what a line may be: a page number, or a running head with or without one.

    The page number is the whole line, or the first or the last number in it: `- 3 -`, `12 Sails`,
    `Sails | Page 3 of 90`.
    """
    if len(line) > _MAX_LENGTH:
        return
    if match := _PAGE_NUMBER.fullmatch(line):
        if not _may_be_year(match, index):
            yield _RunningHead("", 0, int(match["number"]) - index)
        return
    yield _RunningHead(line, step)
    for pattern in _NUMBERED_HEADS:
        match = pattern.fullmatch(line)
        words = _WORD.findall(match["words"]) if match else []
        if match and words and not _may_be_year(match, index):
            marks = (match["label"], match["total"], match["rule"], match["dash"])
            is_ambiguous = len(words) < _MIN_WORDS and not any(marks)
            yield _RunningHead(match["words"], step, int(match["number"]) - index, is_ambiguous)


def _may_be_year(match: re.Match[str], index: int) -> bool:
    return not match["label"] and int(match["number"]) - index in _YEARS


def _find_series(
    head: _RunningHead, indexes: Sequence[int], page_count: int
) -> Iterator[Sequence[int]]:
    """Yield the series of pages on which a line is a running head, given those that have it.

    An ambiguous line must be on left-hand pages only, or on right-hand pages only. Its numbers then
    rise by two, unlike those of exercises.
    """
    for start, step in _PAGE_SEQUENCES:
        sequence = range(start, page_count, step)
        present = [index for index in indexes if index in sequence]
        if head.is_ambiguous and (step == 1 or len(present) < len(indexes)):
            continue
        if len(present) >= _MIN_REPEATS and 2 * len(present) > len(sequence):
            yield present
        else:
            yield from (run for run in _split_runs(present, step) if len(run) >= _MIN_RUN)


def _split_runs(indexes: Sequence[int], step: int) -> list[list[int]]:
    """Split rising indexes where they rise by more than a step."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][-1] + step:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _trim(
    lines: list[str], step: int, index: int, heads: Mapping[_RunningHead, _Occurrences]
) -> list[str]:
    """Remove the running heads at the top of a page (step 1), or at the bottom (-1)."""
    rest = lines[::step]
    kept: list[str] = []
    for _ in range(_EDGE_LINES):
        position = next((position for position, line in enumerate(rest) if line), None)
        if position is None:
            break
        candidates = [head for head in _parse_line(rest[position], step, index) if head in heads]
        if not any(index in heads[head].repeated for head in candidates):
            first = [head.words for head in candidates if index in heads[head].first]
            if not first:
                break
            kept += filter(None, first[:1])
        rest = rest[position + 1 :]
    return [*kept, *rest][::step]
