"""What the lists are to know of a document."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shared.core.dates import to_microseconds
from shared.index.indexed_state import IndexedState
from shared.text.terms import terms

if TYPE_CHECKING:
    from shared.index.searchable import Searchable


def indexed_state(document: Searchable) -> IndexedState:
    """Its terms, its facets and its date: some milliseconds for a long text."""
    return IndexedState(
        terms=Counter(terms(document.indexed_text)),
        facets={facet.id: name for facet, name in document.facets.items()},
        dated_at=to_microseconds(document.dated_at) if document.dated_at else 0,
    )
