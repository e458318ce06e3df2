"""Makes documents of a workspace searchable: in memory just after their upload, or as stored.

The same search ranks both by the same postings, so later calls rank a new document the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.index.postings import SearchPostings
from shared.index.stored_vector import from_compact, to_compact
from shared.index.vector_index import CountedDocument, compare, make_distance_key
from shared.search.corpus import Corpus
from shared.workspaces.model import WorkspacePassage, collect_postings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.index.facets import Facet
    from shared.index.vector_index import Neighbour
    from shared.search.corpus import DocumentReader
    from shared.workspaces.model import DocumentPart, PassageSpan, WorkspaceDocument
    from shared.workspaces.repository import Workspace

    Contents = Mapping[str, Sequence[DocumentPart]]
    """The parts of documents, by document id."""


@dataclass(frozen=True, slots=True)
class PassageLocation:
    """Where a passage is."""

    document: WorkspaceDocument
    span: PassageSpan


class WorkspaceCorpus:
    """Documents to search, and the locations from which their passages are quoted.

    Attributes:
        documents: The documents, the latest first.
        note: What the caller should know of this selection, or None.
    """

    def __init__(
        self,
        documents: Sequence[WorkspaceDocument],
        passages: DocumentReader[WorkspacePassage],
        load_contents: Callable[[], Awaitable[Contents]],
        *,
        note: str | None = None,
    ) -> None:
        """Store the documents to search.

        Args:
            load_contents: Loads the contents of the documents. It is called once for a search.
        """
        self.corpus = Corpus(passages, self)
        self.documents = documents
        self.note = note
        self._load_contents = load_contents
        self._contents: Contents = {}

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:  # noqa: ARG002 - there are none
        """Read the postings of these terms, together with the spans of passages.

        Costs one Firestore round trip.
        """
        self._contents = await self._load_contents()
        parts = [part for parts in self._contents.values() for part in parts]
        postings, totals = collect_postings(parts, terms)
        return SearchPostings(postings, {}, totals)

    @property
    def is_complete(self) -> bool:
        """Whether the search found all contents of the documents. Only valid after a search."""
        return all(
            len(self._contents[document.document_id]) == document.parts
            for document in self.documents
        )

    def locate(self, passage_ids: Sequence[str]) -> dict[str, PassageLocation]:
        """Return where each passage first occurs in the latest document that contains it.

        Only valid after a search.
        """
        ids = set(passage_ids)
        locations = dict[str, PassageLocation]()
        for document in self.documents:
            for part in self._contents[document.document_id]:
                for passage_id, span in part.iterate_spans():
                    if passage_id in ids:
                        locations.setdefault(passage_id, PassageLocation(document, span))
        return locations


class PassagesInMemory:
    """Passages and their vectors in memory.

    No terms are counted here, because the postings are complete.
    """

    def __init__(self, texts: Mapping[str, str], vectors: Mapping[str, Vector]) -> None:
        self._texts = texts
        self._vectors = vectors

    async def get_all(self, ids: Sequence[str]) -> list[WorkspacePassage]:
        """Return those of these passages that exist, in this order."""
        return [
            WorkspacePassage(passage_id, self._texts[passage_id])
            for passage_id in ids
            if passage_id in self._texts
        ]

    async def get_all_counted(
        self,
        ids: Sequence[str],
        terms: Sequence[str],  # noqa: ARG002 - not counted
    ) -> list[CountedDocument[WorkspacePassage]]:
        """Return those of these passages that exist, in this order."""
        return [CountedDocument(passage) for passage in await self.get_all(ids)]

    async def find_nearest(
        self,
        vector: Vector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - workspaces are searched without filters
        terms: Sequence[str] = (),  # noqa: ARG002 - not counted
    ) -> list[Neighbour[WorkspacePassage]]:
        """Return the nearest passages, nearest first."""
        return self._compare(vector, self._vectors)[:limit]

    async def measure_similarities(
        self,
        vector: Vector,
        ids: Sequence[str],
        terms: Sequence[str] = (),  # noqa: ARG002 - not counted
    ) -> list[Neighbour[WorkspacePassage]]:
        """Compare these passages with a vector, and return them nearest first."""
        # Stored passages are compared by compact vectors. The same precision here makes a later
        # call give the same answer.
        compact = {
            passage_id: from_compact(to_compact(self._vectors[passage_id])) for passage_id in ids
        }
        return self._compare(vector, compact)

    def _compare(
        self, vector: Vector, vectors: Mapping[str, Vector]
    ) -> list[Neighbour[WorkspacePassage]]:
        neighbours = [
            compare(WorkspacePassage(passage_id, self._texts[passage_id]), vector, other_vector)
            for passage_id, other_vector in vectors.items()
        ]
        return sorted(neighbours, key=make_distance_key)


def make_memory_corpus(
    document: WorkspaceDocument,
    parts: Sequence[DocumentPart],
    texts: Mapping[str, str],
    vectors: Mapping[str, Vector],
) -> WorkspaceCorpus:
    """Make the corpus of a document that was just uploaded. Searching it costs no round trip."""

    async def load_contents() -> Contents:
        return {document.document_id: parts}

    return WorkspaceCorpus([document], PassagesInMemory(texts, vectors), load_contents)


def make_stored_corpus(
    documents: Sequence[WorkspaceDocument], workspace: Workspace, *, note: str | None = None
) -> WorkspaceCorpus:
    """Make the corpus of stored documents, the latest first."""

    async def load_contents() -> Contents:
        return await workspace.load_parts(documents)

    return WorkspaceCorpus(documents, workspace.passage_index(documents), load_contents, note=note)
