"""Finds the boundaries at which a text may be cut, and rates them.

Text is cut only between two tokens, which are words or parts of words (`shared.text.tokens`). The
boundary before a token has the token's number, from 0, and a level: the higher the level, the
better a piece of text may end there. Chunks, passages and sentences are all cut at these
boundaries. A heading belongs to the text below it, since a heading alone is of no use: the boundary
after it is that of a line.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

from shared.text.language import detect_language
from shared.text.tokens import find_tokens

CLUSTER: Final = 0
"""The level of a boundary within a word, between two grapheme clusters."""
WORD: Final = 1
"""The level of a boundary between two words."""
LINE: Final = 2
"""The level of a boundary between two lines."""
SENTENCE: Final = 3
"""The level of a boundary between two sentences."""
PARAGRAPH: Final = 4
"""The level of a boundary between two paragraphs, and at both ends of the text."""

WINDOW: Final = 400
"""This many tokens are segmented into sentences at a time: about a long paragraph."""

# The segmenter requires a language, and the text's language is unknown. English is what the
# segmenter itself falls back to: it then recognizes the sentence ends of all scripts, and the
# abbreviations that English and German share.
_LANGUAGE: Final = "en"
# sentencex 1.0.32 panics on "A\u00a0.", and on other white space of several bytes in that position.
# `except Exception` does not catch a panic. The library also rejects lone surrogates.
_UNSUPPORTED: Final = re.compile(r"[^\S\n]|[\ud800-\udfff]")
_HEADING: Final = re.compile(r"#{1,6}[ \t]")
_ORDINAL: Final = re.compile(r"(?<![\w.,])\d{1,3}\.\s*\Z")
_GERMAN_MONTH: Final = re.compile(
    r"(?:Jänner|Januar|Feber|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November"
    r"|Dezember)\b"
)


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The boundaries of a text.

    Attributes:
        starts: Where each token starts, in code points.
        ends: Where each token ends, in code points.
        levels: The level of the boundary before each token, and then that of the text's end.
    """

    starts: array[int]
    ends: array[int]
    levels: bytearray

    def find_first(self, level: int, low: int, high: int) -> int:
        """Return the first boundary of at least this level from `low` to `high`, or -1.

        Both limits are included.
        """
        matches = (
            self.levels.find(better, low, high + 1) for better in range(level, PARAGRAPH + 1)
        )
        return min((index for index in matches if index >= 0), default=-1)

    def find_last(self, level: int, low: int, high: int) -> int:
        """Return the last boundary of at least this level from `low` to `high`, or -1.

        Both limits are included.
        """
        return max(
            self.levels.rfind(better, low, high + 1) for better in range(level, PARAGRAPH + 1)
        )


def find_boundaries(text: str, window: int = WINDOW) -> Boundaries:
    """Find all boundaries of a text.

    Args:
        window: How many tokens to segment into sentences at a time. A longer sentence is segmented
            in parts.
    """
    boundaries = _scan(text)
    _mark_sentences(_UNSUPPORTED.sub(" ", text), boundaries, window)
    _attach_headings(text, boundaries)
    return boundaries


def _scan(text: str) -> Boundaries:
    """Find the tokens, and rate the boundaries before them. Sentences are not considered yet."""
    boundaries = Boundaries(array("I"), array("I"), bytearray())
    end = 0
    for start, token_end in find_tokens(text):
        boundaries.levels.append(_classify_gap(text[end:start]) if start > end else CLUSTER)
        boundaries.starts.append(start)
        boundaries.ends.append(token_end)
        end = token_end
    boundaries.levels.append(PARAGRAPH)
    boundaries.levels[0] = PARAGRAPH
    return boundaries


def _classify_gap(gap: str) -> int:
    """Return the level of a boundary, given the white space before it."""
    if gap == " ":
        return WORD
    # The period makes `splitlines` count a line end at the end of the gap, too.
    line_ends = len((gap + ".").splitlines()) - 1
    return (WORD, LINE, PARAGRAPH)[min(line_ends, 2)]


def _mark_sentences(text: str, boundaries: Boundaries, size: int) -> None:
    """Raise the level of the boundaries where sentences start.

    The segmenter gets one window of `size` tokens after the other, each from the start of the last
    sentence found. Whole texts are not suitable: the segmenter takes quadratic time in scripts
    without spaces, and a closing quotation mark changes its results for text far before the mark.
    """
    from sentencex import get_sentence_boundaries  # slow to import, and not always needed

    count = len(boundaries.starts)
    is_german = detect_language(text) == "de"
    first = last = 0
    while last < count:
        last = min(first + size, count)
        offset = boundaries.starts[first]
        newest = first
        for sentence in get_sentence_boundaries(
            _LANGUAGE, text[offset : boundaries.ends[last - 1]]
        ):
            index = bisect_left(boundaries.starts, offset + sentence["start_index"], first, last)
            if (
                first < index < last
                and _may_start_sentence(text, boundaries, index)
                and not _follows_ordinal(text, boundaries.starts[index], is_german=is_german)
            ):
                boundaries.levels[index] = max(boundaries.levels[index], SENTENCE)
                newest = index
        # A window advances by at least half of its size, so that the search takes linear time.
        first = max(newest, first + (size + 1) // 2)


def _follows_ordinal(text: str, start: int, *, is_german: bool) -> bool:
    """Return whether a German ordinal such as `2.` stands before an offset, on the same line."""
    before = text[max(0, start - 8) : start]
    if "\n" in before or not _ORDINAL.search(before):
        return False
    return is_german or bool(_GERMAN_MONTH.match(text, start))


def _attach_headings(text: str, boundaries: Boundaries) -> None:
    """Lower the level of the boundaries after paragraphs that are headings."""
    end = 0
    for boundary in range(1, len(boundaries.starts)):
        if boundaries.levels[boundary] == PARAGRAPH:
            start, end = end, boundary
            paragraph = text[boundaries.starts[start] : boundaries.ends[end - 1]]
            if _HEADING.match(paragraph) and len(paragraph.splitlines()) == 1:
                boundaries.levels[boundary] = LINE


def _may_start_sentence(text: str, boundaries: Boundaries, index: int) -> bool:
    """Return whether a sentence may start at a boundary that the segmenter found.

    It may not start inside a word, as in `os.Path`. Next to a wide character it may, because
    Chinese and Japanese have no spaces between sentences.
    """
    if boundaries.levels[index]:
        return True
    start = boundaries.starts[index]
    return any(east_asian_width(character) in "WF" for character in text[start - 1 : start + 1])
