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
    """The first passages that pass: one round trip, and a few more where some are gone since.

    Of a source that was just deleted many are: what is read then doubles from trip to trip.

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
    looked = trips = 0
    while len(found) < limit and looked < len(names):
        width = (limit - len(found)) << max(trips - 1, 0)
        block = names[looked : looked + width]
        read = await deps.store.chunks.get_all([name for name in block if name not in known])
        chunks = {chunk.chunk_id: chunk for chunk in read if selection.admits(chunk)}
        chunks |= known
        passed = [(place, name) for place, name in enumerate(block, 1) if name in chunks]
        taken = passed[: limit - len(found)]
        found += [chunks[name] for _, name in taken]
        looked += taken[-1][0] if len(found) == limit else len(block)
        trips += 1
    return found, looked
