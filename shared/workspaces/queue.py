"""Finds documents to embed and workspaces to purge, across all users.

A workspace contains the documents that a user uploaded under one `task_id`. A document waits if a
call did not compute all of its vectors, and is due when a job may embed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DOCUMENTS, WORKSPACES, Workspace, to_document

if TYPE_CHECKING:
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database
    from shared.workspaces.model import WorkspaceDocument


class WorkspaceQueue:
    """The documents and workspaces of all users that wait for a job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_due(
        self, now: datetime, limit: int
    ) -> list[tuple[Workspace, WorkspaceDocument]]:
        """Load the documents that are due for embedding, the longest due first.

        Costs one Firestore round trip.
        """
        query = due_query(self._database.client, now).limit(limit)
        snapshots = await self._database.find(query)
        return [(self._to_workspace(snapshot), to_document(snapshot)) for snapshot in snapshots]

    async def count_waiting(self) -> int:
        """Count the documents that wait for vectors, due or not. Costs one Firestore round trip."""
        return await self._database.count(waiting_query(self._database.client))

    async def list_idle(self, before: datetime, limit: int) -> list[Workspace]:
        """Load the workspaces that were last used before a time, or are partly erased.

        A workspace that is being erased counts as last used long ago. Costs one Firestore round
        trip.
        """
        query = idle_query(self._database.client, before).limit(limit)
        return [self._to_workspace(snapshot) for snapshot in await self._database.find(query)]

    async def count_idle(self, before: datetime) -> int:
        """Count the workspaces that `list_idle` would find. Costs one Firestore round trip."""
        return await self._database.count(idle_query(self._database.client, before))

    def _to_workspace(self, snapshot: DocumentSnapshot[Any]) -> Workspace:
        """Return the workspace that a Firestore document belongs to, or is."""
        _, user_id, _, task_id, *_ = snapshot.reference.path.split("/")
        return Workspace(self._database, user_id, task_id)


def waiting_query(client: AsyncClient) -> AsyncQuery:
    """Build the query for the documents that wait for vectors, due or not, by when they are due."""
    is_waiting = FieldFilter("status", "==", DocumentStatus.WAITING.value)
    return client.collection_group(DOCUMENTS).where(filter=is_waiting).order_by("next_at")


def due_query(client: AsyncClient, now: datetime) -> AsyncQuery:
    """Build the query for the documents that are due for embedding, the longest due first."""
    return waiting_query(client).where(filter=FieldFilter("next_at", "<=", now))


def idle_query(client: AsyncClient, before: datetime) -> AsyncQuery:
    """Build the query for the workspaces last used before a time, the longest unused first."""
    is_idle = FieldFilter("touched_at", "<", before)
    return client.collection_group(WORKSPACES).where(filter=is_idle).order_by("touched_at")
