"""Where to look: the knowledge base, or another corpus of documents that can be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from shared.index.searchable import DocumentT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.index.facets import Facet
    from shared.index.postings import InvertedIndex, SearchPostings
    from shared.index.vector_index import Documents, Neighbour


class DocumentReader(Protocol[DocumentT]):
    """Documents by id and by vector, as `shared.index.vector_index` gives them."""

    async def get_all(self, ids: Sequence[str]) -> list[DocumentT]:
        """Those of these that exist, in this order."""
        ...

    async def nearest(
        self, vector: Vector, limit: int, facets: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Those whose vectors are closest, best first; only with one of the facets, if any."""
        ...

    async def similarities(self, vector: Vector, ids: Sequence[str]) -> list[Neighbour[DocumentT]]:
        """These, compared with a vector, best first; not those without a vector."""
        ...


class PostingsReader(Protocol):
    """The lists of what documents hold and bear, as `shared.index.postings` reads them."""

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:
        """The lists of these, and the totals."""
        ...


@dataclass(frozen=True, slots=True)
class Corpus(Generic[DocumentT]):
    """Documents, and the lists of what they hold and bear.

    Attributes:
        documents: By id and by vector.
        lists: The lists of their terms and facets.
    """

    documents: DocumentReader[DocumentT]
    lists: PostingsReader


@dataclass(frozen=True, slots=True)
class DatedCorpus(Corpus[DocumentT]):
    """A corpus that can be listed without a question too.

    Attributes:
        documents: By id, by vector and by date.
        lists: The lists of their terms and facets.
    """

    documents: Documents[DocumentT]
    lists: InvertedIndex
