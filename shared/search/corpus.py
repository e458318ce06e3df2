"""Where to look: the knowledge base, or another corpus of documents that can be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from shared.domain.searchable import DocumentT

if TYPE_CHECKING:
    from shared.domain.chunk import Chunk
    from shared.store import Store
    from shared.store.documents import Documents
    from shared.store.index_lists import IndexLists


@dataclass(frozen=True, slots=True)
class Corpus(Generic[DocumentT]):
    """Documents, and the lists of what they hold and bear.

    Attributes:
        documents: By id, by vector and by date.
        lists: The lists of their terms and facets.
    """

    documents: Documents[DocumentT]
    lists: IndexLists


def knowledge(store: Store) -> Corpus[Chunk]:
    """The knowledge base."""
    return Corpus(store.chunks, store.index_lists)
