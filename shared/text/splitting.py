"""Splits a text into chunks of a source, or into passages of a document in a workspace.

Both are pieces that can be embedded, found and read on their own. Chunks are measured in tokens
(`shared.text.tokens`); they join short paragraphs, and repeat a part of the chunk before. Passages
are quoted verbatim, so they are measured in characters, and each is in one paragraph, or one entry
of a log or list, and after the one before. A piece is filled up to `Limits.target` and ends

1. after a paragraph, if the piece is at least half full by then;
2. else after a sentence, which may exceed the target if it ends within the maximum;
3. else, by the same rule, after a line (tables, code, headings), and then after a word;
4. else, in a word that is longer than a piece may be, between two grapheme clusters.

A chunk never depends on text more than one chunk ahead, so text appended to a document changes at
most its last two chunks.

In this module, starts and ends of pieces are indices of tokens, and a boundary has the index of
the token after it (`shared.text.boundaries`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.text.boundaries import LINE, PARAGRAPH, SENTENCE, WORD, Boundaries, find_boundaries
from shared.text.entries import find_entries
from shared.text.spans import Span
from shared.text.tokens import MAX_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ENTRIES: Final = 5_000
"""A text is split into at most this many entries of logs and lists, since each is embedded."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long pieces are, in tokens or in characters.

    Attributes:
        target: The length up to which a piece is filled.
        maximum: The length that a piece may have to keep a sentence or a short remainder whole.
        overlap: How much of a piece the next piece may repeat if a paragraph continues.

    Raises:
        ValueError: The limits violate `0 <= 2 * overlap <= target <= maximum`, or the target is 0.
    """

    target: int
    maximum: int
    overlap: int

    def __post_init__(self) -> None:
        """Check the limits, so that each piece adds text to the previous one."""
        if not (0 <= 2 * self.overlap <= self.target <= self.maximum and self.target):
            raise ValueError(f"need 0 <= 2 * overlap <= target <= maximum, target > 0; got {self}")

    @property
    def min_progress(self) -> int:
        """The minimum length that a piece adds, unless the text ends or a long word follows."""
        return max(1, self.target // 5)


_LONG: Final = Limits(512, 1024, overlap=75)
CHUNK_LIMITS: Final = {"local": Limits(235, 235, overlap=0), "vertex": _LONG, "openai": _LONG}
"""How long chunks are, by the provider of embeddings (the setting `embedding_provider`).

The local model reads 256 of its tokens (WordPiece), of which two are marks and some ten the title.
235 tokens are 220 of them in the median of English, and 253 where words are long. Of SciFact's
abstracts cut so, 7 chunks in 100 exceed 256, and 0.5% of the text is not read; at 512, it was 26%.
In German, 235 tokens are 370, of which the first 256 are read.

Sixty files of 15 to 25 abstracts, a paragraph for each sentence, and SciFact's claims: the share
with a passage that overlaps the right abstract among the first 1, 5 and 10 was .48 .70 .74 by
meaning, .63 .84 .88 by words and .60 .84 .88 in hybrid search with 512 tokens; with 235 it is
.67 .83 .89, .65 .83 .88 and .70 .87 .92. There are 2.3 times as many passages, the base has 1.55
times the size, and embedding takes 1.8 times as long."""


def split_chunks(text: str, limits: Limits) -> list[Span]:
    """Split a text into chunks, in order, with limits in tokens. White space alone has no chunks.

    Together the spans cover everything but white space. No span starts or ends with white space,
    and none contains another span. If the last chunk would add less than a fifth of the target, it
    is joined to the previous chunk, provided that both fit into the maximum.
    """
    boundaries = find_boundaries(text, limits.target - limits.overlap)
    count = len(boundaries.starts)
    starts, ends = range(count), range(1, count + 1)
    return _Splitter(boundaries, limits, starts, ends, end_level=PARAGRAPH + 1).split()


def split_passages(text: str, max_length: int = 1500) -> list[Span]:
    """Split a text into its paragraphs, each with the headings above it, or pieces of long ones.

    Paragraphs that are logs or lists are split into their entries (`shared.text.entries`). If there
    are more than `MAX_ENTRIES`, short neighbours stay together.

    Together the spans cover everything but white space. They do not overlap, and none starts or
    ends with white space. Two million characters take 1 to 3 seconds.

    Args:
        max_length: The maximum length of a passage, in code points.

    Raises:
        ValueError: `max_length` is less than the maximum length of a token.
    """
    if max_length < MAX_TOKEN:
        raise ValueError(f"max_length must be at least {MAX_TOKEN}; got {max_length}")
    boundaries = find_boundaries(text)
    _mark_entries(text, boundaries)
    limits = Limits(max_length, max_length, overlap=0)
    starts, ends = boundaries.starts, boundaries.ends
    return _Splitter(boundaries, limits, starts, ends, end_level=PARAGRAPH).split()


def _mark_entries(text: str, boundaries: Boundaries) -> None:
    """Raise the level of the boundaries before entries of logs and lists to that of paragraphs."""
    min_length = len(text) // MAX_ENTRIES
    previous = 0
    for offset in find_entries(text):
        if offset - previous >= min_length:
            boundaries.levels[bisect_left(boundaries.starts, offset)] = PARAGRAPH
            previous = offset


@dataclass(frozen=True, slots=True)
class _Splitter:
    """Splits one text.

    Attributes:
        starts: Where each token starts, in the unit of the limits.
        ends: Where each token ends, in that unit.
        end_level: The level of the boundaries at which every piece ends. No boundary has a level
            above PARAGRAPH.
    """

    boundaries: Boundaries
    limits: Limits
    starts: Sequence[int]
    ends: Sequence[int]
    end_level: int

    def split(self) -> list[Span]:
        """Return the spans of the pieces, in code points."""
        spans: list[Span] = []
        start = end = 0
        while end < len(self.starts):
            start = self._find_next_start(start, end)
            end = self._find_next_end(start, end)
            spans.append(Span(self.boundaries.starts[start], self.boundaries.ends[end - 1]))
        return spans

    def _find_next_start(self, previous: int, end: int) -> int:
        """Return where the next piece starts: before the end of the last one if they overlap."""
        boundaries = self.boundaries
        # An overlap helps only within a paragraph.
        if boundaries.levels[end] == PARAGRAPH or not self.limits.overlap:
            return end
        low = max(self._find_first_start(end, self.limits.overlap), previous + 1)
        low = max(low, boundaries.find_last(PARAGRAPH, low, end))
        for level in (SENTENCE, LINE, WORD):
            upcoming = boundaries.find_first(
                level, end + 1, self._find_last_end(end, self.limits.maximum)
            )
            if upcoming >= 0:
                # The next sentence, line or word must fit into the piece, even if less is repeated.
                low = max(low, self._find_first_start(upcoming, self.limits.maximum))
                break
        for level in (SENTENCE, LINE, WORD):
            start = boundaries.find_first(level, low, end - 1)
            if start >= 0:
                return start
        return end

    def _find_next_end(self, start: int, previous_end: int) -> int:
        """Return where the piece ends: at the next boundary of `end_level`, if that is near."""
        stop = self.boundaries.find_first(self.end_level, start + 1, len(self.starts))
        if stop < 0:
            stop = len(self.starts)
        target_end = self._find_last_end(start, self.limits.target)
        if target_end >= stop:
            return stop
        last_start = self._find_first_start(stop, self.limits.min_progress)
        if stop > self._find_last_end(start, self.limits.maximum):
            # A short rest could not be joined, so it is made longer.
            return self._find_best_end(start, previous_end, min(target_end, last_start))
        end = self._find_best_end(start, previous_end, target_end)
        # Too little would be left for a piece of its own.
        return stop if end > last_start else end

    def _find_best_end(self, start: int, previous_end: int, target_end: int) -> int:
        """Return the best end by this module's rules, if what is left does not fit into a piece."""
        limits, boundaries = self.limits, self.boundaries
        low = self._find_after(previous_end, limits.min_progress)  # no end before this adds enough
        half = self._find_after(start, limits.target // 2)
        end = boundaries.find_last(PARAGRAPH, max(low, half), target_end)
        if end >= 0:
            return end
        for level in (SENTENCE, LINE, WORD):
            end = boundaries.find_last(level, low, target_end)
            if end < 0:
                end = boundaries.find_first(
                    level, target_end + 1, self._find_last_end(start, limits.maximum)
                )
            if end >= 0:
                return end
        # A long word follows: end before it, however little that adds.
        end = boundaries.find_last(WORD, previous_end + 1, low)
        return end if end >= 0 else target_end

    def _find_last_end(self, start: int, length: int) -> int:
        """Return the last boundary up to which the text from `start` has at most this length."""
        return bisect_right(self.ends, self.starts[start] + length)

    def _find_first_start(self, end: int, length: int) -> int:
        """Return the first boundary from which the text to `end` has at most this length."""
        return bisect_left(self.starts, self.ends[end - 1] - length)

    def _find_after(self, start: int, length: int) -> int:
        """Return the first boundary up to which the text from `start` has at least this length."""
        return bisect_left(self.ends, self.starts[start] + length) + 1
