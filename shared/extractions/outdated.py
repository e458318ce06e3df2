"""Queues chunks whose extractions were stored under an older schema version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.extractions.model import SCHEMA_VERSION
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import build_step_pending

if TYPE_CHECKING:
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

PAGE_SIZE: Final = 200
"""One commit queues at most this many chunks."""
_VERSION: Final = "extraction_schema"
"""The field of a chunk with the schema version of its extractions."""


async def requeue_outdated(database: Database, now: datetime, version: int = SCHEMA_VERSION) -> int:
    """Queue all chunks with an older schema version for extraction, and return how many.

    Costs one read if there are none. Queuing a chunk removes its version, so that the chunk is
    queued only once, and the next run continues where a killed run stopped.
    """
    count = 0
    while snapshots := await database.find(outdated_query(database.client, version)):
        count += await database.commit_skipping_conflicts(
            [_build_requeue_write(snapshot, now) for snapshot in snapshots]
        )
    return count


def outdated_query(client: AsyncClient, version: int) -> AsyncQuery:
    """Build the query for the chunks whose extractions have an older schema version."""
    older = FieldFilter(_VERSION, "<", version)
    return client.collection(CHUNKS).where(filter=older).select(["deleted_at"]).limit(PAGE_SIZE)


def _build_requeue_write(chunk: DocumentSnapshot[Any], now: datetime) -> Write:
    """Build the write that queues a chunk. A deleted chunk only loses its version."""
    changes = {_VERSION: DELETE_FIELD}
    if "deleted_at" not in (chunk.to_dict() or {}):
        changes |= build_step_pending("extract", now)
    option = LastUpdateOption(chunk.update_time)
    return lambda batch: batch.update(chunk.reference, changes, option)
