"""Chunks that should be gone: their source is, or the index job cannot take them out of its lists.

Ingest and the index job leave none; what befell the database otherwise may.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now
from shared.firestore.writes import put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import deletion_update
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.pipeline.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

PAGE: Final = 200
"""Chunks that are looked at together."""
TOGETHER: Final = 50
"""Chunks that one commit deletes: Firestore counts the index entries too, each with the vector."""
SETTLED: Final = timedelta(days=7)
"""How long ingest may take to write the source of chunks, and the index job to forget a chunk: both
may have been killed, and go on in their next run."""


class OrphanedChunks:
    """Finds chunks that should be gone, and deletes them."""

    def __init__(self, database: Database) -> None:
        """Look in this database."""
        self._database = database

    async def chunks(self, after: str) -> list[DocumentSnapshot[Any]]:
        """The chunks that come next by their ids, and which source each is of. One round trip."""
        return await self._database.find(chunks_query(self._database.client, after))

    async def without_source(
        self, chunks: Sequence[DocumentSnapshot[Any]], now: datetime
    ) -> list[DocumentSnapshot[Any]]:
        """Those of them whose source is gone: ingest writes it after them. One round trip."""
        of = {each.id: (each.to_dict() or {}).get("source_id") for each in chunks}
        named = sorted({name for name in of.values() if name})
        references = [self._database.document(SOURCES, name) for name in named]
        found = await self._database.get_all(references, ["title"])
        gone = set(named) - {each.id for each in found}
        return [each for each in chunks if of[each.id] in gone and _settled(each, now)]

    async def delete_chunks(self, chunks: Sequence[DocumentSnapshot[Any]], now: datetime) -> int:
        """Delete chunks as ingest does, unless they changed; the index job does the rest."""
        return await self._in_parts(
            [put_if_unchanged(each, deletion_update(now)) for each in chunks]
        )

    async def tombstones(
        self, before: datetime, last: DocumentSnapshot[Any] | None
    ) -> list[DocumentSnapshot[Any]]:
        """Chunks that were deleted before a moment and are still there. One round trip.

        Args:
            before: When they were deleted at the latest.
            last: The last one of the page before.
        """
        query = tombstones_query(self._database.client, before)
        return await self._database.find(query.start_after(last) if last else query)

    async def forget(self, tombstones: Sequence[DocumentSnapshot[Any]]) -> int:
        """Delete those that do not wait for the index job any more; return how many they were.

        What lists say of them is found wrong by the repair job, and what was extracted from them by
        the round through all extractions.
        """
        left = [each for each in tombstones if STEP not in _fields(each).get("pending", {})]
        return await self._in_parts(list(map(_deletion, left)))

    async def _in_parts(self, writes: Sequence[Write]) -> int:
        parts = (writes[start : start + TOGETHER] for start in range(0, len(writes), TOGETHER))
        return sum([await self._database.commit_skipping_conflicts(part) for part in parts])


def chunks_query(client: AsyncClient, after: str) -> AsyncQuery:
    """The chunks that come next by their ids."""
    chunks = client.collection(CHUNKS)
    query = chunks.order_by("__name__").select(["source_id", "updated_at"]).limit(PAGE)
    return query.start_after({"__name__": chunks.document(after)}) if after else query


def tombstones_query(client: AsyncClient, before: datetime) -> AsyncQuery:
    """Chunks that were deleted before a moment, longest ago first."""
    long_ago = FieldFilter("deleted_at", "<", before)
    query = client.collection(CHUNKS).where(filter=long_ago).order_by("deleted_at")
    return query.select(["deleted_at", f"pending.{STEP}"]).limit(PAGE)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield chunks_query(client, "a")
    yield tombstones_query(client, utc_now())


def _settled(chunk: DocumentSnapshot[Any], now: datetime) -> bool:
    written = _fields(chunk).get("updated_at")
    return written is not None and written < now - SETTLED


def _deletion(seen: DocumentSnapshot[Any]) -> Write:
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.delete(seen.reference, option)


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}
