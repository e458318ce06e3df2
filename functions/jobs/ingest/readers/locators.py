"""Joins texts, and records where positions in the original begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.knowledge.source import Locator

PARAGRAPH: Final = "\n\n"


def join_texts(
    passages: Iterable[tuple[str, Locator | None]], separator: str = PARAGRAPH
) -> tuple[str, tuple[tuple[int, Locator], ...]]:
    """Join texts, and return the text and the locators of a section.

    Args:
        passages: The texts, each with its position in the original, or None if that is the position
            of the text before.
        separator: What to put between two texts.
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
