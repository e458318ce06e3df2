"""Finds documents to embed, across all users.

A workspace contains the documents that a user uploaded under one `task_id`. A document waits if a
call did not compute all of its vectors, and is due when a job may embed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.firestore.queries import Query
from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DOCUMENTS, Workspace, to_document

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document
    from shared.workspaces.model import WorkspaceDocument


class WorkspaceQueue:
    """The documents of all users that wait for a job."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_due(
        self, now: datetime, limit: int
    ) -> list[tuple[Workspace, WorkspaceDocument]]:
        """Load the documents that are due for embedding, the longest due first.

        Costs one Firestore round trip.
        """
        query = due_query(now).limit(limit)
        snapshots = await self._database.find(query)
        return [(self._to_workspace(snapshot), to_document(snapshot)) for snapshot in snapshots]

    async def count_waiting(self) -> int:
        """Count the documents that wait for vectors, due or not. Costs one Firestore round trip."""
        return await self._database.count(waiting_query())

    def _to_workspace(self, snapshot: Document) -> Workspace:
        _, user_id, _, task_id, *_ = snapshot.reference.path.split("/")
        return Workspace(self._database, user_id, task_id)


def waiting_query() -> Query:
    """Build the query for the documents that wait for vectors, due or not, by when they are due."""
    return (
        Query(DOCUMENTS, in_group=True)
        .where("status", "==", DocumentStatus.WAITING.value)
        .order_by("next_at")
    )


def due_query(now: datetime) -> Query:
    """Build the query for the documents that are due for embedding, the longest due first."""
    return waiting_query().where("next_at", "<=", now)
