"""Deletes for good what was forgotten more than 30 days ago, and lets ingest store it again.

Ingest skips a forgotten text even after it was deleted, until a user restores it with the tool
`forget`. The text then comes back when its file or export is ingested again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD, ArrayRemove
from shared.firestore.writes import Set, Update, Write, delete_if_unchanged, put_if_unchanged
from shared.knowledge.chunk import parse_source_id
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.forgotten_repository import ForgottenSource, build_forgotten_fields
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.source_repository import READ_AGAIN
from shared.writer.forgotten_chunks import (
    CHUNKS_PER_COMMIT,
    forgotten_with_source_query,
)
from shared.writer.forgotten_chunks import (
    COLLECTION as FORGOTTEN_CHUNKS,
)
from shared.writer.source_move import MovedElsewhere

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from shared.firestore.database import Database


class ForgottenContents:
    """What was forgotten, until it is deleted for good."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def delete_expired(self, now: datetime) -> AsyncIterator[int]:
        """Delete what can no longer be restored. Yield the number of chunks in each commit.

        First come the chunks that were forgotten alone, then sources with their chunks.
        """
        while chunks := await self._database.find(expired_query(Query(FORGOTTEN_CHUNKS), now)):
            contents = dict.fromkeys(
                ("document", "extractions", "extraction_ids", "expires_at"), DELETE_FIELD
            )
            writes = [put_if_unchanged(chunk, contents) for chunk in chunks]
            yield await self._database.commit_skipping_conflicts(writes)
        sources = Query(FORGOTTEN_SOURCES)
        while records := await self._database.find(expired_query(sources, now)):
            for record in records:
                async for deleted in self._delete_source(record):
                    yield deleted

    async def _delete_source(self, record: Document) -> AsyncIterator[int]:
        """Delete a source and the chunks that were forgotten with it, unless it is restored."""
        deletion = put_if_unchanged(record, {"document": DELETE_FIELD})
        if not await self._database.commit_skipping_conflicts([deletion]):
            return
        query = forgotten_with_source_query(record.id).select([])
        while chunks := await self._database.find(query):
            writes = [delete_if_unchanged(chunk) for chunk in chunks]
            yield await self._database.commit_skipping_conflicts(writes)
        finished = {"expires_at": DELETE_FIELD}
        await self._database.commit([Update(record.reference, finished)])

    async def count_expired(self, now: datetime) -> int:
        """Count the chunks and sources to delete. Costs two round trips."""
        counts = [
            await self._database.count(expired_query(Query(name), now))
            for name in (FORGOTTEN_CHUNKS, FORGOTTEN_SOURCES)
        ]
        return sum(counts)


async def build_chunk_admission(database: Database, chunk_id: str) -> list[Write] | None:
    """Build the writes that let ingest store a chunk again whose text was deleted for good.

    Return None if the chunk was never forgotten. Costs two round trips.
    """
    forgotten = await database.get(Reference(FORGOTTEN_CHUNKS, chunk_id))
    if not forgotten.exists:
        return None
    source_id = parse_source_id(chunk_id)
    record = Reference(FORGOTTEN_SOURCES, source_id)
    chunk_ids = ArrayRemove([chunk_id])
    writes: list[Write] = [
        delete_if_unchanged(forgotten),
        Set(record, {"chunk_ids": chunk_ids}, merge=True),
    ]
    source = await database.get(Reference(SOURCES, source_id))
    if source.exists:
        writes.append(put_if_unchanged(source, READ_AGAIN))
    return writes


def build_source_admission(record: ForgottenSource, snapshot: Document) -> Write:
    """Build the write that lets ingest store a source again that was deleted for good.

    Raises:
        MovedElsewhere: Its passages are still being deleted, as the record's expiry shows.
    """
    if "expires_at" in snapshot.fields:
        raise MovedElsewhere(
            "The passages of this source are just being deleted for good, by the job `purge`."
            " Try again when it has run.",
            details={"source_id": record.source_id},
        )
    if not record.chunk_ids:
        return delete_if_unchanged(snapshot)
    remaining = ForgottenSource(source_id=record.source_id, chunk_ids=record.chunk_ids)
    return put_if_unchanged(snapshot, build_forgotten_fields(remaining))


def expired_query(collection: Query, now: datetime) -> Query:
    """Build the query for what can no longer be restored, the oldest first."""
    query = collection.where("expires_at", "<=", now).order_by("expires_at")
    return query.select(["expires_at"]).limit(CHUNKS_PER_COMMIT)
