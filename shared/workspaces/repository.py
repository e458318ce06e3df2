"""A workspace in Firestore, which contains the documents that a caller uploaded for a `task_id`.

A workspace is the Firestore document `users/{user_id}/rag_tasks/{task_id}`. The path contains the
user, so that no query reads the workspace of another user. A workspace has two subcollections:

- `documents/{hash of the text}` is the state of a document's upload. Searches ignore a document
  until its status is `ready`.
- `parts/{document}.{upload}.{number}` contains passages of that upload. Each commit for an upload
  also updates a part that exists, and therefore fails after an erasure, and after another upload of
  the same text. So a late write neither leaves orphans nor mixes two uploads.

The methods named `build_*` only build writes, which the caller commits together.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import accumulate, zip_longest
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import pack, split
from shared.core.errors import Conflict
from shared.firestore.codec import Codec
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import ERASURE_BEGUN
from shared.firestore.values import SERVER_TIMESTAMP
from shared.firestore.writes import Delete, Set, Update, Write, put_if_unchanged
from shared.workspaces.model import DocumentStatus, IndexProfile, WorkspaceDocument
from shared.workspaces.parts import (
    DocumentPart,
    decode_part,
    decode_vectors,
    encode_part,
    encode_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.firestore.database import Database

WORKSPACES: Final = "rag_tasks"
"""The stored name of the collection, which is older than the word workspace."""
DOCUMENTS: Final = "documents"
PARTS: Final = "parts"
TOUCH_INTERVAL: Final = timedelta(hours=1)
"""The last use of a workspace is stored with this precision, because each update costs a write."""
MAX_SEARCHED_DOCUMENTS: Final = 200
"""A search compares at most this many documents: the latest in the workspace."""
MAX_SEARCHED_PASSAGES: Final = 50_000
"""A search compares at most this many passages, and no further document. That takes some 2 seconds
with vectors of 384 numbers, and with 1,536 some 8 seconds and 350 MB."""
MAX_REUSED_DOCUMENTS: Final = 10
"""The vectors of this many documents are reused for equal passages of another one. Those are mostly
former versions of the same text."""
MAX_PARTS_PER_READ: Final = 100
"""One request reads at most this many parts."""
MAX_WRITTEN_BYTES: Final = 3_000_000
"""One commit writes parts of at most this size, because the emulator accepts requests of 4 MiB."""
MAX_DELETED_PARTS: Final = 8
"""One commit deletes at most this many parts, whose contents count towards Firestore's limit."""
_ERASED: Final = "The document was erased, or uploaded again, during the call. Upload it again."
_CODEC: Final = Codec(
    WorkspaceDocument,
    readers={"status": DocumentStatus, "profile": Codec(IndexProfile).load},
)


class DocumentErased(Conflict):
    """The document was erased, or uploaded again, while a call or a job worked on it."""


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """A workspace as it was read."""

    touched_at: datetime | None
    snapshot: Document

    @property
    def erasing(self) -> bool:
        """Whether the erasure of the workspace has begun."""
        return self.touched_at == ERASURE_BEGUN


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document of a workspace as it was read."""

    workspace: WorkspaceRecord
    document: WorkspaceDocument | None
    snapshot: Document


@dataclass(frozen=True, slots=True)
class SearchableDocuments:
    """The documents of a workspace that a search compares, the latest first."""

    documents: Sequence[WorkspaceDocument]
    truncated: bool


class Workspace:
    """The documents of one workspace."""

    def __init__(self, database: Database, user_id: str, task_id: str) -> None:
        """Refer to a user's workspace. Nothing is read, and the workspace need not exist."""
        self._database = database
        self._parent = f"users/{user_id}/{WORKSPACES}"
        self._task_id = task_id
        self.user_id = user_id
        self.name = f"{WORKSPACES}/{task_id}"
        self.path = f"{self._parent}/{task_id}"

    @property
    def reference(self) -> Reference:
        """The Firestore document of the workspace itself."""
        return Reference(self._parent, self._task_id)

    async def load(self) -> WorkspaceRecord:
        """Read the workspace. Costs one Firestore round trip."""
        snapshot = await self._database.get(self.reference)
        return WorkspaceRecord(snapshot.fields.get("touched_at"), snapshot)

    async def load_document(self, document_id: str) -> DocumentRecord:
        """Read the workspace and one of its documents. Costs one Firestore round trip."""
        workspace, snapshot = await asyncio.gather(
            self.load(), self._database.get(self._get_reference(DOCUMENTS, document_id))
        )
        document = to_document(snapshot) if snapshot.exists else None
        return DocumentRecord(workspace, document, snapshot)

    async def list_searchable(self, profile: IndexProfile) -> SearchableDocuments:
        """Load the documents that a search compares. Costs one Firestore round trip."""
        query = ready_query(self.path, profile, MAX_SEARCHED_DOCUMENTS + 1)
        ready = [to_document(snapshot) for snapshot in await self._database.find(query)]
        totals = accumulate(document.passages for document in ready)
        count = sum(total <= MAX_SEARCHED_PASSAGES for total in totals)
        searched = ready[: min(count, MAX_SEARCHED_DOCUMENTS)]
        return SearchableDocuments(searched, len(searched) < len(ready))

    async def count_waiting(self) -> int:
        """Count the documents that wait for vectors. Costs one Firestore round trip."""
        return await self._database.count(
            Query(f"{self.path}/{DOCUMENTS}").where("status", "==", DocumentStatus.WAITING.value)
        )

    async def load_parts(self, documents: Sequence[WorkspaceDocument]) -> list[list[DocumentPart]]:
        """Load the parts of each document. Costs one Firestore round trip.

        Raises:
            DocumentErased: Some parts no longer exist.
        """
        fields = await self._load_parts(documents, ["ids", "data", "vectors", "embedding_model"])

        def decode() -> list[list[DocumentPart]]:
            return [
                [decode_part(fields[part], document.profile) for part in self._list_parts(document)]
                for document in documents
            ]

        try:
            return await asyncio.to_thread(decode)
        except KeyError:
            raise DocumentErased(_ERASED) from None

    async def load_vectors(self, profile: IndexProfile) -> dict[str, bytes]:
        """Load the compact vectors of the latest `MAX_REUSED_DOCUMENTS`, by passage id.

        Costs two Firestore round trips, or one if there are none.
        """
        snapshots = await self._database.find(ready_query(self.path, profile, MAX_REUSED_DOCUMENTS))
        fields = ["ids", "vectors", "embedding_model"]
        parts = await self._load_parts(list(map(to_document, snapshots)), fields)
        return {
            passage_id: vector
            for part in parts.values()
            for passage_id, vector in zip(part["ids"], decode_vectors(part, profile), strict=True)
        }

    async def store(
        self,
        record: DocumentRecord,
        document: WorkspaceDocument,
        parts: Sequence[DocumentPart],
        now: datetime,
    ) -> None:
        """Store a document with its parts, and delete those of a previous upload.

        Costs one Firestore round trip for each 3 MB.

        Raises:
            WriteConflict: The workspace or the document has changed since it was read.
            DocumentErased: The document has been erased meanwhile, or uploaded again.
        """
        encoded = await asyncio.to_thread(lambda: [encode_part(part) for part in parts])
        sets = [
            Set(reference, fields)
            for reference, fields in zip(self._list_parts(document), encoded, strict=True)
        ]
        previous = self._list_parts(record.document) if record.document else []
        if record.document and record.document.upload_id == document.upload_id:
            previous = []  # the response of an earlier attempt was lost
        deletions = split([Delete(reference) for reference in previous], MAX_DELETED_PARTS)
        blocks = pack(sets, len(sets), MAX_WRITTEN_BYTES, Write.measure)
        first, *others = [
            [*block, *deleted] for block, deleted in zip_longest(blocks, deletions, fillvalue=())
        ]
        status = DocumentStatus.ARRIVING if others else document.status
        workspace = {"touched_at": now}
        if record.workspace.touched_at is None:
            workspace["created_at"] = now
        await self._database.commit(
            [
                put_if_unchanged(record.workspace.snapshot, workspace),
                put_if_unchanged(record.snapshot, _CODEC.write(replace(document, status=status))),
                *first,
            ]
        )
        for block in others:
            await self._commit([self.build_existence_guard(document), *block])
        if others:
            await self.update(document, status=document.status)

    async def store_vectors(
        self,
        document: WorkspaceDocument,
        number: int,
        vectors: Sequence[bytes],
        status: DocumentStatus,
    ) -> WorkspaceDocument:
        """Store the compact vectors of a part, and return the document with its new status.

        Costs one Firestore round trip.

        Args:
            number: The number of the part, from 0.

        Raises:
            DocumentErased: The document has been erased meanwhile, or uploaded again.
        """
        fields = encode_vectors(vectors, document.profile)
        write = Update(self._list_parts(document)[number], fields)
        changes: dict[str, Any] = {"tries": 0}
        if status is not document.status:
            changes["status"] = status
        await self._commit([write, self._build_update(document, changes)])
        return replace(document, **changes)

    async def update(self, document: WorkspaceDocument, **changes: Any) -> WorkspaceDocument:
        """Change fields of a document, and return it. Costs one Firestore round trip.

        Raises:
            DocumentErased: The document has been erased meanwhile, or uploaded again.
        """
        update = self._build_update(document, changes)
        await self._commit([self.build_existence_guard(document), update])
        return replace(document, **changes)

    async def mark_failed(self, document: WorkspaceDocument, reason: str) -> None:
        """Record that a document cannot be embedded. Costs one Firestore round trip.

        Raises:
            DocumentErased: The document has been erased meanwhile, or uploaded again.
        """
        await self.update(document, status=DocumentStatus.FAILED, reason=reason, unpaid=False)

    async def claim(self, record: DocumentRecord, until: datetime) -> bool:
        """Postpone a waiting document's next embedding, so that only this caller embeds it now.

        Costs one Firestore round trip.

        Returns:
            False if another caller was faster.
        """
        changes = _CODEC.write(SimpleNamespace(next_at=until), only={"next_at"})
        try:
            await self._database.commit([put_if_unchanged(record.snapshot, changes)])
        except WriteConflict:
            return False
        return True

    async def touch(self, workspace: WorkspaceRecord, now: datetime) -> None:
        """Record a use of the workspace, unless a recent use is stored."""
        if workspace.touched_at is not None and now - workspace.touched_at >= TOUCH_INTERVAL:
            write = put_if_unchanged(workspace.snapshot, {"touched_at": now})
            await self._database.commit_skipping_conflicts([write])

    def build_existence_guard(self, document: WorkspaceDocument) -> Write:
        """Build a write that fails, together with its commit, if the upload was erased."""
        return Update(self._list_parts(document)[0], {"kept_at": SERVER_TIMESTAMP})

    def build_payment(self, document: WorkspaceDocument) -> Write:
        """Build the write that records that an answer has quoted an unpaid document."""
        return self._build_update(document, {"unpaid": False})

    def _build_update(self, document: WorkspaceDocument, changes: dict[str, Any]) -> Write:
        reference = self._get_reference(DOCUMENTS, document.document_id)
        return Update(reference, _CODEC.write(SimpleNamespace(**changes), only=changes))

    async def _commit(self, writes: Sequence[Write]) -> None:
        """Commit writes for an upload, one of which fails if the upload was erased.

        Raises:
            DocumentErased: The document has been erased meanwhile, or uploaded again.
        """
        try:
            await self._database.commit(writes)
        except WriteConflict:
            raise DocumentErased(_ERASED) from None

    async def _load_parts(
        self, documents: Sequence[WorkspaceDocument], fields: Sequence[str]
    ) -> dict[Reference, dict[str, Any]]:
        """Load fields of the parts that exist, in several requests at once if necessary."""
        references = [part for document in documents for part in self._list_parts(document)]
        blocks = await asyncio.gather(
            *(
                self._database.get_all(block, fields)
                for block in split(references, MAX_PARTS_PER_READ)
            )
        )
        return {part.reference: part.fields for block in blocks for part in block}

    def _list_parts(self, document: WorkspaceDocument) -> list[Reference]:
        prefix = f"{document.document_id}.{document.upload_id}"
        return [self._get_reference(PARTS, f"{prefix}.{n}") for n in range(document.parts)]

    def _get_reference(self, collection: str, name: str) -> Reference:
        return Reference(f"{self.path}/{collection}", name)


def to_document(snapshot: Document) -> WorkspaceDocument:
    """Read a workspace document from the Firestore document that stores it."""
    return _CODEC.load(snapshot.fields)


def ready_query(path: str, profile: IndexProfile, limit: int) -> Query:
    """Build the query for the documents of a workspace that can be searched, the latest first."""
    query = (
        Query(f"{path}/{DOCUMENTS}")
        .where("status", "==", DocumentStatus.READY.value)
        .where("profile", "==", asdict(profile))
    )
    return query.order_by("uploaded_at", descending=True).limit(limit)
