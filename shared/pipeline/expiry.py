"""Deletes documents that expire: tasks, idempotency records (`replays`), former notes, and others.

A lease that a killed run did not release stays for a month. It tells the job's next run that the
previous run was killed. A job that has not run for a month no longer needs it. In the cloud,
Firestore also deletes most of these documents, one to three days late. The emulator does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.firestore.queries import Query
from shared.firestore.writes import delete_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringKind:
    """A kind of document that expires.

    Attributes:
        field: The name of the field with the time of expiry.
        nested: Whether there are many collections with this id, such as one for each user.
        commit_size: The number of documents that one commit deletes. It is small for kinds with
            large documents, because Firestore limits the total size of a commit.
        delay: How long after the time of expiry the documents are deleted.
    """

    name: str
    collection: str
    field: str
    nested: bool
    commit_size: int
    delay: timedelta = timedelta()


EXPIRING_KINDS: Final = (
    ExpiringKind(name="todos", collection="tasks", field="purge_at", nested=True, commit_size=200),
    ExpiringKind(
        name="replays", collection="replays", field="expires_at", nested=True, commit_size=8
    ),
    ExpiringKind(name="runs", collection="runs", field="expires_at", nested=False, commit_size=50),
    ExpiringKind(
        name="former_notes",
        collection="note_revisions",
        field="purge_at",
        nested=True,
        commit_size=50,
    ),
    ExpiringKind(
        name="links", collection="links", field="expires_at", nested=False, commit_size=100
    ),
    ExpiringKind(
        name="leases",
        collection="leases",
        field="expires_at",
        nested=False,
        commit_size=100,
        delay=timedelta(days=30),
    ),
)


class ExpiredDocuments:
    """Finds and deletes the expired documents of one kind."""

    def __init__(self, database: Database, kind: ExpiringKind) -> None:
        self._database = database
        self._kind = kind

    async def load_page(self, now: datetime) -> list[Document]:
        """Load the documents that expired first, as many as one commit deletes.

        Costs one round trip.
        """
        query = expired_query(self._kind, now).select(["__name__"])
        return await self._database.find(query.limit(self._kind.commit_size))

    async def delete(self, page: Sequence[Document]) -> int:
        """Delete the documents that have not changed since they were read. Return their number."""
        return await self._database.commit_skipping_conflicts(list(map(delete_if_unchanged, page)))

    async def count(self, now: datetime) -> int:
        """Count the expired documents. Costs one round trip."""
        return await self._database.count(expired_query(self._kind, now))


def expired_query(kind: ExpiringKind, now: datetime) -> Query:
    """Build the query for the expired documents of a kind, the oldest first."""
    return (
        Query(kind.collection, in_group=kind.nested)
        .where(kind.field, "<=", now - kind.delay)
        .order_by(kind.field)
    )
