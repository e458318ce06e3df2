"""Documents that lists named, read to see whether they still are there and pass the filters."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.index.searchable import DocumentT
    from shared.search.corpus import DocumentReader
    from shared.search.selection import Selection

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


async def passing(
    names: Sequence[str],
    limit: int,
    selection: Selection,
    documents: DocumentReader[DocumentT],
    known: Mapping[str, DocumentT] = _NOTHING,
) -> tuple[list[DocumentT], int]:
    """The first documents that pass: one round trip, and a few more where some are gone since.

    Of a source that was just deleted many are: what is read then doubles from trip to trip.

    Args:
        names: Their ids, in order.
        limit: How many are wanted.
        selection: What they must pass.
        documents: To read them from.
        known: Those that were read before and pass.

    Returns:
        The documents, and how many of the names had to be looked at.
    """
    found: list[DocumentT] = []
    looked = trips = 0
    while len(found) < limit and looked < len(names):
        width = (limit - len(found)) << max(trips - 1, 0)
        block = names[looked : looked + width]
        read = await documents.get_all([name for name in block if name not in known])
        present = {each.id: each for each in read if selection.admits(each)}
        present |= known
        passed = [(place, name) for place, name in enumerate(block, 1) if name in present]
        taken = passed[: limit - len(found)]
        found += [present[name] for _, name in taken]
        looked += taken[-1][0] if len(found) == limit else len(block)
        trips += 1
    return found, looked
