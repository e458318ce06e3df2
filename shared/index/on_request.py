"""Marks documents that a search finds only on request: conversations with assistants.

What an assistant said is not what the user read. These documents are not embedded, so they appear
in no semantic search, cluster or map. Their entries in postings are marked. Readers drop marked
entries unless a facet of the search asks for them. Marked entries come last, so truncated postings
lose them first.
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
"""Marking an entry subtracts this. Entries of terms are positive, and dates are above -2^56."""


def is_on_request(category: str) -> bool:
    """Return whether documents of a category are found only on request."""
    return make_named_facet(Kind.CATEGORY, category) == FACET


def asks_for(facets: Iterable[Facet]) -> bool:
    """Return whether filters by these facets ask for such documents."""
    return any(facet == FACET or facet.kind in {Kind.SOURCE, Kind.TITLE} for facet in facets)


def mark(entry: int) -> int:
    """Mark an entry in postings."""
    return entry - _OFFSET


def unmark(entry: int) -> int:
    """Remove the mark of an entry, or of the date from which entries are complete."""
    return entry + _OFFSET if is_marked(entry) else entry


def is_marked(entry: int) -> bool:
    """Return whether an entry in postings is marked."""
    return entry < -_OFFSET // 2
