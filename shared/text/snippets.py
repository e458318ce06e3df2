"""Snippets: the first words of a passage, by which a reader recognizes it."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


LENGTH: Final = 280
"""The maximum length of a snippet, in characters."""
LEAD: Final = 60
"""The maximum number of characters before the first match in a snippet.

Longer words, which occur only in scripts without spaces and in garbage, are cut between characters.
"""


def snippet(content: str) -> str:
    """Return the beginning of a passage on one line, cut between words; `…` marks the cut."""
    return truncate(" ".join(content.split()), LENGTH)


def truncate(line: str, length: int) -> str:
    """Cut a line between words to at most `length` characters, including the `…` for the cut."""
    if len(line) <= length:
        return line
    cut = line[:length].rpartition(" ")[0]
    if len(cut) < length - LEAD:
        ends = takewhile(lambda end: end < length, character_ends(line))
        cut = line[: max(ends, default=length - 1)]
    return cut.rstrip(" ,;:.") + "…"


def character_ends(line: str) -> Iterator[int]:
    """Yield where each grapheme cluster ends, so that accents and joined emoji are not cut."""
    import regex

    return (match.end() for match in regex.finditer(r"\X", line))
