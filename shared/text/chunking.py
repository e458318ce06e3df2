"""Splits a text into chunks: passages that can be embedded, found and read on their own.

Lengths are counted in tokens (`shared.text.tokens`). A chunk is filled up to `ChunkLimits.target`
and ends

1. after a paragraph, if the chunk is at least half full by then;
2. else after a sentence, which may exceed the target if it ends within the maximum;
3. else, by the same rule, after a line (tables, code), and then after a word;
4. else, in a word that is longer than a chunk may be, between two grapheme clusters.

A chunk never depends on text more than one chunk ahead, so text appended to a document changes at
most its last two chunks.

In this module, starts and ends of chunks are numbers of tokens, and a boundary has the number of
the token after it (`shared.text.boundaries`).
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.text.boundaries import LINE, PARAGRAPH, SENTENCE, WORD, Boundaries, find_boundaries
from shared.text.spans import Span


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How long chunks are, in tokens.

    Attributes:
        target: The length up to which a chunk is filled.
        maximum: The length that a chunk may have to keep a sentence or a short remainder whole.
        overlap: How much of a chunk the next chunk may repeat if a paragraph continues.

    Raises:
        ValueError: The limits violate `0 <= 2 * overlap <= target <= maximum`, or the target is 0.
    """

    target: int = 512
    maximum: int = 1024
    overlap: int = 75

    def __post_init__(self) -> None:
        """Check the limits, so that each chunk adds text to the previous one."""
        if not (0 <= 2 * self.overlap <= self.target <= self.maximum and self.target):
            raise ValueError(f"need 0 <= 2 * overlap <= target <= maximum, target > 0; got {self}")

    @property
    def min_progress(self) -> int:
        """The minimum number of tokens that a chunk adds, unless fewer are left or fit."""
        return max(1, self.target // 5)


def split_chunks(text: str, limits: ChunkLimits = ChunkLimits()) -> list[Span]:
    """Split a text into chunks, in order. A text that is only white space has no chunks.

    Together the spans cover everything but white space. No span starts or ends with white space,
    and none contains another span. If the last chunk would add less than a fifth of the target, it
    is joined to the previous chunk, provided that both fit into the maximum.
    """
    boundaries = find_boundaries(text, limits.target - limits.overlap)
    spans: list[Span] = []
    start = end = 0
    while end < len(boundaries.starts):
        start = _find_next_start(boundaries, start, end, limits)
        end = _find_next_end(boundaries, start, end, limits)
        spans.append(Span(boundaries.starts[start], boundaries.ends[end - 1]))
    return spans


def _find_next_start(boundaries: Boundaries, previous: int, end: int, limits: ChunkLimits) -> int:
    """Return where the next chunk starts: before the end of the previous one if they overlap.

    Args:
        previous: Where the previous chunk starts.
    """
    if boundaries.levels[end] == PARAGRAPH:  # an overlap helps only within a paragraph
        return end
    low = max(end - limits.overlap, previous + 1)
    low = max(low, boundaries.find_last(PARAGRAPH, low, end))
    for level in (SENTENCE, LINE, WORD):
        upcoming = boundaries.find_first(level, end + 1, end + limits.maximum)
        if upcoming >= 0:
            # The next sentence, line or word must fit into the chunk, even if less is repeated.
            low = max(low, upcoming - limits.maximum)
            break
    for level in (SENTENCE, LINE, WORD):
        start = boundaries.find_first(level, low, end - 1)
        if start >= 0:
            return start
    return end


def _find_next_end(
    boundaries: Boundaries, start: int, previous_end: int, limits: ChunkLimits
) -> int:
    """Return where the chunk ends that starts at `start`: at the end of the text if it can be."""
    count = len(boundaries.starts)
    if count <= start + limits.target:
        return count
    end = _find_best_end(boundaries, start, previous_end, limits)
    rest_is_short = count - end < limits.min_progress and count <= start + limits.maximum
    return count if rest_is_short else end


def _find_best_end(
    boundaries: Boundaries, start: int, previous_end: int, limits: ChunkLimits
) -> int:
    """Return the best end by this module's rules, if more text is left than fits into a chunk."""
    low = previous_end + limits.min_progress  # no end before this one would add enough text
    full = start + limits.target
    end = boundaries.find_last(PARAGRAPH, max(low, start + limits.target // 2), full)
    if end >= 0:
        return end
    for level in (SENTENCE, LINE, WORD):
        end = boundaries.find_last(level, low, full)
        if end < 0:
            end = boundaries.find_first(level, full + 1, start + limits.maximum)
        if end >= 0:
            return end
    end = boundaries.find_last(WORD, previous_end + 1, low)
    return end if end >= 0 else full
