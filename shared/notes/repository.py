"""Notes in Firestore: `sources/{source_id}`, its chunks, and `note_revisions/{number}` below it.

The commit that writes a note also writes its postings and its vectors. So search finds it at once,
without a queue; knowledge cards, clusters and extractions follow with the jobs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption

from shared.extractions.extracted_chunks import removal_writes
from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged
from shared.index.facets import vector_index_entries
from shared.index.indexed_state import NOT_INDEXED, indexed_state, read_indexed_state
from shared.index.posting_changes import IndexDifference, postings_writes
from shared.index.postings import KNOWLEDGE
from shared.index.stored_vector import NO_VECTOR, vector_fields
from shared.knowledge import chunk_repository as documents
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import of_source_query
from shared.knowledge.ingestion import source_document
from shared.knowledge.source_repository import COLLECTION, MOVING, STORED_AS, removed_fields
from shared.notes.note import Note, NoteContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncDocumentReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.ingestion import ChunkedSource

    Snapshots = Mapping[str, DocumentSnapshot[Any]]
    """Documents of chunks, by chunk id."""

REVISIONS: Final = "note_revisions"
REVISION_RETENTION: Final = timedelta(days=30)
"""A former revision can be brought back for this time."""
MAX_CHUNKS: Final = 100
"""A note has far fewer chunks: the longest has some twenty, in a script without spaces."""
_NOTE: Final = Codec(Note, "source_id", stored_as=STORED_AS)
_REVISION: Final = Codec(NoteContent)
_CHUNK_FIELDS: Final = (
    *documents.READ_FIELDS,
    *("indexed", "extracted", "content_hash", "embedding_model", "created_at"),
)


@dataclass(frozen=True, slots=True)
class ChunkVectors:
    """The vectors of chunks.

    Attributes:
        model: The model of the vectors.
        by_chunk: The vectors by chunk id. A chunk without one waits to be embedded.
    """

    model: str
    by_chunk: Mapping[str, Vector]


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note as it was read.

    Attributes:
        note: The note.
        snapshot: Its document. A write fails if the document has changed since.
        chunks: The documents of its chunks, by id. A write fails if one has changed since.
    """

    note: Note
    snapshot: DocumentSnapshot[Any]
    chunks: Snapshots

    @property
    def is_moving(self) -> bool:
        """Whether it is being forgotten or restored."""
        return MOVING in (self.snapshot.to_dict() or {})

    def stored_chunks(self) -> list[Chunk]:
        """Return its chunks."""
        chunks = self.chunks.values()
        return [documents.to_chunk(chunk.id, chunk.to_dict() or {}) for chunk in chunks]

    def to_embed(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Return those chunks of a new revision whose texts have no vector yet."""
        return [chunk for chunk in chunks if not self._has_vector(chunk)]

    def _has_vector(self, chunk: Chunk) -> bool:
        stored = self.chunks.get(chunk.chunk_id)
        data = (stored and stored.to_dict()) or {}
        return "embedding_model" in data and data["content_hash"] == chunk.content_hash


class Notes:
    """The notes, and the writes that change them."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database

    async def get(self, source_id: str) -> StoredNote | None:
        """Load a note with its chunks. Return None if there is no such note.

        Costs one round trip.
        """
        query = of_source_query(self._database.client, source_id, MAX_CHUNKS, 1)
        snapshot, chunks = await asyncio.gather(
            self._database.get(self._get_reference(source_id)),
            self._database.find(query.select(_CHUNK_FIELDS)),
        )
        note = _to_note(snapshot)
        if note is None:
            return None
        return StoredNote(note, snapshot, {chunk.id: chunk for chunk in chunks})

    async def remains(self, stored: StoredNote, chunks: Iterable[Chunk]) -> Snapshots:
        """Load what is left of those chunks, if anything, that were forgotten or deleted.

        They stay until the index job has removed them from the postings. Costs one round trip, or
        none if the note has all of the chunks.
        """
        references = [
            self._database.document(CHUNKS, chunk.chunk_id)
            for chunk in chunks
            if chunk.chunk_id not in stored.chunks
        ]
        snapshots = await self._database.get_all(references, ["indexed"])
        return {snapshot.id: snapshot for snapshot in snapshots}

    async def get_revision(self, source_id: str, number: int, now: datetime) -> NoteContent | None:
        """Load a former revision that can still be brought back. Costs one round trip."""
        data = (await self._database.get(self._get_revision_reference(source_id, number))).to_dict()
        return _REVISION.load(data) if data and data["purge_at"] > now else None

    def create(
        self, note: ChunkedSource, saved_by: str, vectors: ChunkVectors, now: datetime
    ) -> list[Write]:
        """Build the writes that store and index a new note."""
        source_id = note.source.source_id
        reference = self._get_reference(source_id)
        data = source_document(note, now) | {
            "text": note.source.text,
            "saved_by": saved_by,
            "revision": 1,
            "created_at": now,
        }
        return [
            lambda batch: batch.create(reference, data),
            *self._build_chunk_writes(note.chunks, {}, {}, vectors, now),
        ]

    def update(
        self,
        stored: StoredNote,
        note: ChunkedSource,
        vectors: ChunkVectors,
        remains: Snapshots,
        now: datetime,
    ) -> list[Write]:
        """Build the writes that replace a note, and keep its former revision."""
        former = stored.note
        data = source_document(note, now) | removed_fields(note.source)
        data |= {"text": note.source.text, "revision": former.revision + 1}
        return [
            put_if_unchanged(stored.snapshot, data),
            *self.keep_revision(stored.snapshot, now),
            *self._build_chunk_writes(note.chunks, stored.chunks, remains, vectors, now),
        ]

    def keep_revision(self, snapshot: DocumentSnapshot[Any], now: datetime) -> list[Write]:
        """Build the write that keeps a note as it is before a change; none for another source."""
        note = _to_note(snapshot)
        if note is None:
            return []
        revision = self._get_revision_reference(note.source_id, note.revision)
        kept = _REVISION.write(note.content)
        kept |= {"written_at": note.updated_at, "purge_at": now + REVISION_RETENTION}
        return [lambda batch: batch.set(revision, kept)]

    def _build_chunk_writes(
        self,
        chunks: Iterable[Chunk],
        stored: Snapshots,
        remains: Snapshots,
        vectors: ChunkVectors,
        now: datetime,
    ) -> Iterator[Write]:
        """Build the writes of chunks, of obsolete ones, and of their postings."""
        differences = []
        obsolete = dict(stored)
        for chunk in chunks:
            snapshot = obsolete.pop(chunk.chunk_id, None)
            vector = vectors.by_chunk.get(chunk.chunk_id)
            if snapshot is None:
                fields = vector_fields(vector, vectors.model) if vector else {}
                rest = remains.get(chunk.chunk_id)
                write, difference = self._build_creation(chunk, rest, fields, now)
            else:
                write, difference = _build_replacement(chunk, snapshot, vector, vectors.model, now)
            differences.append(difference)
            yield write
        for snapshot in obsolete.values():
            data = snapshot.to_dict() or {}
            differences.append(IndexDifference(snapshot.id, read_indexed_state(data), NOT_INDEXED))
            yield _build_deletion(snapshot, now)
            yield from removal_writes(self._database, data.get("extracted") or {})
        yield from postings_writes(self._database, KNOWLEDGE, differences)

    def _build_creation(
        self,
        chunk: Chunk,
        rest: DocumentSnapshot[Any] | None,
        vector: dict[str, Any],
        now: datetime,
    ) -> tuple[Write, IndexDifference]:
        """Build the write of a new chunk, over what is left of a deleted one, if anything."""
        state = indexed_state(replace(chunk, dated_at=now))
        steps = ("card", "extract", "cluster" if vector else "embed")
        data = documents.new_document(chunk, now) | vector
        data |= {"pending": dict.fromkeys(steps, now), "indexed": state.document()}
        data |= {"facets": vector_index_entries(state.facets)}
        before = read_indexed_state((rest and rest.to_dict()) or {})
        difference = IndexDifference(chunk.chunk_id, before, state)
        if rest:
            return put_if_unchanged(rest, data), difference
        new = {name: value for name, value in data.items() if value is not DELETE_FIELD}
        reference = self._database.document(CHUNKS, chunk.chunk_id)
        return (lambda batch: batch.create(reference, new)), difference

    def _get_reference(self, source_id: str) -> AsyncDocumentReference:
        return self._database.document(COLLECTION, source_id)

    def _get_revision_reference(self, source_id: str, number: int) -> AsyncDocumentReference:
        return self._database.document(f"{COLLECTION}/{source_id}/{REVISIONS}", str(number))


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, to prove that each has its index."""
    yield of_source_query(client, "a", 1, 1)


def _build_replacement(
    chunk: Chunk, snapshot: DocumentSnapshot[Any], vector: Vector | None, model: str, now: datetime
) -> tuple[Write, IndexDifference]:
    """Build the write of a chunk whose text stays, with its difference in the index."""
    data = snapshot.to_dict() or {}
    former = documents.to_chunk(snapshot.id, data)
    by_jobs = {name: getattr(former, name) for name in documents.BY_JOBS}
    state = indexed_state(replace(chunk, **by_jobs))
    update = documents.edit_update(chunk, data, now) | documents.step_done("index")
    update |= {"indexed": state.document(), "facets": vector_index_entries(state.facets)}
    if vector:
        update |= vector_fields(vector, model) | documents.step_done("embed")
        update |= documents.step_pending("cluster", now)
    elif data["content_hash"] != chunk.content_hash:
        update |= NO_VECTOR | documents.step_pending("embed", now)
    option = LastUpdateOption(snapshot.update_time)
    difference = IndexDifference(snapshot.id, read_indexed_state(data), state)
    return (lambda batch: batch.update(snapshot.reference, update, option)), difference


def _build_deletion(snapshot: DocumentSnapshot[Any], now: datetime) -> Write:
    """Build the write that marks a chunk as deleted, and nothing of it as indexed.

    The index job removes its point from the map, and then the chunk.
    """
    gone = dict.fromkeys(("indexed", "extracted"), DELETE_FIELD)
    return put_if_unchanged(snapshot, documents.deletion_update(now) | gone)


def _to_note(snapshot: DocumentSnapshot[Any]) -> Note | None:
    """Read a note from its document, or return None if that is missing or another source."""
    data = snapshot.to_dict() or {}
    return _NOTE.read(snapshot.id, data) if "saved_by" in data else None
