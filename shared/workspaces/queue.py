"""Materials of whichever user that wait for a job: for vectors, or to be purged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now
from shared.workspaces.model import Status
from shared.workspaces.repository import DOCUMENTS, TASKS, Materials, to_material

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database
    from shared.workspaces.model import Material


class MaterialQueues:
    """What jobs work on, across users."""

    def __init__(self, database: Database) -> None:
        """Look in this database."""
        self._database = database

    async def waiting(self, now: datetime, limit: int) -> list[tuple[Materials, Material]]:
        """Materials that wait for vectors and are due, longest ago first. One round trip."""
        query = due_query(self._database.client, now).limit(limit)
        found = await self._database.find(query)
        return [(self._materials(each), to_material(each)) for each in found]

    async def count_waiting(self) -> int:
        """How many there are. One round trip."""
        return await self._database.count(waiting_query(self._database.client))

    async def idle(self, before: datetime, limit: int) -> list[Materials]:
        """Tasks that were last used before a moment, or are half erased. One round trip."""
        found = await self._database.find(idle_query(self._database.client, before).limit(limit))
        return [self._materials(each) for each in found]

    async def count_idle(self, before: datetime) -> int:
        """How many there are. One round trip."""
        return await self._database.count(idle_query(self._database.client, before))

    def _materials(self, snapshot: DocumentSnapshot[Any]) -> Materials:
        """The task that a document is, or stands in."""
        _, user_id, _, task_id, *_ = snapshot.reference.path.split("/")
        return Materials(self._database, user_id, task_id)


def waiting_query(client: AsyncClient) -> AsyncQuery:
    """Materials that wait for vectors, due or not, those that waited longest."""
    waiting = FieldFilter("status", "==", Status.WAITING.value)
    return client.collection_group(DOCUMENTS).where(filter=waiting).order_by("next_at")


def due_query(client: AsyncClient, now: datetime) -> AsyncQuery:
    """Materials that wait for vectors and are due, those that waited longest."""
    return waiting_query(client).where(filter=FieldFilter("next_at", "<=", now))


def idle_query(client: AsyncClient, before: datetime) -> AsyncQuery:
    """Tasks that were last used before a moment, those of longest ago first."""
    idle = FieldFilter("touched_at", "<", before)
    return client.collection_group(TASKS).where(filter=idle).order_by("touched_at")


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield waiting_query(client).limit(1)
    yield due_query(client, utc_now()).limit(1)
    yield idle_query(client, utc_now()).limit(1)
