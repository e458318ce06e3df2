"""Folds passages that say the same, such as a highlight that Kindle and Readwise both have.

Each stays stored under its own id. Where passages are listed, the first stands for the others.
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
"""A passage of another origin that has all words of a longer one but a fifth says the same. A
sentence in a long page does not."""


def fold(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """Return the first of the chunks that say the same, by id, each with the others.

    Two chunks say the same if their texts differ in typography alone. If their origins differ, it
    is enough that one has the words of the other in order, at least MIN_SHARE of its own, unless
    the numbers or negations differ.
    """
    copies: dict[str, list[Chunk]] = {}
    firsts: dict[str, _Text] = {}
    for chunk in chunks:
        text = _Text(chunk)
        first = firsts.get(text.line) or next(filter(text.is_near, firsts.values()), None)
        if first is None:
            firsts[text.line], copies[chunk.id] = text, []
        elif first.chunk.id != chunk.id:
            copies[first.chunk.id].append(chunk)
    return copies


def find_last(
    chunks: Sequence[Chunk], listed: Sequence[Chunk], count: int, limit: int
) -> Chunk | None:
    """Return the chunk after which the next page of a list begins, or None after the last page.

    Args:
        chunks: The chunks of the page, and one more if there is a next page.
        listed: Those of the page that are listed.
        count: How many of these fit into the answer.
    """
    if count < len(listed):
        return listed[count - 1]
    return chunks[limit - 1] if len(chunks) > limit else None


@dataclass(frozen=True)
class _Text:
    """A chunk with what it is compared by."""

    chunk: Chunk

    @cached_property
    def line(self) -> str:
        return fold_typography(self.chunk.content)

    @cached_property
    def words(self) -> str:
        return extract_words(self.line)

    @property
    def origin(self) -> tuple[str, bool]:
        # Readwise names the reader, such as Kindle, as the origin of a book.
        return self.chunk.origin, self.chunk.readwise_url is None

    def is_near(self, other: _Text) -> bool:
        if self.origin == other.origin:
            return False
        shorter, longer = sorted((self.words, other.words), key=len)
        return (
            len(shorter) >= MIN_SHARE * len(longer)
            and shorter in longer
            and not may_correct(self.line, other.line)
        )
