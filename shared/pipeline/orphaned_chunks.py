"""Finds and deletes orphaned chunks: chunks without a source, and tombstones.

A tombstone is a chunk that was marked as deleted but is still stored. Neither ingest nor the index
job leaves orphaned chunks, so they are a sign of damage.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.firestore.database import get_fields
from shared.firestore.writes import delete_if_unchanged, put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import build_deletion_update
from shared.knowledge.map_repository import Maps
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.pipeline.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

PAGE: Final = 200
"""Chunks are read in pages of this size."""
COMMIT_SIZE: Final = 50
"""The number of chunks that a commit deletes. Firestore also counts their index entries, which
contain vectors."""
GRACE_PERIOD: Final = timedelta(days=7)
"""How long after its last change a chunk counts as orphaned. If a run was killed, the next run of
ingest may still write the chunk's source, and that of the index job may still remove the chunk."""


class OrphanedChunks:
    """Finds and deletes orphaned chunks."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database

    async def load_page(self, after: str) -> list[DocumentSnapshot[Any]]:
        """Load the next chunks after an id, with their source ids. Costs one round trip."""
        return await self._database.find(chunks_query(self._database.client, after))

    async def find_without_source(
        self, chunks: Sequence[DocumentSnapshot[Any]], now: datetime
    ) -> list[DocumentSnapshot[Any]]:
        """Return those of these chunks whose source does not exist after the grace period.

        Costs one round trip.
        """
        source_ids = {chunk.id: get_fields(chunk).get("source_id") for chunk in chunks}
        distinct_ids = sorted({source_id for source_id in source_ids.values() if source_id})
        references = [self._database.document(SOURCES, source_id) for source_id in distinct_ids]
        sources = await self._database.get_all(references, ["title"])
        missing = set(distinct_ids) - {source.id for source in sources}
        return [
            chunk for chunk in chunks if source_ids[chunk.id] in missing and _is_settled(chunk, now)
        ]

    async def delete(self, chunks: Sequence[DocumentSnapshot[Any]], now: datetime) -> int:
        """Mark chunks as deleted, unless they have changed since they were read.

        The index job then removes them.

        Returns:
            The number of chunks that were marked.
        """
        return await self._commit(
            [put_if_unchanged(chunk, build_deletion_update(now)) for chunk in chunks]
        )

    async def load_tombstones(
        self, before: datetime, last: DocumentSnapshot[Any] | None
    ) -> list[DocumentSnapshot[Any]]:
        """Load chunks that were marked as deleted before a moment. Costs one round trip.

        Args:
            before: The moment.
            last: The last chunk of the previous page, or None for the first page.
        """
        query = tombstones_query(self._database.client, before)
        return await self._database.find(query.start_after(last) if last else query)

    async def delete_tombstones(self, tombstones: Sequence[DocumentSnapshot[Any]]) -> int:
        """Delete the tombstones that do not wait for the index job. Return their number.

        Their points on the map are deleted first, which costs two round trips. Later, the repair
        job removes their entries from the postings, and the purge job deletes their extractions.
        """
        not_pending = [
            chunk for chunk in tombstones if STEP not in get_fields(chunk).get("pending", {})
        ]
        chunk_ids = [tombstone.id for tombstone in not_pending]
        await self._database.commit(await Maps(self._database).build_removal_writes(chunk_ids))
        return await self._commit(list(map(delete_if_unchanged, not_pending)))

    async def _commit(self, writes: Sequence[Write]) -> int:
        starts = range(0, len(writes), COMMIT_SIZE)
        batches = (writes[start : start + COMMIT_SIZE] for start in starts)
        return sum([await self._database.commit_skipping_conflicts(batch) for batch in batches])


def chunks_query(client: AsyncClient, after: str) -> AsyncQuery:
    """Build the query for a page of chunks after an id."""
    chunks = client.collection(CHUNKS)
    query = chunks.order_by("__name__").select(["source_id", "updated_at"]).limit(PAGE)
    return query.start_after({"__name__": chunks.document(after)}) if after else query


def tombstones_query(client: AsyncClient, before: datetime) -> AsyncQuery:
    """Build the query for the chunks that were marked as deleted before a moment, oldest first."""
    is_old = FieldFilter("deleted_at", "<", before)
    query = client.collection(CHUNKS).where(filter=is_old).order_by("deleted_at")
    return query.select(["deleted_at", f"pending.{STEP}"]).limit(PAGE)


def _is_settled(chunk: DocumentSnapshot[Any], now: datetime) -> bool:
    """Return whether the grace period after a chunk's last change is over."""
    written = get_fields(chunk).get("updated_at")
    return written is not None and written < now - GRACE_PERIOD
