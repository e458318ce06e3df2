"""Cut a text into chunks: passages that can be embedded, found and read on their own.

Everything is counted in tokens (`shared.retrieval.tokens`), and a text is only ever cut between
two of them (`shared.retrieval.places`). A chunk takes what it can up to `Limits.target` and ends

1. after a paragraph, if it is half full by then;
2. else after a sentence; one that crosses the target is finished if it ends within the maximum;
3. else, in the same way, after a line (tables, code), and then after a word;
4. else, in a word longer than a chunk may be, between two grapheme clusters.

Nothing is decided by text that lies further ahead than one chunk: appending to a text leaves all
but its last two chunks as they were.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.chunk import Span
from shared.retrieval.places import LINE, PARAGRAPH, SENTENCE, WORD, Places, find_places


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
