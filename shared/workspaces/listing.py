"""Lists one user's workspaces, and counts their documents.

A workspace contains the texts that the user gave to `extract_key_info` under one `task_id`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.firestore.queries import Query
from shared.firestore.retention import ERASURE_BEGUN
from shared.workspaces.repository import DOCUMENTS, WORKSPACES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document


@dataclass(frozen=True, slots=True)
class WorkspaceSummary:
    """A workspace in a list.

    Attributes:
        touched_at: When the workspace was last used, to the hour, or None if it is being erased, so
            that calls cannot use it.
    """

    task_id: str
    touched_at: datetime | None


class UserWorkspaces:
    """The workspaces of one user."""

    def __init__(self, database: Database, user_id: str) -> None:
        self._database = database
        self._user_id = user_id
        self._path = f"users/{user_id}/{WORKSPACES}"

    async def list_latest(self, limit: int) -> list[WorkspaceSummary]:
        """Load the most recently used workspaces, latest first. Costs one Firestore round trip."""
        query = (
            Query(self._path)
            .select(["touched_at"])
            .order_by("touched_at", descending=True)
            .limit(limit)
        )
        return [_to_summary(snapshot) for snapshot in await self._database.find(query)]

    async def count_unpaid(self) -> int:
        """Count the documents about which only pending answers were given.

        Costs one Firestore round trip.
        """
        return await self._database.count(
            Query(DOCUMENTS, in_group=True)
            .where("user_id", "==", self._user_id)
            .where("unpaid", "==", True)  # noqa: FBT003 - a value of the field
        )

    async def count_documents(self, task_ids: Sequence[str]) -> list[int]:
        """Count the documents of each workspace, including incomplete documents.

        Costs one Firestore round trip.
        """
        return await asyncio.gather(*map(self._count, task_ids))

    async def _count(self, task_id: str) -> int:
        documents = Query(f"{self._path}/{task_id}/{DOCUMENTS}")
        return await self._database.count(documents.select(["__name__"]))


def _to_summary(snapshot: Document) -> WorkspaceSummary:
    touched_at = snapshot.get("touched_at")
    return WorkspaceSummary(snapshot.id, None if touched_at == ERASURE_BEGUN else touched_at)
