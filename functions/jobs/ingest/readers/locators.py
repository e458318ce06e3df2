"""Joins texts, and records at which offset each position in the original begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.knowledge.source import Locator

PARAGRAPH: Final = "\n\n"
"""What separates two paragraphs."""


def join_texts(
    passages: Iterable[tuple[str, Locator | None]], separator: str = PARAGRAPH
) -> tuple[str, tuple[tuple[int, Locator], ...]]:
    """Join texts to the text and the locators of a section.

    Args:
        passages: The texts, each with its position in the original; None means the same position as
            the text before.

    Returns:
        The joined text, and the locators with the offsets at which they begin.
    """
    texts: list[str] = []
    locators: list[tuple[int, Locator]] = []
    offset = 0
    for text, locator in passages:
        if locator is not None:
            locators.append((offset, locator))
        texts.append(text)
        offset += len(text) + len(separator)
    return separator.join(texts), tuple(locators)
