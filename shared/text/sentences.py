"""Splits the prose of a Markdown text into sentences.

Code, tables, headings, lines of tags, titles of callouts, images and bare addresses are skipped.
List items and footnotes are read without their markers and check boxes. A block is a paragraph, a
list item or a footnote. Its lines are joined, and no sentence extends beyond it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shared.text.boundaries import SENTENCE, find_boundaries
from shared.text.folding import normalize_line
from shared.text.markup import (
    CHECK_BOX,
    FOOTNOTE_LABEL,
    LINK_DEFINITION,
    LIST_ITEM,
    QUOTE_MARKS,
    read_lines,
    strip_inline_marks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIN_LETTER_SHARE: Final = 0.7
"""At least this share of the characters of prose, apart from white space, are letters."""

# A row of a table, a heading, the title of a callout, a rule, a line of tags or an empty line.
_BREAK: Final = re.compile(r"\s*(?:\||#{1,6}\s|\[!\w|[-=*_]{3,}\s*$|(?:#[^\s#]+\s*)++$|$)")
# In code, an address is a word of the sentence.
_ADDRESS: Final = re.compile(r"\(https?://[^\s)]+\)|(?<!`)<?\bhttps?://[^\s>]+>?")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text's prose in order, each on one line."""
    return [
        sentence
        for block in _split_into_blocks(text)
        for sentence in _split_block(normalize_line(_ADDRESS.sub("", strip_inline_marks(block))))
        if _is_prose(sentence)
    ]


def _split_into_blocks(text: str) -> Iterator[str]:
    """Yield the text of each block on one line."""
    block: list[str] = []
    for line in _iterate_prose_lines(text):
        marker = LIST_ITEM.match(line) or FOOTNOTE_LABEL.match(line)
        ends_block = marker or _BREAK.match(line) or LINK_DEFINITION.match(line)
        if ends_block and block:
            yield " ".join(block)
            block = []
        if marker:
            block.append(CHECK_BOX.sub("", line[marker.end() :]))
        elif not ends_block:
            block.append(line)
    if block:
        yield " ".join(block)


def _iterate_prose_lines(text: str) -> Iterator[str]:
    """Yield the lines, with lines of code emptied and quotation markers removed."""
    for line, language in read_lines(text):
        yield QUOTE_MARKS.sub("", line) if language is None else ""


def _split_block(block: str) -> Iterator[str]:
    boundaries = find_boundaries(block)
    first_token = 0
    while first_token < len(boundaries.starts):
        end = boundaries.find_first(SENTENCE, first_token + 1, len(boundaries.starts))
        yield block[boundaries.starts[first_token] : boundaries.ends[end - 1]]
        first_token = end


def _is_prose(line: str) -> bool:
    """Return whether a sentence consists mostly of letters, unlike formulas and numbers."""
    visible_count = sum(map(len, line.split()))
    return sum(map(str.isalpha, line)) >= _MIN_LETTER_SHARE * visible_count > 0
