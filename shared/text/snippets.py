"""Snippets: the opening words of a passage, enough to recognize it by."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from shared.text.markup import to_plain_line

if TYPE_CHECKING:
    from collections.abc import Iterator


SNIPPET_LENGTH: Final = 280
"""A snippet has at most this many characters: about two sentences."""
NEAR_LENGTH: Final = 80
"""The maximum number of characters in a snippet of a text that is merely near the query."""
_MAX_WHOLE_WORD: Final = 60
"""A word of up to this many characters is omitted as a whole where a line is cut. Longer words,
which occur only in scripts without spaces and in garbage, are cut between characters."""


def make_snippet(content: str, length: int = SNIPPET_LENGTH) -> str:
    """Return the beginning of a passage on one line, without Markdown and cut between words.

    `…` marks the cut.
    """
    return truncate(to_plain_line(content), length)


def truncate(line: str, length: int) -> str:
    """Cut a line between words to at most `length` characters, including the `…` for the cut.

    Punctuation before the cut is dropped.
    """
    if len(line) <= length:
        return line
    beginning = line[:length].rpartition(" ")[0]
    if len(beginning) < max(1, length - _MAX_WHOLE_WORD):
        # The last word is too long to leave out, so it is cut between characters.
        ends = takewhile(lambda end: end < length, find_grapheme_ends(line))
        # If even the first grapheme cluster is too long, it is cut, too.
        beginning = line[: max(ends, default=length - 1)]
    return beginning.rstrip(" ,;:.") + "…"


def find_grapheme_ends(line: str) -> Iterator[int]:
    """Yield where each grapheme cluster ends, so that accents and joined emoji are not cut."""
    import regex  # imported late, because most lines are cut at a space

    return (match.end() for match in regex.finditer(r"\X", line))
