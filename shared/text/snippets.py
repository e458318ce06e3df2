"""How a passage begins: a few words to recognise it by."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


LENGTH: Final = 280
"""Characters of a snippet, at most."""


LEAD: Final = 60
"""Characters between the start of a snippet and what it shows, at most. Words are longer only in
scripts without spaces and in what nobody reads: these are cut, between two characters."""


def snippet(content: str) -> str:
    """How a passage begins, on one line, cut between words; `…` says that it goes on."""
    return truncate(" ".join(content.split()), LENGTH)


def truncate(line: str, length: int) -> str:
    """The beginning of a line, not longer than `length` with the `…` that says that it goes on."""
    if len(line) <= length:
        return line
    cut = line[:length].rpartition(" ")[0]
    if len(cut) < length - LEAD:
        ends = takewhile(lambda end: end < length, character_ends(line))
        cut = line[: max(ends, default=length - 1)]
    return cut.rstrip(" ,;:.") + "…"


def character_ends(line: str) -> Iterator[int]:
    """Where what readers take for one character ends: accents, jamo and joined emoji are kept."""
    import regex

    return (each.end() for each in regex.finditer(r"\X", line))
