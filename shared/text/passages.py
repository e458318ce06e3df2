"""Cut materials into passages: its paragraphs, and pieces of those that are too long for one.

A paragraph is what stands between blank lines; a heading of Markdown goes with what follows, since
alone it answers nothing. One that is too long is cut between two tokens
(`shared.text.chunking`): each piece takes what it can and ends after a sentence, else after a
line (tables, code), else after a word, else between two grapheme clusters. No end that would leave
it less than a fifth full counts, and the last piece is a fifth full too where another end allows.

Two million characters of prose took 10 ms in paragraphs of 800 and 0.9 s in a single line, the same
of short Chinese sentences 3 s (one core of a small virtual machine): only what is too long is
looked at closely.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from shared.text.chunking import CLUSTER, LINE, SENTENCE, WORD, Places, find_places
from shared.text.spans import Span
from shared.text.tokens import MAX_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

CUTTING: Final = 1
"""Raise it when a text is cut otherwise: what is half taken in is then taken in anew."""
_WINDOW: Final = 400
"""Tokens that are searched for sentences at a time: about a long paragraph's worth."""

# Those of str.splitlines.
_LINE_END: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# Possessive: otherwise \r\n alone would pass for a blank line.
_BLANK_LINES: Final = re.compile(
    rf"[{_LINE_END}](?:(?<=\r)\n)?+[^\S{_LINE_END}]*+[{_LINE_END}]\s*+"
)

_HEADING: Final = re.compile(rf"#{{1,6}}[ \t][^{_LINE_END}]*+")

# Controls that are not white space, soft hyphens, what only hides or turns text (zero-width space,
# word joiner, byte order mark, bidirectional controls), lone surrogates. Joiners and variation
# selectors stay: scripts and emoji need them.
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufeff\ud800-\udfff]+"
)


def split_passages(text: str, most: int = 1500) -> list[Span]:
    """Cut a text into passages, in order; a text of white space alone has none.

    Together the spans cover everything but white space; none overlap, and none starts or ends on
    white space. No word of up to four fifths of `most` is cut, except between sentences in scripts
    without spaces, nor any grapheme cluster of up to `MAX_TOKEN` code points.

    Args:
        text: The text, of any language.
        most: How many code points a passage may hold.

    Raises:
        ValueError: A passage could not hold a token.
    """
    if most < MAX_TOKEN:
        raise ValueError(f"a passage must be able to hold {MAX_TOKEN} characters; got {most}")
    spans: list[Span] = []
    for paragraph in _headed(text, most):
        if paragraph.end - paragraph.start <= most:
            spans.append(paragraph)
        else:
            spans += _pieces(text, paragraph, most)
    return spans


def cleaned(text: str) -> str:
    """Give a text as it is compared, embedded and indexed: on one line, nothing unseen in it.

    Every run of white space becomes one space, and none is left at either end. Control characters,
    invisible ones that no script needs, and lone surrogates are gone; nothing may be left.
    """
    return " ".join(_UNSEEN.sub("", text).split())


def _paragraphs(text: str) -> Iterator[Span]:
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        yield from _stripped(text, start, blank.start())
        start = blank.end()
    yield from _stripped(text, start, len(text))


def _headed(text: str, most: int) -> Iterator[Span]:
    """The paragraphs, each with the headings above it if they fit."""
    heading: Span | None = None
    for paragraph in _paragraphs(text):
        whole = paragraph
        if heading and paragraph.end - heading.start <= most:
            whole = Span(heading.start, paragraph.end)
        elif heading:
            yield heading
        if _HEADING.fullmatch(text, paragraph.start, paragraph.end):
            heading = whole
        else:
            heading = None
            yield whole
    if heading:
        yield heading


def _stripped(text: str, start: int, end: int) -> Iterator[Span]:
    """Leave out the white space at both ends, and everything if there is nothing else."""
    rest = text[start:end].lstrip()
    if rest:
        start = end - len(rest)
        yield Span(start, start + len(rest.rstrip()))


def _pieces(text: str, paragraph: Span, most: int) -> Iterator[Span]:
    places = find_places(text[paragraph.start : paragraph.end], _WINDOW)
    first, count = 0, len(places.starts)
    while first < count:
        end = _end(places, first, most)
        yield Span(paragraph.start + places.starts[first], paragraph.start + places.ends[end - 1])
        first = end


def _end(places: Places, first: int, most: int) -> int:
    """Find the place where the piece that starts at the place `first` ends."""
    start, total, least = places.starts[first], places.ends[-1], most // 5
    if total - start <= most:
        return len(places.starts)
    low = bisect_left(places.starts, start + least, first + 1)
    full = bisect_right(places.ends, start + most, first)
    # A piece that ends by here leaves the last one a fifth full.
    fair = min(full, bisect_right(places.starts, total - least, first) - 1)
    for level in (SENTENCE, LINE, WORD, CLUSTER):
        for high in (fair, full):
            end = places.last(level, low, high)
            if end >= 0:
                return end
    return full
