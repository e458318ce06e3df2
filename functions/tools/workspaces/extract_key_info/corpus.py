"""Makes documents of a workspace searchable, by their passages in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shared.index.bm25 import Postings, Totals, pack
from shared.index.postings import SearchPostings
from shared.index.stored_vector import from_compact
from shared.index.vector_index import CountedDocument, compare, make_distance_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.ai.vector_halves import WeightedVector
    from shared.index.facets import Facet
    from shared.index.vector_index import Neighbour
    from shared.workspaces.model import WorkspaceDocument, WorkspacePassage
    from shared.workspaces.parts import DocumentPart


class WorkspaceCorpus:
    """The passages of documents, and their postings.

    A passage that several documents contain is searched once, and quoted from the first of them.
    Filters are ignored, because a search in a workspace has none, and so are requests to count
    terms, because the postings are complete.
    """

    def __init__(
        self, documents: Iterable[tuple[WorkspaceDocument, Sequence[DocumentPart]]]
    ) -> None:
        """Collect the passages of documents, all of which have vectors."""
        self.passages: dict[str, WorkspacePassage] = {}
        self.documents: dict[str, WorkspaceDocument] = {}
        self._vectors: dict[str, bytes] = {}
        for document, parts in documents:
            for part in parts:
                for passage, vector in zip(part.passages, part.vectors, strict=True):
                    if passage.id not in self.passages:
                        self.passages[passage.id] = passage
                        self.documents[passage.id] = document
                        self._vectors[passage.id] = vector

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:  # noqa: ARG002 - see above
        """Return the postings of these terms."""
        lengths = {name: passage.length for name, passage in self.passages.items()}
        entries_by_term = {
            term: {
                name: pack(passage.counts[term], lengths[name])
                for name, passage in self.passages.items()
                if term in passage.counts
            }
            for term in set(terms)
        }
        postings = {
            term: Postings(len(entries), entries)
            for term, entries in entries_by_term.items()
            if entries
        }
        return SearchPostings(postings, {}, Totals(len(lengths), sum(lengths.values())))

    async def get_all(self, ids: Sequence[str]) -> list[WorkspacePassage]:
        """Return these passages."""
        return [self.passages[passage_id] for passage_id in ids]

    async def get_all_counted(
        self,
        ids: Sequence[str],
        terms: Sequence[str],  # noqa: ARG002 - see above
    ) -> list[CountedDocument[WorkspacePassage]]:
        """Return these passages."""
        return [CountedDocument(self.passages[passage_id]) for passage_id in ids]

    async def find_nearest(
        self,
        vector: WeightedVector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - see above
        terms: Sequence[str] = (),
    ) -> list[Neighbour[WorkspacePassage]]:
        """Return the nearest passages, nearest first."""
        return (await self.measure_similarities(vector, list(self.passages), terms))[:limit]

    async def measure_similarities(
        self,
        vector: WeightedVector,
        ids: Sequence[str],
        terms: Sequence[str] = (),  # noqa: ARG002 - see above
    ) -> list[Neighbour[WorkspacePassage]]:
        """Compare these passages with a vector, and return them nearest first."""

        def compare_all() -> list[Neighbour[WorkspacePassage]]:
            neighbours = [
                compare(self.passages[name], vector, from_compact(self._vectors[name]))
                for name in ids
            ]
            return sorted(neighbours, key=make_distance_key)

        return await asyncio.to_thread(compare_all)
