"""Reads and writes notes in Firestore.

A note is a source, stored at `sources/{source_id}`. Its former revisions are stored below it, at
`sources/{source_id}/note_revisions/{number}`. Its text is split into chunks, which are the passages
that search finds; they are stored at `chunks/{chunk_id}`.

The commit that writes a note also writes its vectors and its postings (which chunks contain a
term), so that search finds the note immediately. Jobs add knowledge cards, clusters and extractions
later. The field `pending` of a chunk contains the steps, such as `card`, that it waits for.

The methods named `build_*` only build writes, which the caller commits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.extractions.groups import ExtractionGroups
from shared.firestore.claims import FIELD as CLAIM
from shared.firestore.claims import build_claim_writes, change_claim, load_claim
from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.retention import PURGE_AT
from shared.firestore.writes import Create, Set, Write, put_if_unchanged
from shared.index.posting_changes import build_postings_writes
from shared.index.postings import KNOWLEDGE
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import Chunks, of_source_query, to_chunk
from shared.knowledge.forgotten_chunks import get_extraction_ids
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.source_repository import (
    FORMER_REVISIONS,
    MOVING,
    STORED_AS,
    Sources,
    build_removed_fields,
    make_revisions_path,
)
from shared.writer.chunk_changes import INDEXED_FIELDS, ChunkVectors, plan_indexed
from shared.writer.chunked_source import build_source_document
from shared.writer.note import Note, NoteContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from shared.core.dates import Clock
    from shared.firestore.claims import Claim
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk
    from shared.text.splitting import Limits
    from shared.writer.chunk_changes import StoredChunks
    from shared.writer.chunked_source import ChunkedSource


MAX_MOVED: Final = 100
"""At most this many notes about deleted chunks move at once to the chunks' sources."""
MAX_CHUNKS: Final = 100
"""At most this many chunks of a note are read. The longest possible note, in a script without
spaces, has some twenty."""
_NOTE: Final = Codec(Note, "source_id", stored_as=STORED_AS)
_REVISION: Final = Codec(NoteContent)


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note as it was read.

    Attributes:
        snapshot: The note's document. A write fails if the document has changed since.
        chunks: The chunks' documents, by id. A write fails if a document has changed since.
    """

    note: Note
    snapshot: Document
    chunks: StoredChunks

    @property
    def is_moving(self) -> bool:
        """Whether the note is being forgotten (taken out of the knowledge base) or restored."""
        return MOVING in (self.snapshot.fields)

    def list_chunks(self) -> list[Chunk]:
        """Return the chunks of the note."""
        snapshots = self.chunks.values()
        return [to_chunk(snapshot.id, snapshot.fields) for snapshot in snapshots]

    def select_unembedded(self, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Return the chunks of a new revision for whose texts no vector is stored."""
        return [chunk for chunk in chunks if not self._has_vector(chunk)]

    def _has_vector(self, chunk: Chunk) -> bool:
        stored = self.chunks.get(chunk.chunk_id)
        data = (stored and stored.fields) or {}
        return "embedding_model" in data and data["content_hash"] == chunk.content_hash


class Notes:
    """Reads notes, and builds the writes that change them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, source_id: str) -> StoredNote | None:
        """Load a note with its chunks. Return None if the note does not exist.

        Costs one round trip.
        """
        query = of_source_query(source_id, MAX_CHUNKS, 1)
        snapshot, chunks = await asyncio.gather(
            self._database.get(Reference(SOURCES, source_id)),
            self._database.find(query.select(INDEXED_FIELDS)),
        )
        note = _to_note(snapshot)
        if note is None:
            return None
        return StoredNote(note, snapshot, {chunk.id: chunk for chunk in chunks})

    async def load_deleted_chunks(
        self, stored: StoredNote, chunks: Iterable[Chunk]
    ) -> StoredChunks:
        """Load the documents of deleted or forgotten chunks that have the ids of new chunks.

        A chunk's id follows from its content, so a new chunk may have the id of a deleted one. The
        document of a deleted chunk remains until the job `index` has removed the chunk from the
        postings.

        Costs one round trip, or none if the note already contains all of the chunks.
        """
        references = [
            Reference(CHUNKS, chunk.chunk_id)
            for chunk in chunks
            if chunk.chunk_id not in stored.chunks
        ]
        snapshots = await self._database.get_all(references, ["indexed"])
        return {snapshot.id: snapshot for snapshot in snapshots}

    async def get_revision(self, source_id: str, number: int, now: datetime) -> NoteContent | None:
        """Load a former revision, or None if it does not exist or can no longer be brought back.

        Costs one round trip.
        """
        snapshot = await self._database.get(_get_revision_reference(source_id, number))
        data = snapshot.fields
        return _REVISION.load(data) if data and data[PURGE_AT] > now else None

    async def move_from_deleted(
        self, deleted: Mapping[str, str | None], limits: Limits, clock: Clock
    ) -> None:
        """Let the notes about deleted chunks be about their sources, where these are stored.

        A note about a highlight whose text has changed stays with it, unless it corrects the former
        text.

        Args:
            deleted: The ids of the chunks, each with that of the chunk that has the changed text.

        Costs one round trip for each `MAX_IN` chunks, and four for each of the notes.
        """
        chunks = Chunks(self._database)
        notes = await chunks.load_notes_about("about_id", list(deleted), MAX_MOVED)
        subjects = {note.about_source_id for note in notes if note.about_source_id}
        stored = {source.source_id for source in await Sources(self._database).get_all([*subjects])}
        for note in notes:
            if note.about_source_id in stored:
                move = partial(self._move, note.source_id, deleted, limits, clock)
                await self._database.retry_on_conflict(move)

    async def _move(
        self, source_id: str, deleted: Mapping[str, str | None], limits: Limits, clock: Clock
    ) -> None:
        stored = await self.get(source_id)
        if stored is None or stored.is_moving or stored.note.about_id not in deleted:
            return
        subject: str | None = stored.note.about_id
        while subject and subject in deleted:
            subject = None if stored.note.content.corrects else deleted[subject]
        content = replace(
            stored.note.content,
            about_id=subject or stored.note.about_source_id,
            about_gone=subject is None,
        )
        now = clock()
        chunked = content.to_chunked_source(source_id, limits, now)
        claim = await load_claim(self._database, content.claim_id)
        writes = await self.build_update_writes(
            stored,
            chunked,
            ChunkVectors("", {}),
            {},
            claim=claim if claim.holder in (None, source_id) else None,
            now=now,
        )
        await self._database.commit(writes)

    def build_creation_writes(
        self,
        chunked: ChunkedSource,
        saved_by: str,
        vectors: ChunkVectors,
        claim: Claim | None,
        now: datetime,
    ) -> list[Write]:
        """Build the writes that store and index a new note.

        Args:
            claim: The claim to the text, or None if another note has it.
        """
        source_id = chunked.source.source_id
        reference = Reference(SOURCES, source_id)
        data = build_source_document(chunked, now) | {
            "text": chunked.source.text,
            "saved_by": saved_by,
            "revision": 1,
            "created_at": now,
            CLAIM: claim.claim_id if claim else None,
        }
        return [
            Create(reference, data),
            *build_claim_writes(claim, source_id),
            *_build_chunk_writes({}, chunked, vectors, now),
        ]

    async def build_update_writes(  # noqa: PLR0913 - what was read for the change, each by its name
        self,
        stored: StoredNote,
        chunked: ChunkedSource,
        vectors: ChunkVectors,
        deleted: StoredChunks,
        *,
        claim: Claim | None,
        now: datetime,
    ) -> list[Write]:
        """Build the writes that replace a note and save its former revision.

        Costs up to three round trips if deleted chunks have extractions.

        Args:
            chunked: The new revision, split into chunks.
            vectors: The vectors of the chunks that are new or have changed.
            deleted: The documents of deleted chunks that the new chunks replace, from
                `load_deleted_chunks`.
            claim: The claim to the new text, or None if another note has it.
        """
        data = build_source_document(chunked, now) | build_removed_fields(chunked.source)
        data |= {"text": chunked.source.text, "revision": stored.note.revision + 1}
        data[CLAIM], claim_writes = change_claim(stored.snapshot, claim)
        kept = {chunk.chunk_id for chunk in chunked.chunks}
        extraction_ids = [
            extraction_id
            for chunk in stored.chunks.values()
            if chunk.id not in kept
            for extraction_id in get_extraction_ids(chunk.fields)
        ]
        return [
            put_if_unchanged(stored.snapshot, data),
            *claim_writes,
            *build_revision_writes(stored.snapshot, now),
            *_build_chunk_writes({**deleted, **stored.chunks}, chunked, vectors, now),
            *await ExtractionGroups(self._database).build_deletion_writes(extraction_ids),
        ]


def build_revision_writes(snapshot: Document, now: datetime) -> list[Write]:
    """Build the write that saves a note's content before a change, as a former revision.

    Args:
        snapshot: The document of a source. If it is not a note, no write is returned.
    """
    note = _to_note(snapshot)
    if note is None:
        return []
    revision = _get_revision_reference(note.source_id, note.revision)
    fields = _REVISION.write(note.content)
    fields |= {"written_at": note.updated_at, PURGE_AT: FORMER_REVISIONS.compute_purge_at(now)}
    return [Set(revision, fields)]


def _get_revision_reference(source_id: str, number: int) -> Reference:
    return Reference(make_revisions_path(source_id), str(number))


def _build_chunk_writes(
    stored: StoredChunks, chunked: ChunkedSource, vectors: ChunkVectors, now: datetime
) -> Iterator[Write]:
    """Yield the writes that turn the stored chunks of a note into those of its new revision."""
    changes = list(plan_indexed(stored, chunked.chunks, vectors, now))
    yield from (change.write for change in changes)
    differences = [change.difference for change in changes if change.difference]
    yield from build_postings_writes(KNOWLEDGE, differences)


def _to_note(snapshot: Document) -> Note | None:
    """Read a note from its document. Return None if the document is missing or not a note."""
    data = snapshot.fields
    return _NOTE.read(snapshot.id, data) if "saved_by" in data else None
