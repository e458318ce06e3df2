"""Cutting a document into passages: its paragraphs, and pieces of those that are too long.

Paragraphs are separated by blank lines. A Markdown heading goes with the text below it, since it
is of no use on its own. A paragraph that is too long is cut between two tokens
(`shared.text.boundaries`): each piece is filled and ends after a sentence, else after a line
(tables, code), else after a word, else between two grapheme clusters. A piece is at least a fifth
full, and so is the last one where possible.

Passages differ from chunks (`shared.text.chunking`) in that they count characters, never overlap
and never join two paragraphs: they are quoted verbatim.

Two million characters of prose took 10 ms in paragraphs of 800 and 0.9 s in a single line; short
Chinese sentences took 3 s (one core of a small virtual machine). Only paragraphs that are too long
are scanned for boundaries.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from shared.text.boundaries import CLUSTER, LINE, SENTENCE, WORD, Boundaries, find_boundaries
from shared.text.spans import Span
from shared.text.tokens import MAX_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

SPLITTER_VERSION: Final = 1
"""The version of the splitter. A change makes half-indexed documents start again."""

# The line ends of str.splitlines.
_LINE_END: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# Possessive: otherwise \r\n alone would pass for a blank line.
_BLANK_LINES: Final = re.compile(
    rf"[{_LINE_END}](?:(?<=\r)\n)?+[^\S{_LINE_END}]*+[{_LINE_END}]\s*+"
)

_HEADING: Final = re.compile(rf"#{{1,6}}[ \t][^{_LINE_END}]*+")

# Control characters other than white space, soft hyphens, characters that only hide or turn text
# (zero-width space, word joiner, byte order mark, bidirectional controls), lone surrogates. Joiners
# and variation selectors stay: scripts and emoji need them.
_INVISIBLE: Final = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufeff\ud800-\udfff]+"
)


def split_passages(text: str, max_length: int = 1500) -> list[Span]:
    """Cut a text into passages, in order. A text of only white space has none.

    Together the spans cover everything but white space; none overlap, and none starts or ends on
    white space. No word of up to four fifths of `max_length` is cut, except between sentences in
    scripts without spaces, nor any grapheme cluster of up to `MAX_TOKEN` code points.

    Args:
        text: The text, in any language.
        max_length: How many code points a passage may have.

    Raises:
        ValueError: A passage could not hold a token.
    """
    if max_length < MAX_TOKEN:
        raise ValueError(f"a passage must be able to hold {MAX_TOKEN} characters; got {max_length}")
    spans: list[Span] = []
    for paragraph in _attach_headings(text, max_length):
        if paragraph.end - paragraph.start <= max_length:
            spans.append(paragraph)
        else:
            spans += _split_paragraph(text, paragraph, max_length)
    return spans


def normalize_line(text: str) -> str:
    """Put a text on one line without invisible characters, to compare, embed and index it.

    Every run of white space becomes one space; there is none at either end. Control characters,
    invisible characters that no script needs, and lone surrogates are removed. The result may be
    empty.
    """
    return " ".join(_INVISIBLE.sub("", text).split())


def _split_paragraphs(text: str) -> Iterator[Span]:
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        yield from _strip(text, start, blank.start())
        start = blank.end()
    yield from _strip(text, start, len(text))


def _attach_headings(text: str, max_length: int) -> Iterator[Span]:
    """Yield the paragraphs, each with the headings above it if they fit."""
    heading: Span | None = None
    for paragraph in _split_paragraphs(text):
        section = paragraph
        if heading and paragraph.end - heading.start <= max_length:
            section = Span(heading.start, paragraph.end)
        elif heading:
            yield heading
        if _HEADING.fullmatch(text, paragraph.start, paragraph.end):
            heading = section
        else:
            heading = None
            yield section
    if heading:
        yield heading


def _strip(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield a span without the white space at its ends, or nothing if only white space is left."""
    remaining_text = text[start:end].lstrip()
    if remaining_text:
        start = end - len(remaining_text)
        yield Span(start, start + len(remaining_text.rstrip()))


def _split_paragraph(text: str, paragraph: Span, max_length: int) -> Iterator[Span]:
    boundaries = find_boundaries(text[paragraph.start : paragraph.end])
    first_sentence = 0
    while first_sentence < len(boundaries.starts):
        end = _find_piece_end(boundaries, first_sentence, max_length)
        yield Span(
            paragraph.start + boundaries.starts[first_sentence],
            paragraph.start + boundaries.ends[end - 1],
        )
        first_sentence = end


def _find_piece_end(boundaries: Boundaries, first_sentence: int, max_length: int) -> int:
    """Find the boundary at which the piece that begins with `first_sentence` ends."""
    start = boundaries.starts[first_sentence]
    total = boundaries.ends[-1]
    min_length = max_length // 5
    if total - start <= max_length:
        return len(boundaries.starts)
    min_end = bisect_left(boundaries.starts, start + min_length, first_sentence + 1)
    max_end = bisect_right(boundaries.ends, start + max_length, first_sentence)
    # A piece that ends by `balanced` leaves at least a fifth of a passage for the last one.
    balanced_end = min(
        max_end, bisect_right(boundaries.starts, total - min_length, first_sentence) - 1
    )
    for level in (SENTENCE, LINE, WORD, CLUSTER):
        for end_limit in (balanced_end, max_end):
            end = boundaries.find_last(level, min_end, end_limit)
            if end >= 0:
                return end
    return max_end
