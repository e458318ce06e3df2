"""Groups duplicate passages, such as a highlight in both Kindle and Readwise.

Each stays stored under its own id. Lists show the first and name the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from shared.knowledge.highlight_versions import extract_words
from shared.text.corrections import may_correct
from shared.text.folding import fold_typography

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.knowledge.chunk import Chunk

MIN_SHARE: Final = 0.8
"""The minimum length of the shorter of two duplicates, relative to the longer. A sentence of a long
page is no duplicate of the page."""


def fold(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """Map the id of each group's first chunk to its duplicates.

    Duplicates differ in typography alone. If they come from different origins, it is enough that
    the words of the shorter occur within the longer, in order, and make up MIN_SHARE of it, unless
    numbers or negations differ.
    """
    copies: dict[str, list[Chunk]] = {}
    firsts: dict[str, _Comparable] = {}
    for chunk in chunks:
        text = _Comparable(chunk)
        first = firsts.get(text.normalized) or next(
            filter(text.is_near_duplicate, firsts.values()), None
        )
        if first is None:
            firsts[text.normalized], copies[chunk.id] = text, []
        elif first.chunk.id != chunk.id:
            copies[first.chunk.id].append(chunk)
    return copies


def find_page_end(
    chunks: Sequence[Chunk], listed: Sequence[Chunk], count: int, limit: int
) -> Chunk | None:
    """Return the chunk after which the next page of a list begins, or None after the last page.

    Args:
        chunks: The chunks of the page, and one more if there is a next page.
        listed: Those of the page that are listed.
        count: How many of these fit into the answer.
        limit: The most chunks of a page.
    """
    if count < len(listed):
        return listed[count - 1]
    return chunks[limit - 1] if len(chunks) > limit else None


@dataclass(frozen=True)
class _Comparable:
    """A chunk, and the forms of its text that are compared."""

    chunk: Chunk

    @cached_property
    def normalized(self) -> str:
        return fold_typography(self.chunk.content)

    @cached_property
    def words(self) -> str:
        return extract_words(self.normalized)

    @property
    def origin(self) -> tuple[str, bool]:
        # Readwise names the reader, such as Kindle, as the origin of a book.
        return self.chunk.origin, self.chunk.readwise_url is None

    def is_near_duplicate(self, other: _Comparable) -> bool:
        if self.origin == other.origin:
            return False
        shorter, longer = sorted((self.words, other.words), key=len)
        return (
            len(shorter) >= MIN_SHARE * len(longer)
            and shorter in longer
            and not may_correct(self.normalized, other.normalized)
        )
