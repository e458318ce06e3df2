"""Erases a workspace, children before parents, so that nothing is orphaned.

The workspace's own document is marked first and deleted last. While it is marked, calls cannot
upload to the workspace, and a later run can continue an interrupted erasure. Every commit fails if
the workspace is no longer marked.

Documents and parts are deleted before passages. The commits of an upload or an answer fail if the
document no longer exists, so a concurrent call cannot store passages after their deletion.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from shared.core.dates import from_microseconds
from shared.firestore.idempotency_records import IdempotencyRecords
from shared.firestore.queries import Query
from shared.firestore.writes import Delete, delete_if_unchanged, put_if_unchanged
from shared.workspaces.repository import DOCUMENTS, PARTS, PASSAGES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document
    from shared.workspaces.repository import Workspace

PAGE_SIZES: Final = {DOCUMENTS: 100, PARTS: 8, PASSAGES: 50, "answers": 8}
"""One commit deletes at most this many documents of a kind. Firestore rejects commits above 10 MiB,
and counts the contents of deleted documents and their index entries. Answers are the stored results
of calls that used the workspace."""
_LONG_AGO: Final = from_microseconds(0)
"""Marking a workspace sets its time of last use to this moment, so that the job `purge` finds the
workspace if the run dies."""


class WorkspaceErasure:
    """Erases one workspace, page by page."""

    def __init__(self, database: Database, workspace: Workspace) -> None:
        self._database = database
        self._workspace = workspace

    async def begin(self, idle_since: datetime | None = None) -> bool:
        """Mark the workspace as being erased, so that no call finds it or uploads to it.

        Args:
            idle_since: The workspace is marked only if it was last used before this time. By
                default, it is marked in any case.

        Returns:
            Whether the workspace was marked. False if it does not exist, or if it was used since
            `idle_since`.
        """

        async def attempt() -> bool:
            snapshot = await self._database.get(self._workspace.reference)
            if not snapshot.exists:
                return False
            if idle_since is not None and snapshot.get("touched_at") >= idle_since:
                return False
            await self._database.commit(
                [put_if_unchanged(snapshot, {"erasing": True, "touched_at": _LONG_AGO})]
            )
            return True

        return await self._database.retry_on_conflict(attempt)

    async def delete_pages(self) -> AsyncIterator[Counter[str]]:
        """Delete the workspace page by page, and yield the number of deleted documents by kind.

        The kinds are the subcollections, `answers`, and `tasks` for the workspace itself. `begin`
        must have marked the workspace. If another run finishes the erasure meanwhile, documents
        that are uploaded afterwards are kept.
        """
        database = self._database
        answers = IdempotencyRecords(database, self._workspace.user_id)
        for kind in (DOCUMENTS, PARTS, PASSAGES):
            query = (
                Query(f"{self._workspace.path}/{kind}").select(["__name__"]).limit(PAGE_SIZES[kind])
            )
            while snapshots := await database.find(query):
                if not await self._delete(snapshots):
                    return
                yield Counter({kind: len(snapshots)})
        while snapshots := await answers.find_for(self._workspace.name, PAGE_SIZES["answers"]):
            if not await self._delete(snapshots):
                return
            yield Counter(answers=len(snapshots))
        if await self._delete([]):
            yield Counter(tasks=1)

    async def _delete(self, snapshots: Sequence[Document]) -> bool:
        """Delete documents, or the workspace itself if there are none.

        Returns:
            False if the workspace is not being erased, so that nothing was deleted.
        """

        async def attempt() -> bool:
            workspace = await self._workspace.load()
            if not workspace.erasing:
                return False
            guard = put_if_unchanged(workspace.snapshot, {"erasing": True})
            await self._database.commit(
                [guard, *(Delete(snapshot.reference) for snapshot in snapshots)]
                if snapshots
                else [delete_if_unchanged(workspace.snapshot)]
            )
            return True

        return await self._database.retry_on_conflict(attempt)
