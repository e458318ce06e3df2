"""`meta/bulk_embedding`: the passages that are being embedded in bulk, and how far that has come.

Those are the passages that waited when the task began: their `pending.embed` is not later than
`until`. So they need no mark, and whatever comes or is edited since is none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now
from shared.firestore.codec import Codec
from shared.knowledge.chunk_repository import COLLECTION
from shared.knowledge.queue import PENDING_FIELDS, due_query, pending_query, to_pending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database
    from shared.knowledge.queue import PendingChunk

STEP: Final = "embed"
PAGE: Final = 500
"""Passages that are read at once."""
_READ: Final = (*PENDING_FIELDS, "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTask:
    """Passages that are embedded together.

    Attributes:
        name: Names the task, its folder and its job at the provider.
        model: The model.
        dimension: The length of its vectors.
        until: Passages that began to wait later are not part of it.
        rows: How many passages were written for the provider; None until all were.
        job: The provider's name of its job; None until that is known.
        stored: Whether all that it made is stored.
        tries: How often it could not be started.
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
    """What is known of embedding in bulk.

    Attributes:
        task: The task that is under way, if one is.
        failures: How many failed since bulk last went well.
    """

    task: BulkTask | None = None
    failures: int = 0


_STATE: Final = Codec(BulkState, readers={"task": Codec(BulkTask).load})


class BulkRepository:
    """Remembers what is embedded in bulk, and finds what is not."""

    def __init__(self, database: Database) -> None:
        """Keep it in this database."""
        self._database = database
        self._reference = database.document("meta", "bulk_embedding")

    async def state(self) -> BulkState:
        """What is known. One round trip."""
        data = (await self._database.get(self._reference)).to_dict() or {}
        return _STATE.load(data)

    async def remember(self, state: BulkState) -> None:
        """Keep what is known. One round trip."""
        data = _STATE.write(state)
        await self._database.commit([lambda batch: batch.set(self._reference, data)])

    async def forget(self) -> None:
        """Nothing is under way, and nothing failed. One round trip."""
        await self._database.commit([lambda batch: batch.delete(self._reference)])

    async def count_due(self, now: datetime) -> int:
        """How many passages wait and are due. One round trip."""
        return await self._database.count(due_until_query(self._database.client, now))

    async def waiting_until(self, until: datetime, most: int) -> AsyncIterator[list[PendingChunk]]:
        """The passages that waited at a moment, page by page, those that waited longest first.

        Args:
            until: The moment.
            most: How many at most.
        """
        query = due_until_query(self._database.client, until).select(_READ)
        page: list[DocumentSnapshot[Any]] = []
        left = most
        while left:
            size = min(PAGE, left)
            after = query.start_after(page[-1]) if page else query
            page = await self._database.find(after.limit(size))
            if page:
                yield [to_pending(STEP, each) for each in page]
            if len(page) < size:
                return
            left -= size

    async def waiting_since(self, after: datetime, now: datetime, limit: int) -> list[PendingChunk]:
        """Passages that are due and began to wait after a moment, longest ago first."""
        query = since_query(self._database.client, after, now, limit).select(_READ)
        return [to_pending(STEP, each) for each in await self._database.find(query)]

    async def still_waiting(self, hashes: Mapping[str, str]) -> dict[str, PendingChunk]:
        """Those of these passages that still wait and say what they said. One round trip.

        Args:
            hashes: The hash of what each said, by its id.
        """
        references = [self._database.document(COLLECTION, name) for name in hashes]
        found = await self._database.get_all(references, _READ)
        return {
            each.id: to_pending(STEP, each) for each in found if _still_says(each, hashes[each.id])
        }


def due_until_query(client: AsyncClient, until: datetime) -> AsyncQuery:
    """The passages that wait and were due at a moment, those that waited longest first."""
    due = FieldFilter(f"pending.{STEP}", "<=", until)
    return pending_query(client, STEP).where(filter=due)


def since_query(client: AsyncClient, after: datetime, now: datetime, limit: int) -> AsyncQuery:
    """The passages that began to wait after a moment and are due."""
    later = FieldFilter(f"pending.{STEP}", ">", after)
    return due_query(client, STEP, now, limit).where(filter=later)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield due_until_query(client, utc_now())
    yield since_query(client, utc_now(), utc_now(), 1)


def _still_says(snapshot: DocumentSnapshot[Any], content_hash: str) -> bool:
    """Whether a passage waits, and says what it said."""
    data = _fields(snapshot)
    return STEP in data.get("pending", {}) and data.get("content_hash") == content_hash


def _fields(snapshot: DocumentSnapshot[Any]) -> dict[str, Any]:
    return snapshot.to_dict() or {}
