"""Documents that a search finds only if it asks for them: conversations with assistants.

What an assistant said is not what its owner read. Such documents are not embedded, so no search by
meaning, cluster or map has them. In postings, their entries are marked, and a reader of postings
drops these unless a facet that it reads names them. The marked entries come last, so truncated
postings lose them first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.index.facets import Kind, make_named_facet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.index.facets import Facet

CATEGORY: Final = "conversation"
"""The category of these documents."""
FACET: Final = make_named_facet(Kind.CATEGORY, CATEGORY)
_OFFSET: Final = 1 << 60
"""What a marked entry is lower by. Terms' entries are positive, and dates above -2^56."""


def is_on_request(category: str) -> bool:
    """Return whether documents of a category are found on request only."""
    return make_named_facet(Kind.CATEGORY, category) == FACET


def asks_for(facets: Iterable[Facet]) -> bool:
    """Return whether filters by these facets may mean such documents."""
    return any(facet == FACET or facet.kind in {Kind.SOURCE, Kind.TITLE} for facet in facets)


def mark(entry: int) -> int:
    """Mark an entry in postings."""
    return entry - _OFFSET


def unmark(entry: int) -> int:
    """Return an entry, or a date from which entries are complete, without its mark."""
    return entry + _OFFSET if is_marked(entry) else entry


def is_marked(entry: int) -> bool:
    """Return whether an entry in postings is marked."""
    return entry < -_OFFSET // 2
