"""Erasing the materials of a task: leaves before parents, so that nothing is orphaned.

The task's document goes last, and says from the start that the task is being erased: no materials
are brought to it meanwhile, and whoever finds it half erased goes on. Each commit proves that it
still says so. Of what lies under it documents and parts go first, for what is still arriving, or
about to be kept as an answer, proves that they are there: its next commit is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption

from shared.core.dates import from_microseconds
from shared.firestore.replays import Replays
from shared.firestore.writes import put
from shared.workspaces.repository import DOCUMENTS, PARTS, PASSAGES, TASKS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write
    from shared.workspaces.repository import Materials

PAGES: Final = {DOCUMENTS: 100, PARTS: 8, PASSAGES: 50, "answers": 8}
"""Documents that one commit deletes: Firestore counts what they and their index entries hold, and
refuses more than 10 MiB."""
_LONG_AGO: Final = from_microseconds(0)
"""When a task that is being erased was last used: so the purge finds it, should this run die."""


class MaterialErasure:
    """Erases the materials of one task, page by page."""

    def __init__(self, database: Database, materials: Materials) -> None:
        """Erase these."""
        self._database = database
        self._task = materials

    async def begin(self, idle_since: datetime | None = None) -> bool:
        """Say that the task is being erased; False if there is none, or it was used since then.

        From now on nothing of it is found, and nothing is brought to it.
        """

        async def attempt() -> bool:
            seen = await self._database.get(self._task.task_reference)
            if not seen.exists:
                return False
            used = seen.get("touched_at")
            if idle_since is not None and used >= idle_since:
                return False
            await self._database.commit([put(seen, {"erasing": True, "touched_at": _LONG_AGO})])
            return True

        return await self._database.until_it_holds(attempt)

    async def pages(self) -> AsyncIterator[Counter[str]]:
        """Delete, and tell after each commit how many of what are gone. Begin first.

        Somebody else may finish it meanwhile, and bring materials anew: they stay.
        """
        database, answers = self._database, Replays(self._database, self._task.user_id)
        for kind in (DOCUMENTS, PARTS, PASSAGES):
            query = rest_query(database.client, f"{self._task.path}/{kind}", PAGES[kind])
            while found := await database.find(query):
                if not await self._delete_in_task(found):
                    return
                yield Counter({kind: len(found)})
        while found := await answers.about(self._task.name, PAGES["answers"]):
            if not await self._delete_in_task(found):
                return
            yield Counter(answers=len(found))
        if await self._delete_in_task([]):
            yield Counter(tasks=1)

    async def _delete_in_task(self, found: Sequence[DocumentSnapshot[Any]]) -> bool:
        """Delete what was found, or else the task itself; False if it is not being erased."""

        async def attempt() -> bool:
            task = await self._task.task()
            if not task.erasing:
                return False
            proof = put(task.snapshot, {"erasing": True})
            await self._database.commit(
                [proof, *map(_deletion, found)] if found else [_last_deletion(task.snapshot)]
            )
            return True

        return await self._database.until_it_holds(attempt)


def rest_query(client: AsyncClient, collection: str, limit: int) -> AsyncQuery:
    """What is left of a collection, by name alone."""
    return client.collection(collection).select(["__name__"]).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield rest_query(client, f"users/a/{TASKS}/b/{PASSAGES}", 1)


def _deletion(seen: DocumentSnapshot[Any]) -> Write:
    return lambda batch: batch.delete(seen.reference)


def _last_deletion(seen: DocumentSnapshot[Any]) -> Write:
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.delete(seen.reference, option)
