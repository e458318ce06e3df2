"""The tasks to which one user brought materials: which there are, and how much each holds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.cloud.firestore_v1.base_query import BaseQuery

from shared.workspaces.repository import DOCUMENTS, TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery

    from shared.firestore.database import Database


@dataclass(frozen=True, slots=True)
class MaterialTask:
    """A task that has materials.

    Attributes:
        task_id: Its id.
        touched_at: When it was last used, to the hour.
        erasing: Whether it is being erased: nothing of it is found any more.
    """

    task_id: str
    touched_at: datetime
    erasing: bool


class MaterialTasks:
    """One user's tasks."""

    def __init__(self, database: Database, user_id: str) -> None:
        """Look under the path of their user."""
        self._database = database
        self._tasks = f"users/{user_id}/{TASKS}"

    async def latest(self, limit: int) -> list[MaterialTask]:
        """Those that were used last, the latest first. One round trip."""
        found = await self._database.find(latest_query(self._database.client, self._tasks, limit))
        fields = {each.id: each.to_dict() or {} for each in found}
        return [
            MaterialTask(name, data["touched_at"], data.get("erasing", False))
            for name, data in fields.items()
        ]

    async def materials(self, task_ids: Sequence[str]) -> list[int]:
        """How many materials each of these holds, whole or not. One round trip."""
        return await asyncio.gather(*map(self._count, task_ids))

    async def _count(self, task_id: str) -> int:
        documents = self._database.collection(f"{self._tasks}/{task_id}/{DOCUMENTS}")
        return await self._database.count(documents.select(["__name__"]))


def latest_query(client: AsyncClient, tasks: str, limit: int) -> AsyncQuery:
    """Tasks that were used last, the latest first."""
    wanted = client.collection(tasks).select(["touched_at", "erasing"])
    return wanted.order_by("touched_at", direction=BaseQuery.DESCENDING).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield latest_query(client, f"users/a/{TASKS}", 1)
