"""The places where a text may be cut, and how good each of them is.

Text is only ever cut between two tokens (`shared.retrieval.tokens`). The place before a token has a
level: the higher, the better a piece of text ends there.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

from shared.retrieval.tokens import token_spans

CLUSTER: Final = 0
WORD: Final = 1
LINE: Final = 2
SENTENCE: Final = 3
PARAGRAPH: Final = 4

# The segmenter wants a language and ours is unknown. English is what it falls back to itself; it
# knows the sentence ends of all scripts and the abbreviations that German shares.
_LANGUAGE: Final = "en"
# sentencex 1.0.32 panics, which no `except Exception` stops, on "A\u00a0." and on every other white
# space of several bytes in that place; it also refuses lone surrogates.
_UNFIT: Final = re.compile(r"[^\S\n]|[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Places:
    """A text's tokens: where each starts and ends, and the level of the place before it.

    `levels` has one more entry, for the end of the text.
    """

    starts: array[int]
    ends: array[int]
    levels: bytearray

    def first(self, level: int, low: int, high: int) -> int:
        """Find the first place of at least this level in `low..high`; -1 if there is none."""
        found = (self.levels.find(better, low, high + 1) for better in range(level, PARAGRAPH + 1))
        return min((place for place in found if place >= 0), default=-1)

    def last(self, level: int, low: int, high: int) -> int:
        """Find the last place of at least this level in `low..high`; -1 if there is none."""
        return max(
            self.levels.rfind(better, low, high + 1) for better in range(level, PARAGRAPH + 1)
        )


def find_places(text: str, window: int) -> Places:
    """Find all places where the text may be cut.

    Args:
        text: The text.
        window: How many tokens are searched for sentences at a time; a longer sentence is searched
            in parts.
    """
    places = _scan(text)
    _mark_sentences(_UNFIT.sub(" ", text), places, window)
    return places


def _scan(text: str) -> Places:
    """Find the tokens, and the paragraphs, lines and words that start with them."""
    places = Places(array("I"), array("I"), bytearray())
    end = 0
    for start, token_end in token_spans(text):
        places.levels.append(_gap_level(text[end:start]) if start > end else CLUSTER)
        places.starts.append(start)
        places.ends.append(token_end)
        end = token_end
    places.levels.append(PARAGRAPH)
    places.levels[0] = PARAGRAPH
    return places


def _gap_level(gap: str) -> int:
    """Tell a word, a line and a paragraph apart by the white space before it."""
    if gap == " ":
        return WORD
    line_ends = len((gap + ".").splitlines()) - 1
    return (WORD, LINE, PARAGRAPH)[min(line_ends, 2)]


def _mark_sentences(text: str, places: Places, size: int) -> None:
    """Raise the level of the places where sentences start.

    The segmenter is given windows of `size` tokens, each from the last sentence found onwards: it
    takes quadratic time in scripts without spaces, and within one call a closing quotation mark
    changes what it says about text far before it.
    """
    from sentencex import get_sentence_boundaries  # which most texts of paragraphs do not need

    count = len(places.starts)
    first = last = 0
    while last < count:
        last = min(first + size, count)
        offset = places.starts[first]
        newest = first
        for sentence in get_sentence_boundaries(_LANGUAGE, text[offset : places.ends[last - 1]]):
            place = bisect_left(places.starts, offset + sentence["start_index"], first, last)
            if first < place < last and _may_start_sentence(text, places, place):
                places.levels[place] = max(places.levels[place], SENTENCE)
                newest = place
        first = max(newest, first + (size + 1) // 2)


def _may_start_sentence(text: str, places: Places, place: int) -> bool:
    """Doubt a sentence that starts inside a word, as in `os.Path`, unless the script is Chinese."""
    if places.levels[place]:
        return True
    start = places.starts[place]
    return any(east_asian_width(character) in "WF" for character in text[start - 1 : start + 1])
