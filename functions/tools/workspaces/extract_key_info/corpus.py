"""The documents of a workspace as a corpus to search: in memory just after upload, or stored.

One search ranks both, by the same postings, so a new document is ranked as it will be later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.index.postings import SearchPostings
from shared.index.stored_vector import from_compact, to_compact
from shared.index.vector_index import CountedDocument, compare, distance_key
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
    """Where a passage is.

    Attributes:
        document: The document that contains it.
        span: Its place in the document.
    """

    document: WorkspaceDocument
    span: PassageSpan


class WorkspaceCorpus:
    """Documents to search, as a corpus and as the texts that passages are quoted from.

    Attributes:
        corpus: Their passages and postings.
        documents: The documents, the latest first.
        note: What the caller should know of this selection; None if nothing.
    """

    def __init__(
        self,
        documents: Sequence[WorkspaceDocument],
        passages: DocumentReader[WorkspacePassage],
        load_contents: Callable[[], Awaitable[Contents]],
        *,
        note: str | None = None,
    ) -> None:
        """Search these documents.

        Args:
            documents: The documents, the latest first.
            passages: Their passages.
            load_contents: Loads the contents of the documents; called once.
            note: What the caller should know of this selection.
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
        """Whether all contents of the documents were found. Only valid after a search."""
        return all(
            len(self._contents[document.document_id]) == document.parts
            for document in self.documents
        )

    def locations(self, passage_ids: Sequence[str]) -> dict[str, PassageLocation]:
        """Where these passages first occur in the latest document. Only valid after a search."""
        ids = set(passage_ids)
        locations = dict[str, PassageLocation]()
        for document in self.documents:
            for part in self._contents[document.document_id]:
                for passage_id, span in part.iterate_spans():
                    if passage_id in ids:
                        locations.setdefault(passage_id, PassageLocation(document, span))
        return locations


class PassagesInMemory:
    """Passages and their vectors in memory. Their postings are complete: no terms are counted."""

    def __init__(self, texts: Mapping[str, str], vectors: Mapping[str, Vector]) -> None:
        """Search these texts and vectors, by passage id."""
        self._texts = texts
        self._vectors = vectors

    async def get_all(self, ids: Sequence[str]) -> list[WorkspacePassage]:
        """Return the passages of these ids that exist, in this order."""
        return [WorkspacePassage(name, self._texts[name]) for name in ids if name in self._texts]

    async def get_all_counted(
        self,
        ids: Sequence[str],
        terms: Sequence[str],  # noqa: ARG002 - not counted
    ) -> list[CountedDocument[WorkspacePassage]]:
        """Return the passages of these ids that exist, in this order."""
        return [CountedDocument(passage) for passage in await self.get_all(ids)]

    async def nearest(
        self,
        vector: Vector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - workspaces are searched without filters
        terms: Sequence[str] = (),  # noqa: ARG002 - not counted
    ) -> list[Neighbour[WorkspacePassage]]:
        """Return the nearest passages, best first."""
        return self._compare(vector, self._vectors)[:limit]

    async def similarities(
        self,
        vector: Vector,
        ids: Sequence[str],
        terms: Sequence[str] = (),  # noqa: ARG002 - not counted
    ) -> list[Neighbour[WorkspacePassage]]:
        """Return the passages of these ids, compared with a vector, best first."""
        # Stored passages are compared by compact vectors. With the same precision here, a later
        # call has the same answer.
        return self._compare(
            vector, {name: from_compact(to_compact(self._vectors[name])) for name in ids}
        )

    def _compare(
        self, vector: Vector, vectors: Mapping[str, Vector]
    ) -> list[Neighbour[WorkspacePassage]]:
        neighbours = [
            compare(WorkspacePassage(name, self._texts[name]), vector, other)
            for name, other in vectors.items()
        ]
        return sorted(neighbours, key=distance_key)


def corpus_in_memory(
    document: WorkspaceDocument,
    parts: Sequence[DocumentPart],
    texts: Mapping[str, str],
    vectors: Mapping[str, Vector],
) -> WorkspaceCorpus:
    """Return a document that was just uploaded: it is searched without a round trip."""

    async def contents() -> Contents:
        return {document.document_id: parts}

    return WorkspaceCorpus([document], PassagesInMemory(texts, vectors), contents)


def stored_corpus(
    documents: Sequence[WorkspaceDocument], workspace: Workspace, *, note: str | None = None
) -> WorkspaceCorpus:
    """Stored documents, the latest first."""

    async def contents() -> Contents:
        return await workspace.load_parts(documents)

    return WorkspaceCorpus(documents, workspace.passage_index(documents), contents, note=note)
