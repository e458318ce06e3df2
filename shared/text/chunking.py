"""Cut a text into chunks at the best places near the wanted length.

The places where a text may be cut, and how good each of them is.

Text is only ever cut between two tokens (`shared.text.tokens`). The place before a token has a
level: the higher, the better a piece of text ends there.

Cut a text into chunks: passages that can be embedded, found and read on their own.

Everything is counted in tokens (`shared.text.tokens`), and a text is only ever cut between
two of them (`shared.text.chunking`). A chunk takes what it can up to `Limits.target` and ends

1. after a paragraph, if it is half full by then;
2. else after a sentence; one that crosses the target is finished if it ends within the maximum;
3. else, in the same way, after a line (tables, code), and then after a word;
4. else, in a word longer than a chunk may be, between two grapheme clusters.

Nothing is decided by text that lies further ahead than one chunk: appending to a text leaves all
but its last two chunks as they were.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final
from unicodedata import east_asian_width

from shared.text.spans import Span
from shared.text.tokens import token_spans

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


@dataclass(frozen=True, slots=True)
class Limits:
    """How long chunks are, in tokens.

    Attributes:
        target: What a chunk is filled up to.
        maximum: What a chunk may hold so that a sentence or a short rest stays whole.
        overlap: How much of a chunk the next one may repeat when a paragraph runs on.

    Raises:
        ValueError: Not `0 <= 2 * overlap <= target <= maximum`, or the target is 0.
    """

    target: int = 512
    maximum: int = 1024
    overlap: int = 75

    def __post_init__(self) -> None:
        """Refuse limits under which chunks could not advance."""
        if not (0 <= 2 * self.overlap <= self.target <= self.maximum and self.target):
            raise ValueError(f"need 0 <= 2 * overlap <= target <= maximum, target > 0; got {self}")

    @property
    def least(self) -> int:
        """What a chunk adds to the one before it, unless nothing more is left or fits."""
        return max(1, self.target // 5)


def split(text: str, limits: Limits = Limits()) -> list[Span]:
    """Cut a text into chunks, in order; a text of white space alone has none.

    Together the spans cover everything but white space; none starts or ends on white space, and
    none holds another. A last chunk that would add less than a fifth of the target joins the one
    before it if both fit the maximum.
    """
    places = find_places(text, limits.target - limits.overlap)
    spans: list[Span] = []
    start = end = 0
    while end < len(places.starts):
        start = _next_start(places, start, end, limits)
        end = _next_end(places, start, end, limits)
        spans.append(Span(places.starts[start], places.ends[end - 1]))
    return spans


def _next_start(places: Places, previous: int, end: int, limits: Limits) -> int:
    """Step back from the end of the chunk that starts at `previous`, if its paragraph runs on."""
    if places.levels[end] == PARAGRAPH:
        return end
    low = max(end - limits.overlap, previous + 1)
    low = max(low, places.last(PARAGRAPH, low, end))
    for level in (SENTENCE, LINE, WORD):
        upcoming = places.first(level, end + 1, end + limits.maximum)
        if upcoming >= 0:
            # What comes next must still fit: the overlap gives way.
            low = max(low, upcoming - limits.maximum)
            break
    for level in (SENTENCE, LINE, WORD):
        start = places.first(level, low, end - 1)
        if start >= 0:
            return start
    return end


def _next_end(places: Places, start: int, done: int, limits: Limits) -> int:
    """Find the end of the chunk that starts at `start`, where the one before it ended at `done`."""
    count = len(places.starts)
    if count <= start + limits.target:
        return count
    end = _best_place(places, start, done, limits)
    rest_is_short = count - end < limits.least and count <= start + limits.maximum
    return count if rest_is_short else end


def _best_place(places: Places, start: int, done: int, limits: Limits) -> int:
    low, full = done + limits.least, start + limits.target
    end = places.last(PARAGRAPH, max(low, start + limits.target // 2), full)
    if end >= 0:
        return end
    for level in (SENTENCE, LINE, WORD):
        end = places.last(level, low, full)
        if end < 0:
            end = places.first(level, full + 1, start + limits.maximum)
        if end >= 0:
            return end
    end = places.last(WORD, done + 1, low)
    return end if end >= 0 else full
