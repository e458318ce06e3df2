"""Splits a sequence into blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ItemT = TypeVar("ItemT")


def split(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """Yield the items in blocks of `size`. The last one may be shorter, and none is empty."""
    return (items[start : start + size] for start in range(0, len(items), size))
