"""A corpus that can be searched, such as the knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from shared.index.searchable import DocumentT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.index.facets import Facet
    from shared.index.postings import InvertedIndex, SearchPostings
    from shared.index.vector_index import CountedDocument, Documents, Neighbour


class DocumentReader(Protocol[DocumentT]):
    """Reads documents by id and by vector, as `shared.index.vector_index` does."""

    async def get_all(self, ids: Sequence[str]) -> list[DocumentT]:
        """Load these documents in this order, without missing ones."""
        ...

    async def get_all_counted(
        self, ids: Sequence[str], terms: Sequence[str]
    ) -> list[CountedDocument[DocumentT]]:
        """Load these documents in this order, without missing ones, with the counts of terms."""
        ...

    async def find_nearest(
        self, vector: Vector, limit: int, facets: Sequence[str] = (), terms: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Search the documents with the closest vectors, best first, among those with a facet.

        The terms are counted.
        """
        ...

    async def measure_similarities(
        self, vector: Vector, ids: Sequence[str], terms: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Compare these documents with a vector. Return the comparable ones, best first.

        The terms are counted.
        """
        ...


class PostingsReader(Protocol):
    """Reads the postings of terms and facets, as `shared.index.postings` does."""

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:
        """Load the postings of these terms and facets, and the totals."""
        ...


@dataclass(frozen=True, slots=True)
class Corpus(Generic[DocumentT]):
    """Documents and their index.

    Attributes:
        documents: Reads the documents by id and by vector.
        index: Reads the postings of their terms and facets.
    """

    documents: DocumentReader[DocumentT]
    index: PostingsReader


@dataclass(frozen=True, slots=True)
class DatedCorpus(Corpus[DocumentT]):
    """A corpus whose documents can also be listed by date.

    Attributes:
        documents: Reads the documents by id, by vector and by date.
        index: Reads the postings of their terms and facets.
    """

    documents: Documents[DocumentT]
    index: InvertedIndex
