"""Splits items into blocks, such as those that fit into one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ItemT = TypeVar("ItemT")


def split(items: Sequence[ItemT], count: int) -> Iterator[Sequence[ItemT]]:
    """Yield the items in blocks of `count`. The last one may be shorter, and none is empty."""
    return (items[start : start + count] for start in range(0, len(items), count))


def pack(
    items: Iterable[ItemT], count: int, size: int, measure: Callable[[ItemT], int]
) -> Iterator[list[ItemT]]:
    """Yield the items in blocks, in order. A larger item is a block of its own; none is empty."""
    block: list[ItemT] = []
    block_size = 0
    for item in items:
        item_size = measure(item)
        if block and (len(block) == count or block_size + item_size > size):
            yield block
            block, block_size = [], 0
        block.append(item)
        block_size += item_size
    if block:
        yield block
