"""A workspace in Firestore, which contains the documents that a caller uploaded for a `task_id`.

A workspace is the Firestore document `users/{user_id}/rag_tasks/{task_id}`. The path contains the
user, so that no query reads the workspace of another user. A workspace has three subcollections:

- `documents/{hash of the text}` stores the state of a document's upload. Its status is written
  last, so searches ignore a document until the status is `ready`.
- `passages/{hash of the cleaned text}` is a passage, stored once for all documents that contain it.
  Its `facets` list these documents. The id determines the text, so concurrent writers of a passage
  write the same text.
- `parts/{document}.{upload}.{number}` contains the spans and the terms of passages, see
  `shared.workspaces.model`. `parts/{document}.{upload}` is an empty marker, whose existence says
  that the upload was not erased: every commit for the document updates the marker, and therefore
  fails after an erasure. So a late write neither leaves orphans nor mixes with a later upload of
  the same text.

The methods named `build_*` only build writes, which the caller commits together.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import split
from shared.core.errors import Conflict
from shared.firestore.codec import Codec
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import ERASURE_BEGUN
from shared.firestore.values import SERVER_TIMESTAMP, ArrayUnion
from shared.firestore.writes import Create, Delete, Set, Update, Write, put_if_unchanged
from shared.index.stored_vector import (
    COMPACT,
    build_vector_fields,
    from_compact,
    read_compact,
)
from shared.index.vector_index import (
    MAX_ARRAY_CONTAINS_ANY,
    Documents,
    Neighbour,
    make_distance_key,
)
from shared.workspaces.model import (
    DocumentPart,
    DocumentStatus,
    IndexProfile,
    WorkspaceDocument,
    WorkspacePassage,
    upload_facet,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database

WORKSPACES: Final = "rag_tasks"
"""The stored name of the collection, which is older than the word workspace."""
DOCUMENTS: Final = "documents"
PASSAGES: Final = "passages"
PARTS: Final = "parts"
TOUCH_INTERVAL: Final = timedelta(hours=1)
"""The last use of a workspace is stored with this precision, because each update costs a write."""
MAX_DOCUMENTS_PER_READ: Final = 300
"""One request reads at most this many Firestore documents."""
MAX_DELETED_PARTS: Final = 10
"""One commit deletes at most this many parts, whose contents count towards Firestore's limit."""
MAX_WRITTEN_PARTS: Final = 3
"""One commit writes at most this many parts. A part has up to 900 kB, and the emulator accepts
requests of up to 4 MiB."""
_CODEC: Final = Codec(
    WorkspaceDocument,
    stored_as={
        "upload_id": "arrival",
        "profile": "making",
        "uploaded_at": "brought_at",
        "leased_until": "worked_until",
    },
    readers={"status": DocumentStatus, "profile": Codec(IndexProfile).load},
)


class DocumentErased(Conflict):
    """The document was erased while a call or a job worked on it."""


@dataclass(frozen=True, slots=True)
class StoredPassages:
    """What is stored of some passages.

    Attributes:
        ids: The ids of the passages that are stored for the upload, with or without a vector.
    """

    vectors: Mapping[str, Vector]
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """A workspace as it was read.

    Attributes:
        touched_at: When the workspace was last used, or None if it is new.
    """

    touched_at: datetime | None
    snapshot: Document

    @property
    def erasing(self) -> bool:
        """Whether the erasure of the workspace has begun."""
        return self.touched_at == ERASURE_BEGUN


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document of a workspace as it was read.

    Attributes:
        document: The document, or None if it is not stored.
    """

    workspace: WorkspaceRecord
    document: WorkspaceDocument | None
    snapshot: Document


class PassageIndex(Documents[WorkspacePassage]):
    """The searchable passages of some documents of a workspace."""

    def __init__(
        self, database: Database, path: str, documents: Sequence[WorkspaceDocument]
    ) -> None:
        super().__init__(database, f"{path}/{PASSAGES}", ["text"], _to_passage)
        facets = [upload_facet(document) for document in documents]
        self._blocks = list(split(facets, MAX_ARRAY_CONTAINS_ANY))

    async def find_nearest(
        self,
        vector: Vector,
        limit: int,
        facets: Sequence[str] = (),  # noqa: ARG002 - workspaces are searched without filters
        terms: Sequence[str] = (),  # noqa: ARG002 - their postings are complete
    ) -> list[Neighbour[WorkspacePassage]]:
        """Load the nearest passages.

        Costs one Firestore round trip, with one request for every 30 documents, because a query can
        filter by at most `MAX_ARRAY_CONTAINS_ANY` facets.
        """
        nearest = super().find_nearest
        blocks = await asyncio.gather(*(nearest(vector, limit, block) for block in self._blocks))
        # A passage that occurs in several documents may be found by several requests.
        by_id = {neighbour.document.id: neighbour for block in blocks for neighbour in block}
        return sorted(by_id.values(), key=make_distance_key)[:limit]


class Workspace:
    """The documents of one workspace.

    Attributes:
        name: The path of the workspace below its user.
    """

    def __init__(self, database: Database, user_id: str, task_id: str) -> None:
        """Refer to a user's workspace. Nothing is read, and the workspace need not exist."""
        self._database = database
        self._parent = f"users/{user_id}/{WORKSPACES}"
        self._task_id = task_id
        self.user_id = user_id
        self.name = f"{WORKSPACES}/{task_id}"
        self.path = f"{self._parent}/{task_id}"

    async def load(self) -> WorkspaceRecord:
        """Read the workspace. Costs one Firestore round trip."""
        snapshot = await self._database.get(self.reference)
        fields = snapshot.fields
        return WorkspaceRecord(fields.get("touched_at"), snapshot)

    async def load_document(self, document_id: str) -> DocumentRecord:
        """Read the workspace and one of its documents. Costs one Firestore round trip."""
        workspace, snapshot = await asyncio.gather(
            self.load(), self._database.get(self._get_reference(DOCUMENTS, document_id))
        )
        document = to_document(snapshot) if snapshot.exists else None
        return DocumentRecord(workspace, document, snapshot)

    async def list_ready(self, profile: IndexProfile, limit: int) -> list[WorkspaceDocument]:
        """Load the documents that can be searched, the latest first.

        Costs one Firestore round trip.
        """
        query = ready_query(self.path, profile, limit)
        return [to_document(snapshot) for snapshot in await self._database.find(query)]

    async def count_waiting(self) -> int:
        """Count the documents that wait for vectors. Costs one Firestore round trip."""
        return await self._database.count(
            Query(f"{self.path}/{DOCUMENTS}").where("status", "==", DocumentStatus.WAITING.value)
        )

    async def load_parts(
        self, documents: Sequence[WorkspaceDocument]
    ) -> dict[str, list[DocumentPart]]:
        """Load the parts of documents that exist, by document id.

        Costs one Firestore round trip.
        """
        names_by_document = {
            document.document_id: list_part_names(document) for document in documents
        }
        references = [
            self._get_reference(PARTS, name)
            for names in names_by_document.values()
            for name in names
        ]
        snapshots = await self._get_all(references, ["data"])
        encoded = {snapshot.id: snapshot.get("data") for snapshot in snapshots}
        parts = await asyncio.to_thread(
            lambda: {name: DocumentPart.from_bytes(stored) for name, stored in encoded.items()}
        )
        return {
            document_id: [parts[name] for name in names if name in parts]
            for document_id, names in names_by_document.items()
        }

    async def load_contents(self, document: WorkspaceDocument) -> list[DocumentPart]:
        """Load all parts of a document. Costs one Firestore round trip.

        Raises:
            DocumentErased: Some parts no longer exist.
        """
        parts = (await self.load_parts([document]))[document.document_id]
        if len(parts) < document.parts:
            raise DocumentErased(
                "The document was erased while this call read it. Upload it again."
            )
        return parts

    async def load_stored_passages(
        self, passage_ids: Sequence[str], document: WorkspaceDocument
    ) -> StoredPassages:
        """Load the vectors of a document's passages, and which passages its upload has stored.

        A vector of another model or dimension counts as missing. Costs one Firestore round trip.
        """
        # Exact vectors are loaded, because a call that continues an upload must rank passages like
        # one that uploads all of them.
        fields = await self._load_passages(passage_ids, ["embedding", "embedding_model", "facets"])
        facet = upload_facet(document)
        profile = document.profile
        vectors = {
            passage_id: tuple(data["embedding"])
            for passage_id, data in fields.items()
            if "embedding" in data and data.get("embedding_model") == profile.model
        }
        return StoredPassages(
            {
                passage_id: vector
                for passage_id, vector in vectors.items()
                if len(vector) == profile.dimension
            },
            frozenset(
                passage_id for passage_id, data in fields.items() if facet in data.get("facets", ())
            ),
        )

    async def load_texts_without_vector(
        self, passage_ids: Sequence[str], profile: IndexProfile
    ) -> dict[str, str]:
        """Load the texts of the passages that still need a vector, by passage id.

        Costs one Firestore round trip.
        """
        fields = await self._load_passages(passage_ids, ["text", COMPACT, "embedding_model"])
        vectors = await self._load_vectors(fields, profile)
        return {
            passage_id: data["text"]
            for passage_id, data in fields.items()
            if passage_id not in vectors
        }

    def build_upload_writes(
        self, record: DocumentRecord, document: WorkspaceDocument, now: datetime
    ) -> list[Write]:
        """Build the writes that begin an upload. They fail if the document has changed."""
        workspace = {"touched_at": now}
        if record.workspace.touched_at is None:
            workspace["created_at"] = now
        marker = self._get_marker(document)
        writes = [
            put_if_unchanged(record.workspace.snapshot, workspace),
            put_if_unchanged(record.snapshot, _CODEC.write(document)),
            Create(marker, {"kept_at": now}),
        ]
        if previous := record.document:
            # Deleting the marker stops the previous upload. Any parts beyond the limit remain until
            # the workspace is erased.
            parts = [self._get_reference(PARTS, name) for name in list_part_names(previous)]
            obsolete = [self._get_marker(previous), *parts]
            writes += [Delete(reference) for reference in obsolete[:MAX_DELETED_PARTS]]
        return writes

    def build_touch_writes(self, workspace: WorkspaceRecord, now: datetime) -> list[Write]:
        """Build the write that records a use of the workspace, unless a recent use is stored."""
        if workspace.touched_at is None or now - workspace.touched_at < TOUCH_INTERVAL:
            return []
        return [put_if_unchanged(workspace.snapshot, {"touched_at": now})]

    def build_lease_write(self, record: DocumentRecord, until: datetime) -> Write:
        """Build the write that gives a call the right to embed the document until a time.

        The write fails if another call was faster.
        """
        return _build_update(record, leased_until=until)

    def build_deferral_write(self, record: DocumentRecord, payment: str, now: datetime) -> Write:
        """Build the write that leaves the embedding to a job.

        Args:
            payment: The random id of the payment for which the caller gets no answer yet.
        """
        status = DocumentStatus.WAITING
        return _build_update(
            record, status=status, next_at=now, tries=0, reason=None, prepaid=payment
        )

    def build_spend_prepayment_write(self, record: DocumentRecord) -> Write:
        """Build the write that records that the caller got the answer they had paid for.

        The write fails if the document has changed, so a payment is spent only once.
        """
        return _build_update(record, prepaid=None)

    async def mark_failed(self, record: DocumentRecord, reason: str) -> None:
        """Record that a document cannot be embedded, unless the document has changed.

        Costs one Firestore round trip.
        """
        write = _build_update(record, status=DocumentStatus.FAILED, reason=reason)
        await self._database.commit_skipping_conflicts([write])

    async def store_passages(
        self,
        document: WorkspaceDocument,
        texts: Mapping[str, str],
        vectors: Mapping[str, Vector],
    ) -> None:
        """Store passages of a document, with their vectors if they exist.

        Costs one Firestore round trip.

        Raises:
            DocumentErased: The document has since been erased.
        """
        facet = upload_facet(document)
        writes: list[Write] = []
        for passage_id, text in texts.items():
            fields: dict[str, Any] = {"text": text, "facets": ArrayUnion([facet])}
            if vector := vectors.get(passage_id):
                fields |= build_vector_fields(vector, document.profile.model)
            writes.append(Set(self._get_reference(PASSAGES, passage_id), fields, merge=True))
        await self._commit(document, writes)

    async def store_parts(self, document: WorkspaceDocument, parts: Sequence[DocumentPart]) -> None:
        """Store the contents of a document. Costs one Firestore round trip per three parts.

        Raises:
            DocumentErased: The document has since been erased.
        """
        encoded = await asyncio.to_thread(lambda: [part.to_bytes() for part in parts])
        writes = [
            Set(self._get_reference(PARTS, name), {"data": part}, merge=True)
            for name, part in zip(list_part_names(document), encoded, strict=True)
        ]
        for block in split(writes, MAX_WRITTEN_PARTS):
            await self._commit(document, block)

    async def update(self, document: WorkspaceDocument, **changes: Any) -> WorkspaceDocument:
        """Change fields of a document, and return the changed document. Costs one round trip.

        Raises:
            DocumentErased: The document has since been erased.
        """
        reference = self._get_reference(DOCUMENTS, document.document_id)
        fields = _to_stored_fields(changes)
        await self._commit(document, [Update(reference, fields)])
        return replace(document, **changes)

    def build_existence_guard(self, document: WorkspaceDocument) -> Write:
        """Build a write that fails, together with its commit, if the document was erased."""
        marker = self._get_marker(document)
        return Update(marker, {"kept_at": SERVER_TIMESTAMP})

    async def all_exist(self, documents: Sequence[WorkspaceDocument]) -> bool:
        """Return whether all documents and their markers exist.

        Costs one Firestore round trip.
        """
        markers = [self._get_marker(document) for document in documents]
        references = [
            self._get_reference(DOCUMENTS, document.document_id) for document in documents
        ]
        snapshots = await self._database.get_all([*markers, *references], ["arrival"])
        return len(snapshots) == 2 * len(documents)

    def passage_index(self, documents: Sequence[WorkspaceDocument]) -> PassageIndex:
        """Return the searchable passages of these documents."""
        return PassageIndex(self._database, self.path, documents)

    @property
    def reference(self) -> Reference:
        """The Firestore document of the workspace itself."""
        return Reference(self._parent, self._task_id)

    async def _commit(self, document: WorkspaceDocument, writes: Sequence[Write]) -> None:
        """Commit writes for a document, on the condition that it was not erased.

        Raises:
            DocumentErased: The document has since been erased.
        """

        async def attempt() -> None:
            try:
                await self._database.commit([self.build_existence_guard(document), *writes])
            except WriteConflict:
                if await self.all_exist([document]):
                    raise  # another writer was faster, so the commit is retried
                message = "The document was erased during its upload. Upload it again."
                raise DocumentErased(message) from None

        await self._database.retry_on_conflict(attempt)

    def _get_marker(self, document: WorkspaceDocument) -> Reference:
        return self._get_reference(PARTS, f"{document.document_id}.{document.upload_id}")

    async def _load_passages(
        self, passage_ids: Sequence[str], fields: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        references = [self._get_reference(PASSAGES, passage_id) for passage_id in passage_ids]
        snapshots = await self._get_all(references, fields)
        return {snapshot.id: snapshot.fields for snapshot in snapshots}

    async def _load_vectors(
        self, fields: Mapping[str, dict[str, Any]], profile: IndexProfile
    ) -> dict[str, Vector]:
        """Load the compact vectors that passages have under this profile, by passage id."""
        same_model = {
            passage_id: data
            for passage_id, data in fields.items()
            if data.get("embedding_model") == profile.model
        }
        compact = read_compact(same_model, profile.dimension)
        return {passage_id: from_compact(data) for passage_id, data in compact.items()}

    async def _get_all(
        self, references: Sequence[Reference], fields: Sequence[str]
    ) -> list[Document]:
        """Read the existing documents among the references, in several requests if necessary."""
        blocks = await asyncio.gather(
            *(
                self._database.get_all(block, fields)
                for block in split(references, MAX_DOCUMENTS_PER_READ)
            )
        )
        return [snapshot for block in blocks for snapshot in block]

    def _get_reference(self, collection: str, name: str) -> Reference:
        return Reference(f"{self.path}/{collection}", name)


def to_document(snapshot: Document) -> WorkspaceDocument:
    """Read a workspace document from the Firestore document that stores it."""
    return _CODEC.load(snapshot.fields)


def list_part_names(document: WorkspaceDocument) -> list[str]:
    """Return the names of a document's parts, in order."""
    prefix = f"{document.document_id}.{document.upload_id}"
    return [f"{prefix}.{number}" for number in range(document.parts)]


def ready_query(path: str, profile: IndexProfile, limit: int) -> Query:
    """Build the query for the documents of a workspace that can be searched, the latest first."""
    query = (
        Query(f"{path}/{DOCUMENTS}")
        .where("status", "==", DocumentStatus.READY.value)
        .where("making", "==", asdict(profile))
    )
    return query.order_by("brought_at", descending=True).limit(limit)


def _to_passage(passage_id: str, data: dict[str, Any]) -> WorkspacePassage:
    return WorkspacePassage(passage_id, data["text"])


def _build_update(record: DocumentRecord, **changes: Any) -> Write:
    """Build the write that changes fields. It fails if the document has changed since."""
    return put_if_unchanged(record.snapshot, _to_stored_fields(changes))


def _to_stored_fields(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changed fields under their stored names."""
    return _CODEC.write(SimpleNamespace(**changes), only=changes)
