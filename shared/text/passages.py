"""Splits a document into passages: its paragraphs, or pieces of paragraphs that are too long.

Paragraphs are separated by blank lines. A Markdown heading belongs to the passage below it, since
a heading alone is of no use. A paragraph that is too long is split between two tokens
(`shared.text.boundaries`): each piece is filled as far as possible and ends after a sentence, else
after a line (tables, code), else after a word, else between two grapheme clusters. A piece is at
least a fifth full; the last piece is, too, where possible.

Unlike chunks (`shared.text.chunking`), passages are measured in characters, never overlap and never
join two paragraphs, because they are quoted verbatim.

Only paragraphs that are too long are scanned for boundaries. Two million characters of prose took
10 ms in paragraphs of 800 characters and 0.9 s in a single line; short Chinese sentences took 3 s
(one core of a small virtual machine).
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
"""The version of the splitter. If it changes, half-indexed documents are indexed from the start."""

# The line ends are those of str.splitlines.
_LINE_END: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
# The quantifiers are possessive, because otherwise a single \r\n would match as a blank line.
_BLANK_LINES: Final = re.compile(
    rf"[{_LINE_END}](?:(?<=\r)\n)?+[^\S{_LINE_END}]*+[{_LINE_END}]\s*+"
)

_HEADING: Final = re.compile(rf"#{{1,6}}[ \t][^{_LINE_END}]*+")

# Control characters other than white space, soft hyphens, lone surrogates, and characters that are
# invisible or only change the direction of text (zero-width space, word joiner, byte order mark,
# bidirectional controls). Joiners and variation selectors are missing, because scripts and emoji
# need them.
_INVISIBLE: Final = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufeff\ud800-\udfff]+"
)


def split_passages(text: str, max_length: int = 1500) -> list[Span]:
    """Split a text into passages, in order.

    Together the spans cover everything but white space. They do not overlap, and none starts or
    ends with white space. Words of up to four fifths of `max_length` are not split, except between
    sentences in scripts without spaces; neither are grapheme clusters of up to `MAX_TOKEN` code
    points.

    Args:
        max_length: The maximum length of a passage, in code points.

    Returns:
        The spans of the passages; none if the text is only white space.

    Raises:
        ValueError: `max_length` is less than the maximum length of a token.
    """
    if max_length < MAX_TOKEN:
        raise ValueError(f"max_length must be at least {MAX_TOKEN}; got {max_length}")
    spans: list[Span] = []
    for paragraph in _attach_headings(text, max_length):
        if paragraph.end - paragraph.start <= max_length:
            spans.append(paragraph)
        else:
            spans += _split_paragraph(text, paragraph, max_length)
    return spans


def normalize_line(text: str) -> str:
    """Put a text on one line without invisible characters, to compare, embed and index it.

    White space is stripped from both ends, and runs of it within the text become one space. Control
    characters, invisible characters that no script needs, and lone surrogates are removed. The
    result may be empty.
    """
    return " ".join(_INVISIBLE.sub("", text).split())


def _split_paragraphs(text: str) -> Iterator[Span]:
    """Yield the spans of the paragraphs, which blank lines separate."""
    start = 0
    for blank in _BLANK_LINES.finditer(text):
        yield from _strip_span(text, start, blank.start())
        start = blank.end()
    yield from _strip_span(text, start, len(text))


def _attach_headings(text: str, max_length: int) -> Iterator[Span]:
    """Yield the paragraphs, each together with the headings above it if they fit."""
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


def _strip_span(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the span without white space at both ends, or nothing if it contains nothing else."""
    remaining_text = text[start:end].lstrip()
    if remaining_text:
        start = end - len(remaining_text)
        yield Span(start, start + len(remaining_text.rstrip()))


def _split_paragraph(text: str, paragraph: Span, max_length: int) -> Iterator[Span]:
    """Yield the spans of the pieces of a paragraph that is too long."""
    boundaries = find_boundaries(text[paragraph.start : paragraph.end])
    first_token = 0
    while first_token < len(boundaries.starts):
        end = _find_piece_end(boundaries, first_token, max_length)
        yield Span(
            paragraph.start + boundaries.starts[first_token],
            paragraph.start + boundaries.ends[end - 1],
        )
        first_token = end


def _find_piece_end(boundaries: Boundaries, first_token: int, max_length: int) -> int:
    """Return the number of the token before which a piece ends, by the rules of this module.

    Args:
        first_token: The number of the first token of the piece.
        max_length: The maximum length of the piece, in code points.
    """
    start = boundaries.starts[first_token]
    total = boundaries.ends[-1]
    min_length = max_length // 5
    if total - start <= max_length:
        return len(boundaries.starts)
    min_end = bisect_left(boundaries.starts, start + min_length, first_token + 1)
    max_end = bisect_right(boundaries.ends, start + max_length, first_token)
    # A piece that ends at `balanced_end` or before leaves at least a fifth for the last piece.
    balanced_end = min(
        max_end, bisect_right(boundaries.starts, total - min_length, first_token) - 1
    )
    for level in (SENTENCE, LINE, WORD, CLUSTER):
        # A better boundary counts for more than a long last piece.
        for end_limit in (balanced_end, max_end):
            end = boundaries.find_last(level, min_end, end_limit)
            if end >= 0:
                return end
    return max_end
