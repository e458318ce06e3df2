"""Documents that expire: to-dos, idempotency records, former notes, fetched links, runs, leases.

A lease that a killed run did not release stays for the next run of its job, which learns from it
that the other died; after a month there is no longer such a job. In the cloud, Firestore deletes
most of these documents too, one to three days late; the emulator does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now
from shared.firestore.writes import delete_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringKind:
    """A kind of documents that expire.

    Attributes:
        name: The name in reports.
        collection: The id of their collection.
        field: The field with the time of expiry.
        nested: Whether many documents have such a collection, such as those of users.
        commit_size: How many documents one commit deletes; Firestore counts their size.
        delay: How long after that time they are deleted.
    """

    name: str
    collection: str
    field: str
    nested: bool
    commit_size: int
    delay: timedelta = timedelta()


EXPIRING: Final = (
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


class Expiry:
    """Finds and deletes the expired documents of one kind."""

    def __init__(self, database: Database, kind: ExpiringKind) -> None:
        """Use this database."""
        self._database = database
        self._kind = kind

    async def page(self, now: datetime) -> list[DocumentSnapshot[Any]]:
        """Load the documents that expired first, as many as one commit deletes. One round trip."""
        query = expired_query(self._database.client, self._kind, now).select(["__name__"])
        return await self._database.find(query.limit(self._kind.commit_size))

    async def delete(self, page: Sequence[DocumentSnapshot[Any]]) -> int:
        """Delete the documents that have not changed since they were read; return how many."""
        return await self._database.commit_skipping_conflicts(list(map(delete_if_unchanged, page)))

    async def count(self, now: datetime) -> int:
        """Count the expired documents. One round trip."""
        return await self._database.count(expired_query(self._database.client, self._kind, now))


def expired_query(client: AsyncClient, kind: ExpiringKind, now: datetime) -> AsyncQuery:
    """Return the expired documents of a kind, the oldest first."""
    kinds = client.collection_group if kind.nested else client.collection
    expired = FieldFilter(kind.field, "<=", now - kind.delay)
    return kinds(kind.collection).where(filter=expired).order_by(kind.field)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query this file can build, for the proof that each has its index."""
    for kind in EXPIRING:
        yield expired_query(client, kind, utc_now()).limit(1)
