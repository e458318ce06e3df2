"""The sentences of a text, as one reads them aloud: without what is no prose in it.

Code, tables, headings, pictures and bare addresses are passed over. A list's entries are sentences,
without their marks, and so are the lines of a paragraph that is broken by hand, joined.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shared.text.chunking import SENTENCE, find_places
from shared.text.passages import cleaned

if TYPE_CHECKING:
    from collections.abc import Iterator

_WINDOW: Final = 400
"""Tokens that are searched for sentences at a time: about a long paragraph's worth."""
_MOSTLY: Final = 0.7
"""Share of letters in prose, white space aside; in code it is smaller."""

_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_INDENTED: Final = re.compile(r" {4}|\t")
_BREAK: Final = re.compile(r"\s*(?:\||#{1,6}\s|[-=*_]{3,}\s*$|$)")
_ENTRY: Final = re.compile(r"\s*(?:[-*+•‣·]|\d{1,3}[.)])\s+")
_QUOTED: Final = re.compile(r"\s*(?:>\s?)+")
_LINK: Final = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
_ADDRESS: Final = re.compile(r"<?\bhttps?://[^\s>]+>?")
_EMPHASIS: Final = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")


def sentences(text: str) -> list[str]:
    """The sentences, in their order, each on one line."""
    return [line for unit in _units(text) for line in _split(_readable(unit)) if _is_prose(line)]


def _units(text: str) -> Iterator[str]:
    """What no sentence goes beyond: paragraphs, and the entries of lists."""
    unit: list[str] = []
    for line in _lines(text):
        entry = _ENTRY.match(line)
        ends = entry or _BREAK.match(line) or (not unit and _INDENTED.match(line))
        if ends and unit:
            yield " ".join(unit)
            unit = []
        if entry:
            unit.append(line[entry.end() :])
        elif not ends:
            unit.append(line)
    if unit:
        yield " ".join(unit)


def _lines(text: str) -> Iterator[str]:
    """The lines, of code only an empty one, and of quotations without their marks."""
    lines = text.splitlines()
    fences = [_FENCE.match(line) is not None for line in lines]
    whole = sum(fences) % 2 == 0  # else the text is a piece, and which side is code is not known
    in_code = False
    for line, is_fence in zip(lines, fences, strict=True):
        in_code ^= is_fence
        yield "" if is_fence or (in_code and whole) else _QUOTED.sub("", line, count=1)


def _readable(unit: str) -> str:
    """A unit without what only a program reads: links become their words, addresses go."""
    return cleaned(_EMPHASIS.sub("", _ADDRESS.sub("", _LINK.sub(r"\1", unit))))


def _split(unit: str) -> Iterator[str]:
    places = find_places(unit, _WINDOW)
    first = 0
    while first < len(places.starts):
        end = places.first(SENTENCE, first + 1, len(places.starts))
        yield unit[places.starts[first] : places.ends[end - 1]]
        first = end


def _is_prose(line: str) -> bool:
    seen = sum(not character.isspace() for character in line)
    return sum(map(str.isalpha, line)) >= _MOSTLY * seen > 0
