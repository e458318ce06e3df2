"""Moving the knowledge base to another embedding model: a walk through all documents with vectors.

A first walk through each corpus removes the old vectors: passages wait for the step `embed` again,
workspace documents for their job, and other documents just lose theirs. A second walk embeds those
other documents. Repeating a page changes nothing; the position of a walk is in `meta/embedding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.extractions import extracted_chunks
from shared.extractions import repository as extraction_repository
from shared.firestore.writes import put_if_unchanged
from shared.knowledge import chunk_repository
from shared.knowledge.queue import MAX_WRITES
from shared.traces import repository as trace_repository
from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database
    from shared.index.embedding_space import SpaceMigration

Fields = Mapping[str, Any]

PAGE: Final = MAX_WRITES
WRITERS: Final = ("cluster", "extract", "ingest_materials")
"""The leases of other jobs that read or store vectors; these jobs do not begin during a move."""
_NO_VECTOR: Final = {"embedding": DELETE_FIELD, "embedding_model": DELETE_FIELD}


@dataclass(frozen=True, slots=True)
class EmbeddedCorpus:
    """Documents that have vectors, or name the model of the vectors below them.

    Attributes:
        name: The name in the positions of walks.
        query: All documents, ordered by name.
        fields: The fields to read.
        cleared: The change that removes an old vector; None if there is none to remove.
        text: The text that a walk embeds; None where another job embeds the documents.
    """

    name: str
    query: Callable[[AsyncClient], AsyncQuery]
    fields: tuple[str, ...]
    cleared: Callable[[Fields, SpaceMigration, datetime], dict[str, Any] | None]
    text: Callable[[str, Fields], str | None] | None = None


@dataclass(frozen=True, slots=True)
class UnembeddedDocument:
    """A document without a vector, as it was read, and the text to embed."""

    snapshot: DocumentSnapshot[Any]
    text: str


class ReembeddingStore:
    """Removes the old vectors, and stores the new ones."""

    def __init__(self, database: Database) -> None:
        """Use this database."""
        self._database = database

    async def busy_jobs(self, now: datetime) -> list[str]:
        """The jobs that began before the move and may still store vectors. One round trip."""
        references = [self._database.document("leases", name) for name in WRITERS]
        leases = await self._database.get_all(references, ["expires_at"])
        return [lease.id for lease in leases if lease.get("expires_at") > now]

    async def clear_page(
        self, corpus: EmbeddedCorpus, after: str, move: SpaceMigration, now: datetime
    ) -> str | None:
        """Remove the old vectors of a page; return its last path, or None at the end.

        Documents that are changed meanwhile are read again.
        """
        while True:
            page = await self._page(corpus, after)
            changes = [
                (document, corpus.cleared(_fields(document), move, now)) for document in page
            ]
            writes = [put_if_unchanged(document, change) for document, change in changes if change]
            if await self._database.commit_skipping_conflicts(writes) == len(writes):
                return _position(page)

    async def unembedded_page(
        self, corpus: EmbeddedCorpus, after: str
    ) -> tuple[list[UnembeddedDocument], str | None]:
        """The documents of a page that lack a vector, and its last path, or None at the end."""
        page = await self._page(corpus, after)
        documents = [
            UnembeddedDocument(document, text)
            for document in page
            if corpus.text
            and "embedding_model" not in _fields(document)
            and (text := corpus.text(document.id, _fields(document)))
        ]
        return documents, _position(page)

    async def store_vectors(
        self, vectors: Sequence[tuple[UnembeddedDocument, Vector]], model: str
    ) -> int:
        """Store the vectors of documents that were not changed meanwhile; return how many."""
        writes = [
            put_if_unchanged(
                document.snapshot,
                {"embedding": FirestoreVector(list(vector)), "embedding_model": model},
            )
            for document, vector in vectors
        ]
        return await self._database.commit_skipping_conflicts(writes)

    async def count(self) -> int:
        """Count the documents to embed, except those of workspaces, which another job embeds."""
        client = self._database.client
        corpora = [corpus for corpus in CORPORA if corpus.name != "materials"]
        return sum([await self._database.count(corpus.query(client)) for corpus in corpora])

    async def _page(self, corpus: EmbeddedCorpus, after: str) -> list[DocumentSnapshot[Any]]:
        return await self._database.find(page_query(self._database.client, corpus, after))


def page_query(client: AsyncClient, corpus: EmbeddedCorpus, after: str) -> AsyncQuery:
    """A page of the documents of a corpus after a path."""
    query = corpus.query(client).select(corpus.fields).limit(PAGE)
    return query.start_after({"__name__": client.document(after)}) if after else query


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for corpus in CORPORA:
        for after in ("", corpus.name + "/a"):
            yield page_query(client, corpus, after)
        yield corpus.query(client)


def _clear_passage(data: Fields, _move: SpaceMigration, now: datetime) -> dict[str, Any] | None:
    is_pending = "embedding_model" not in data and "embed" in data.get("pending", {})
    if "deleted_at" in data or is_pending:
        return None
    again = chunk_repository.step_pending("embed", now)
    return _NO_VECTOR | chunk_repository.step_done("cluster") | again


def _clear_vector(data: Fields, _move: SpaceMigration, _now: datetime) -> dict[str, Any] | None:
    return _NO_VECTOR if "embedding_model" in data else None


def _clear_workspace_document(
    data: Fields, move: SpaceMigration, now: datetime
) -> dict[str, Any] | None:
    """Complete documents wait for new vectors; the caller uploads incomplete ones again."""
    model, dimension = move.target
    making = data.get("making", {})
    complete = data.get("status") in {DocumentStatus.READY, DocumentStatus.WAITING}
    if not complete or (making.get("model"), making.get("dimension")) == move.target:
        return None
    made = {"making": {**making, "model": model, "dimension": dimension}}
    waits = {"status": DocumentStatus.WAITING.value, "next_at": now, "tries": 0}
    return made | waits | {"reason": None, "worked_until": None}


def _trace_text(trace_id: str, data: Fields) -> str | None:
    trace = trace_repository.to_trace(trace_id, dict(data))
    return trace.content.embedding_text if trace.is_listed else None


def _extraction_text(_name: str, data: Fields) -> str | None:
    return extraction_repository.to_content(dict(data)).text


CORPORA: Final = (
    EmbeddedCorpus(
        name="chunks",
        query=lambda client: client.collection(chunk_repository.COLLECTION).order_by("__name__"),
        fields=("embedding_model", "pending", "deleted_at"),
        cleared=_clear_passage,
    ),
    EmbeddedCorpus(
        name="materials",
        query=lambda client: client.collection_group(DOCUMENTS).order_by("__name__"),
        fields=("making", "status"),
        cleared=_clear_workspace_document,
    ),
    EmbeddedCorpus(
        name="traces",
        query=lambda client: client.collection(trace_repository.COLLECTION).order_by("__name__"),
        fields=("embedding_model", *trace_repository.READ_FIELDS),
        cleared=_clear_vector,
        text=_trace_text,
    ),
    EmbeddedCorpus(
        name="extractions",
        query=lambda client: client.collection(extracted_chunks.COLLECTION).order_by("__name__"),
        fields=("embedding_model", "type", "content"),
        cleared=_clear_vector,
        text=_extraction_text,
    ),
)


def _position(page: Sequence[DocumentSnapshot[Any]]) -> str | None:
    return page[-1].reference.path if len(page) == PAGE else None


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}
