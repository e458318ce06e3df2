"""Deletes tombstones: chunks that were marked as deleted, and that the index job gave up on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.extractions.extracted_chunks import build_removal_writes
from shared.firestore.queries import Query
from shared.firestore.writes import Together, Write, delete_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.map_repository import Maps
from shared.pipeline.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document

PAGE: Final = 200
"""Tombstones are read in pages of this size."""
COMMIT_SIZE: Final = 20
"""The number of tombstones that a commit deletes. Firestore also counts the index entries of their
extractions, which contain vectors."""
GRACE_PERIOD: Final = timedelta(days=7)
"""How long the index job has to remove a chunk that was marked as deleted."""


class Tombstones:
    """Reads and deletes tombstones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def iterate(self, before: datetime) -> AsyncIterator[list[Document]]:
        """Yield the chunks that were marked before a moment, page by page, the earliest first."""
        query = (
            Query(CHUNKS)
            .where("deleted_at", "<", before)
            .order_by("deleted_at")
            .select(["deleted_at", "extracted", f"pending.{STEP}"])
        )
        return self._database.iterate(query, PAGE)

    async def delete(self, tombstones: Sequence[Document]) -> int:
        """Delete the tombstones that do not wait for the index job. Return their number.

        Their extractions go with them. Their points on the map are deleted first, which costs two
        round trips. Later, the repair job removes their entries from the postings.
        """
        not_pending = [chunk for chunk in tombstones if STEP not in chunk.fields.get("pending", {})]
        chunk_ids = [tombstone.id for tombstone in not_pending]
        await self._database.commit(await Maps(self._database).build_removal_writes(chunk_ids))
        writes = list(map(self._build_deletion, not_pending))
        return await self._database.commit_skipping_conflicts(writes, COMMIT_SIZE)

    def _build_deletion(self, tombstone: Document) -> Write:
        extracted = tombstone.fields.get("extracted") or {}
        removals = build_removal_writes(extracted)
        return Together([delete_if_unchanged(tombstone), *removals])
