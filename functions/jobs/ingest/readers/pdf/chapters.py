"""Finds the lines at which the chapters in a PDF's outline begin."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_headline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_LINES: Final = 3
"""A title on more lines is not found."""
_MAX_NUMBER: Final = 8
"""The maximum number of letters and digits before a title on the page, such as `Chapter 3`."""


def find_chapters(
    outline: Iterable[tuple[str, int]], pages: Sequence[Sequence[str]]
) -> list[dict[int, str]]:
    """Return the chapter titles of each page, by the index of the line at which they begin.

    An outline names only pages. A title that is not found in the text of its page begins where the
    title before it on this page does, or else at the top.

    Args:
        outline: The titles in order, each with the number of its page, from 1.
        pages: The lines of each page.
    """
    titles_by_page: dict[int, list[str]] = defaultdict(list)
    for name, number in outline:
        if title := to_headline(name):
            titles_by_page[number].append(title)
    chapters: list[dict[int, str]] = []
    for number, lines in enumerate(pages, start=1):
        chapters.append({})
        start = 0
        for title in titles_by_page.get(number, ()):
            start = _find_line(title, lines, start)
            chapters[-1][start] = title
    return chapters


def _find_line(title: str, lines: Sequence[str], start: int) -> int:
    """Return the index, from `start`, of the line at which a title begins; or else `start`."""
    alphanumeric_title = _to_alphanumerics(title)
    max_length = len(alphanumeric_title) + _MAX_NUMBER
    alphanumeric_lines = [_to_alphanumerics(line) for line in lines]
    for line_count in range(1, _MAX_LINES + 1) if alphanumeric_title else ():
        for index in range(start, len(lines)):
            text = "".join(alphanumeric_lines[index : index + line_count])
            if text.endswith(alphanumeric_title) and len(text) <= max_length:
                return index
    return start


def _to_alphanumerics(text: str) -> str:
    """Reduce a text to its letters and digits, because fonts and outlines differ in the rest."""
    return "".join(filter(str.isalnum, text.casefold()))
