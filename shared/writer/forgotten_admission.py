"""Lets ingest store again what was forgotten, and then deleted for good.

Ingest skips a forgotten text even after it was deleted, until a user restores it with the tool
`forget`. The text then comes back when its file or export is ingested again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.ids import parse_source_id
from shared.firestore.documents import Document, Reference
from shared.firestore.retention import PURGE_AT
from shared.firestore.values import ArrayRemove
from shared.firestore.writes import Set, Write, delete_if_unchanged, put_if_unchanged
from shared.knowledge.forgotten_chunks import COLLECTION as FORGOTTEN_CHUNKS
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.forgotten_repository import ForgottenSource, build_forgotten_fields
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.source_repository import READ_AGAIN
from shared.writer.source_move import MovedElsewhere

if TYPE_CHECKING:
    from shared.firestore.database import Database


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
        MovedElsewhere: Its passages are still being deleted, as the record's `purge_at` shows.
    """
    if PURGE_AT in snapshot.fields:
        raise MovedElsewhere(
            "The passages of this source are just being deleted for good, by the job `purge`."
            " Try again when it has run.",
            details={"source_id": record.source_id},
        )
    if not record.chunk_ids:
        return delete_if_unchanged(snapshot)
    remaining = ForgottenSource(source_id=record.source_id, chunk_ids=record.chunk_ids)
    return put_if_unchanged(snapshot, build_forgotten_fields(remaining))
