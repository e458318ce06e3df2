"""Reads and writes the documents that a migration to another embedding model changes.

A first pass through each corpus deletes the old vectors. It also queues passages of the knowledge
base for the step `embed`, and documents of workspaces for their job. A second pass embeds the
documents of the other corpora. A page can be processed again without harm. `meta/embedding` has the
position of each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.extractions import extracted_chunks
from shared.extractions import repository as extraction_repository
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.writes import put_if_unchanged
from shared.index.stored_vector import NO_VECTOR, build_vector_fields
from shared.knowledge import chunk_repository
from shared.knowledge.queue import MAX_WRITES
from shared.traces import repository as trace_repository
from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database
    from shared.index.embedding_space import SpaceMigration

DocumentData = Mapping[str, Any]

PAGE_SIZE: Final = MAX_WRITES
"""Documents are read in pages of this size, each of which is written in one commit."""
BLOCKED_JOBS: Final = ("cluster", "extract", "ingest_materials")
"""The names of the leases of other jobs that read or store vectors. During a migration, these jobs
do not start."""


@dataclass(frozen=True, slots=True)
class EmbeddedCorpus:
    """Documents that have vectors, or that record the model of the vectors below them.

    Attributes:
        name: The name under which the positions of its passes are stored.
        query: Builds the query for all documents, sorted by path.
        clear_vector: Builds the update that deletes a document's old vector. Returns None if the
            document has none.
        text_to_embed: Returns the text to embed of a document, or None if it needs no vector. This
            function is None if another job embeds the documents.
    """

    name: str
    query: Query
    fields: tuple[str, ...]
    clear_vector: Callable[[DocumentData, SpaceMigration, datetime], dict[str, Any] | None]
    text_to_embed: Callable[[str, DocumentData], str | None] | None = None


@dataclass(frozen=True, slots=True)
class UnembeddedDocument:
    """A document without a vector, and the text to embed."""

    snapshot: Document
    text: str


class ReembeddingStore:
    """Deletes the old vectors, and stores the new ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_busy_jobs(self, now: datetime) -> list[str]:
        """Return the names of jobs that may still store vectors of the former model.

        Costs one round trip.
        """
        references = [Reference("leases", name) for name in BLOCKED_JOBS]
        leases = await self._database.get_all(references, ["expires_at"])
        return [lease.id for lease in leases if lease.get("expires_at") > now]

    async def clear_page(
        self, corpus: EmbeddedCorpus, after: str, migration: SpaceMigration, now: datetime
    ) -> str | None:
        """Delete the old vectors of a page. The page is read again if a document has changed.

        Returns:
            The last path of the page, or None at the end.
        """
        while True:
            page = await self._load_page(corpus, after)
            changes = [
                (document, corpus.clear_vector(_get_data(document), migration, now))
                for document in page
            ]
            writes = [put_if_unchanged(document, change) for document, change in changes if change]
            if await self._database.commit_skipping_conflicts(writes) == len(writes):
                return _get_position(page)

    async def load_unembedded_page(
        self, corpus: EmbeddedCorpus, after: str
    ) -> tuple[list[UnembeddedDocument], str | None]:
        """Load the documents of a page that have no vector.

        Returns:
            The documents, and the last path of the page, or None at the end.
        """
        page = await self._load_page(corpus, after)
        documents: list[UnembeddedDocument] = []
        for document in page:
            data = _get_data(document)
            if corpus.text_to_embed is None or "embedding_model" in data:
                continue
            if text := corpus.text_to_embed(document.id, data):
                documents.append(UnembeddedDocument(document, text))
        return documents, _get_position(page)

    async def store_vectors(
        self, vectors: Sequence[tuple[UnembeddedDocument, Vector]], model: str
    ) -> int:
        """Store vectors, unless their documents have changed. Return the number stored."""
        writes = [
            put_if_unchanged(document.snapshot, build_vector_fields(vector, model))
            for document, vector in vectors
        ]
        return await self._database.commit_skipping_conflicts(writes)

    async def count(self) -> int:
        """Count all documents, embedded or not, except those of workspaces.

        Another job embeds the documents of workspaces.
        """
        corpora = [corpus for corpus in CORPORA if corpus.name != "materials"]
        return sum([await self._database.count(corpus.query) for corpus in corpora])

    async def _load_page(self, corpus: EmbeddedCorpus, after: str) -> list[Document]:
        return await self._database.find(page_query(corpus, after))


def page_query(corpus: EmbeddedCorpus, after: str) -> Query:
    """Build the query for the page of a corpus after a path."""
    query = corpus.query.select(corpus.fields).limit(PAGE_SIZE)
    return query.start_after({"__name__": Reference.parse(after)}) if after else query


def _clear_passage(
    data: DocumentData, _migration: SpaceMigration, now: datetime
) -> dict[str, Any] | None:
    """Build the update that queues a passage for a new vector, unless it is deleted or queued."""
    is_pending = "embedding_model" not in data and "embed" in data.get("pending", {})
    if "deleted_at" in data or is_pending:
        return None
    requeue = chunk_repository.build_step_pending("embed", now)
    return NO_VECTOR | chunk_repository.build_step_done("cluster") | requeue


def _clear_vector(
    data: DocumentData, _migration: SpaceMigration, _now: datetime
) -> dict[str, Any] | None:
    return NO_VECTOR if "embedding_model" in data else None


def _clear_workspace_document(
    data: DocumentData, migration: SpaceMigration, now: datetime
) -> dict[str, Any] | None:
    """Build the update that queues a complete document for new vectors.

    An incomplete document does not change, because its caller uploads it again.
    """
    model, dimension = migration.target
    embedding_job = data.get("making", {})
    is_complete = data.get("status") in {DocumentStatus.READY, DocumentStatus.WAITING}
    space = (embedding_job.get("model"), embedding_job.get("dimension"))
    if not is_complete or space == migration.target:
        return None
    job_update = {"making": {**embedding_job, "model": model, "dimension": dimension}}
    queue_update = {"status": DocumentStatus.WAITING.value, "next_at": now, "tries": 0}
    return job_update | queue_update | {"reason": None, "worked_until": None}


def _get_trace_text(trace_id: str, data: DocumentData) -> str | None:
    trace = trace_repository.to_trace(trace_id, dict(data))
    return trace.content.embedding_text if trace.is_listed else None


def _get_extraction_text(_name: str, data: DocumentData) -> str | None:
    return extraction_repository.to_content(dict(data)).text


CORPORA: Final = (
    EmbeddedCorpus(
        name="chunks",
        query=Query(chunk_repository.COLLECTION).order_by("__name__"),
        fields=("embedding_model", "pending", "deleted_at"),
        clear_vector=_clear_passage,
    ),
    EmbeddedCorpus(
        name="materials",
        query=Query(DOCUMENTS, in_group=True).order_by("__name__"),
        fields=("making", "status"),
        clear_vector=_clear_workspace_document,
    ),
    EmbeddedCorpus(
        name="traces",
        query=Query(trace_repository.COLLECTION).order_by("__name__"),
        fields=("embedding_model", *trace_repository.READ_FIELDS),
        clear_vector=_clear_vector,
        text_to_embed=_get_trace_text,
    ),
    EmbeddedCorpus(
        name="extractions",
        query=Query(extracted_chunks.COLLECTION).order_by("__name__"),
        fields=("embedding_model", "type", "content"),
        clear_vector=_clear_vector,
        text_to_embed=_get_extraction_text,
    ),
)


def _get_position(page: Sequence[Document]) -> str | None:
    """Return the last path of a page, or None if the page is the last one, so it is not full."""
    return page[-1].reference.path if len(page) == PAGE_SIZE else None


def _get_data(snapshot: Document) -> dict[str, Any]:
    return snapshot.fields
