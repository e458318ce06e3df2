"""Stores the state of bulk embedding in `meta/bulk_embedding`, and finds the passages of a task.

A task covers the passages that were pending at its start, which is its time `until`. Their field
`pending.embed` is not later than `until`. Passages that are added or edited later have a later
time, so they are not part of the task, and no list of its passages is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.writes import Delete, Set
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.queue import PENDING_FIELDS, due_query, pending_query, to_pending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.queries import Query
    from shared.knowledge.queue import PendingChunk

STEP: Final = "embed"
"""The step that is pending on a passage until it is embedded."""
PAGE: Final = 500
"""Pending passages are read in pages of this size."""
_READ_FIELDS: Final = (*PENDING_FIELDS, "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTask:
    """Passages that are embedded by one job.

    Attributes:
        name: The name of the task, of its folder and of its job at the provider.
        until: Passages that became pending later are not part of the task.
        rows: The number of texts in the job's input, or None until all are written.
        job: The name that the provider gave the job, or None until it is known.
        stored: Whether all vectors of the job are stored.
        tries: The number of failed attempts to start the job.
    """

    name: str
    model: str
    dimension: int
    until: datetime
    rows: int | None = None
    job: str | None = None
    stored: bool = False
    tries: int = 0


@dataclass(frozen=True, slots=True)
class BulkState:
    """The state of bulk embedding."""

    task: BulkTask | None = None
    failures: int = 0


_STATE: Final = Codec(BulkState, readers={"task": Codec(BulkTask).load})


class BulkRepository:
    """Stores the state of bulk embedding, and finds the passages of a task."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reference = Reference("meta", "bulk_embedding")

    async def load_state(self) -> BulkState:
        """Load the state. Costs one round trip."""
        data = (await self._database.get(self._reference)).fields
        return _STATE.load(data)

    async def save(self, state: BulkState) -> None:
        """Store the state. Costs one round trip."""
        data = _STATE.write(state)
        await self._database.commit([Set(self._reference, data)])

    async def clear(self) -> None:
        """Delete the state: there is no task, and no failure. Costs one round trip."""
        await self._database.commit([Delete(self._reference)])

    async def count_due(self, now: datetime) -> int:
        """Count the passages that are pending and due. Costs one round trip."""
        return await self._database.count(due_until_query(now))

    async def iterate_pending_until(
        self, until: datetime, limit: int
    ) -> AsyncIterator[list[PendingChunk]]:
        """Yield up to `limit` pending passages that were due at a time, in pages, oldest first."""
        query = due_until_query(until).select(_READ_FIELDS)
        remaining = limit
        async for page in self._database.iterate(query, min(PAGE, limit)):
            yield [to_pending(STEP, snapshot) for snapshot in page[:remaining]]
            remaining -= len(page)
            if remaining <= 0:
                return

    async def load_pending_since(
        self, after: datetime, now: datetime, limit: int
    ) -> list[PendingChunk]:
        """Load passages that became pending after a time and are due now, oldest first."""
        query = (
            due_query(STEP, now, limit).where(f"pending.{STEP}", ">", after).select(_READ_FIELDS)
        )
        return [to_pending(STEP, snapshot) for snapshot in await self._database.find(query)]

    async def load_unedited(self, hashes: Mapping[str, str]) -> dict[str, PendingChunk]:
        """Load the passages that are still pending and have the same text, by passage id.

        Costs one round trip.
        """
        references = [Reference(CHUNKS, chunk_id) for chunk_id in hashes]
        snapshots = await self._database.get_all(references, _READ_FIELDS)
        return {
            snapshot.id: to_pending(STEP, snapshot)
            for snapshot in snapshots
            if _is_unedited(snapshot, hashes[snapshot.id])
        }


def due_until_query(until: datetime) -> Query:
    """Build the query for the pending passages that were due at a time, oldest first."""
    return pending_query(STEP).where(f"pending.{STEP}", "<=", until)


def _is_unedited(snapshot: Document, content_hash: str) -> bool:
    data = snapshot.fields
    return STEP in data.get("pending", {}) and data.get("content_hash") == content_hash
