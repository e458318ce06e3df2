"""The corpora that can be searched, such as the knowledge base, and the protocols of their readers.

`shared.index` implements the protocols for documents in Firestore.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from shared.index.searchable import DocumentT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.vector_halves import WeightedVector
    from shared.index.facets import Facet
    from shared.index.postings import InvertedIndex, SearchPostings
    from shared.index.vector_index import CountedDocument, Documents, Neighbour


class DocumentReader(Protocol[DocumentT]):
    """Reads documents by id and by vector, as `shared.index.vector_index` does."""

    async def get_all(self, ids: Sequence[str]) -> list[DocumentT]:
        """Load the existing documents among these ids, in their order."""
        ...

    async def get_all_counted(
        self, ids: Sequence[str], terms: Sequence[str]
    ) -> list[CountedDocument[DocumentT]]:
        """Load the existing documents among these ids, in their order, with the terms' counts."""
        ...

    async def find_nearest(
        self,
        vector: WeightedVector,
        limit: int,
        facets: Sequence[str] = (),
        terms: Sequence[str] = (),
    ) -> list[Neighbour[DocumentT]]:
        """Find the documents with the nearest vectors, nearest first, and count the terms in them.

        With facets, only documents that have one of them are searched.
        """
        ...

    async def measure_similarities(
        self, vector: WeightedVector, ids: Sequence[str], terms: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Compare these documents with a vector, nearest first, and count the terms in them.

        Documents without a comparable vector are left out.
        """
        ...


class PostingsReader(Protocol):
    """Reads the postings of terms and facets, as `shared.index.postings` does."""

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:
        """Load the postings of these terms and facets, and the totals of the corpus."""
        ...


@dataclass(frozen=True, slots=True)
class Corpus(Generic[DocumentT]):
    """What a search runs over: documents and their index."""

    documents: DocumentReader[DocumentT]
    index: PostingsReader


@dataclass(frozen=True, slots=True)
class DatedCorpus(Corpus[DocumentT]):
    """A corpus whose documents can also be listed by date."""

    documents: Documents[DocumentT]
    index: InvertedIndex
