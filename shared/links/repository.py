"""`links/{source_id}`: the links that users saved, which the job `ingest` fetches.

The page of a link becomes the source with the same id. Failed links stay until they are fetched or
cancelled, and stored ones for 30 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption
from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter

from shared.core.dates import utc_now
from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged
from shared.links.model import Link, LinkState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

COLLECTION: Final = "links"
_RETRIED_AT_ONCE: Final = 200
_CODEC: Final = Codec(Link, "source_id", readers={"state": LinkState})


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link as it was read.

    Attributes:
        link: The link, or None if it is not stored.
        snapshot: Its document. A write fails if that has changed since.
    """

    link: Link | None
    snapshot: DocumentSnapshot[Any]

    def put(self, link: Link) -> Write:
        """Build the write that stores a link in place of this one."""
        return put_if_unchanged(self.snapshot, _CODEC.write(link))

    def delete(self) -> Write:
        """Build the write that deletes the link."""
        option = LastUpdateOption(self.snapshot.update_time)
        return lambda batch: batch.delete(self.snapshot.reference, option)


class SavedLinks:
    """Reads saved links."""

    def __init__(self, database: Database) -> None:
        """Use this database."""
        self._database = database

    async def get(self, source_id: str) -> StoredLink:
        """Load the link of a source. One round trip."""
        return _to_stored(await self._database.get(self._database.document(COLLECTION, source_id)))

    async def due(self, now: datetime, limit: int) -> list[StoredLink]:
        """Load the links to fetch now, the longest due first. One round trip."""
        query = due_query(self._database.client, now).limit(limit)
        return [_to_stored(snapshot) for snapshot in await self._database.find(query)]

    async def newest(self, limit: int) -> list[Link]:
        """Load the links that were saved last, whatever came of them. One round trip."""
        query = newest_query(self._database.client, limit)
        return [_to_link(snapshot) for snapshot in await self._database.find(query)]

    async def count_waiting(self) -> int:
        """Count the links that wait to be fetched, due or not. One round trip."""
        return await self._database.count(waiting_query(self._database.client))

    async def dead_letters(self, limit: int) -> list[Link]:
        """Load some of the links that were given up. One round trip."""
        query = failed_query(self._database.client).limit(limit)
        return [_to_link(snapshot) for snapshot in await self._database.find(query)]

    async def retry(self, now: datetime) -> int:
        """Queue the links that were given up again, and return their number."""
        query = failed_query(self._database.client).limit(_RETRIED_AT_ONCE)
        count = 0
        while failed := [_to_stored(snapshot) for snapshot in await self._database.find(query)]:
            writes = [stored.put(stored.link.request(now)) for stored in failed if stored.link]
            count += await self._database.commit_skipping_conflicts(writes)
        return count


def _to_link(snapshot: DocumentSnapshot[Any]) -> Link:
    return _CODEC.read(snapshot.id, snapshot.to_dict() or {})


def _to_stored(snapshot: DocumentSnapshot[Any]) -> StoredLink:
    return StoredLink(_to_link(snapshot) if snapshot.exists else None, snapshot)


def waiting_query(client: AsyncClient) -> AsyncQuery:
    """Query the links that wait, due or not."""
    is_waiting = FieldFilter("state", "==", LinkState.WAITING.value)
    return client.collection(COLLECTION).where(filter=is_waiting)


def due_query(client: AsyncClient, now: datetime) -> AsyncQuery:
    """Query the links to fetch now, the longest due first. Those that do not wait are never due."""
    is_due = FieldFilter("due_at", "<=", now)
    return client.collection(COLLECTION).where(filter=is_due).order_by("due_at")


def newest_query(client: AsyncClient, limit: int) -> AsyncQuery:
    """Query the links that were saved last."""
    newest = client.collection(COLLECTION).order_by("requested_at", direction=BaseQuery.DESCENDING)
    return newest.limit(limit)


def failed_query(client: AsyncClient) -> AsyncQuery:
    """Query the links that were given up."""
    is_failed = FieldFilter("state", "==", LinkState.FAILED.value)
    return client.collection(COLLECTION).where(filter=is_failed)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, to prove that each has its index."""
    yield waiting_query(client).limit(1)
    yield due_query(client, utc_now()).limit(1)
    yield newest_query(client, 1)
    yield failed_query(client).limit(1)
