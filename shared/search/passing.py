"""Passages that lists named, read to see whether they still are there and pass the filters."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.deps import Deps
    from shared.domain.chunk import Chunk
    from shared.search.selection import Selection

_NOTHING: Final[Mapping[str, Chunk]] = MappingProxyType({})


async def passing(
    names: Sequence[str],
    limit: int,
    selection: Selection,
    deps: Deps,
    known: Mapping[str, Chunk] = _NOTHING,
) -> tuple[list[Chunk], int]:
    """The first passages that pass: one round trip, and one more where some are gone since.

    Args:
        names: Their ids, in order.
        limit: How many are wanted.
        selection: What they must pass.
        deps: To read them with.
        known: Those that were read before and pass.

    Returns:
        The passages, and how many of the names had to be looked at.
    """
    found: list[Chunk] = []
    looked = 0
    while len(found) < limit and looked < len(names):
        block = names[looked : looked + limit - len(found)]
        looked += len(block)
        read = await deps.store.chunks.get_all([name for name in block if name not in known])
        chunks = {chunk.chunk_id: chunk for chunk in read if selection.admits(chunk)}
        chunks |= known
        found += [chunks[name] for name in block if name in chunks]
    return found, looked
