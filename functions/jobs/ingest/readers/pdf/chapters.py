"""Finds the lines at which the chapters in a PDF's outline begin."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_alphanumerics, to_headline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_LINES: Final = 3
"""A title on more lines is not found."""
_NUMBER: Final = re.compile(r"(?:chapter)?\d{0,6}|chapter[ivxlc]{1,8}")
"""The letters and digits that may precede a title on the page, such as those of `Chapter 3`."""
_SENTENCE_ENDS: Final = (".", ",", ";", ":")


def find_chapters(
    outline: Iterable[tuple[str, int]], pages: Sequence[Sequence[str]]
) -> list[dict[int, str]]:
    """Return the chapter titles of each page, by the index of the line at which they begin.

    An outline names only pages. A title that is not found in the text of its page begins where the
    title before it on this page does, or else at the top. If another title begins there, it begins
    after the last line of the page.

    Args:
        outline: The titles in order, each with the number of its page, from 1.
    """
    titles_by_page: dict[int, list[str]] = defaultdict(list)
    for name, number in outline:
        if title := to_headline(name):
            titles_by_page[number].append(title)
    return [
        _place_titles(titles_by_page.get(number, ()), lines)
        for number, lines in enumerate(pages, start=1)
    ]


def _place_titles(titles: Sequence[str], lines: Sequence[str]) -> dict[int, str]:
    """Return the titles on a page by the line at which they begin, as `find_chapters` does."""
    placed: dict[int, str] = {}
    title_after_page: str | None = None
    start = 0
    for title in titles:
        index = _find_line(title, lines, start)
        if index is None and placed:
            title_after_page = title
        else:
            start = index or 0
            placed[start] = title
            title_after_page = None
    return placed | ({len(lines): title_after_page} if title_after_page else {})


def _find_line(title: str, lines: Sequence[str], start: int) -> int | None:
    """Return the index, from `start`, of the line at which a title begins; None if not found.

    A heading with exactly the words of the title precedes one with a number or in capitals.
    """
    for is_heading in (str.__eq__, _is_heading):
        for line_count in range(1, _MAX_LINES + 1):
            for index in range(start, len(lines)):
                text = " ".join(lines[index : index + line_count])
                if lines[index] and is_heading(text, title):
                    return index
    return None


def _is_heading(text: str, title: str) -> bool:
    """Return whether a text is a title, apart from its number, its spaces and its capitals.

    Fonts and outlines differ in those. The end of a sentence is not a heading.
    """
    alphanumeric_text, alphanumeric_title = to_alphanumerics(text), to_alphanumerics(title)
    if not alphanumeric_title or not alphanumeric_text.endswith(alphanumeric_title):
        return False
    ends_sentence = text.endswith(_SENTENCE_ENDS) and not title.endswith(_SENTENCE_ENDS)
    is_inside_sentence = text[0].islower() and not title[0].islower()
    number = alphanumeric_text.removesuffix(alphanumeric_title)
    return not (ends_sentence or is_inside_sentence) and bool(_NUMBER.fullmatch(number))
