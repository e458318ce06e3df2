"""What says itself when it may go: deleted to-dos, kept answers, run records, leases of the dead.

A lease that a run never gave back stays for its job's next run, which learns from it that the other
died; after a month there is no such job. In the cloud Firestore deletes most of this too, a day or
three late; on the emulator nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringKind:
    """A kind of documents that expire.

    Attributes:
        name: What they are called.
        collection: The id of their collection.
        field: What says when they may go.
        of_users: Whether each user has such a collection.
        together: How many one commit deletes: Firestore counts what they hold.
        after: How much later they go.
    """

    name: str
    collection: str
    field: str
    of_users: bool
    together: int
    after: timedelta = timedelta()


EXPIRING: Final = (
    ExpiringKind(name="todos", collection="tasks", field="purge_at", of_users=True, together=200),
    ExpiringKind(
        name="replays", collection="replays", field="expires_at", of_users=True, together=8
    ),
    ExpiringKind(name="runs", collection="runs", field="expires_at", of_users=False, together=50),
    ExpiringKind(
        name="leases",
        collection="leases",
        field="expires_at",
        of_users=False,
        together=100,
        after=timedelta(days=30),
    ),
)


class Expiry:
    """Finds and deletes what has expired of one kind."""

    def __init__(self, database: Database, kind: ExpiringKind) -> None:
        """Look for it in this database."""
        self._database = database
        self._kind = kind

    async def page(self, now: datetime) -> list[DocumentSnapshot[Any]]:
        """What has expired, longest ago first, as much as one commit deletes. One round trip."""
        query = expired_query(self._database.client, self._kind, now).select(["__name__"])
        return await self._database.find(query.limit(self._kind.together))

    async def delete(self, found: Sequence[DocumentSnapshot[Any]]) -> int:
        """Delete what did not change since it was found; return how many that were."""
        return await self._database.commit_skipping_conflicts(list(map(_deletion, found)))

    async def count(self, now: datetime) -> int:
        """How many have expired. One round trip."""
        return await self._database.count(expired_query(self._database.client, self._kind, now))


def expired_query(client: AsyncClient, kind: ExpiringKind, now: datetime) -> AsyncQuery:
    """What has expired of a kind, longest ago first."""
    kinds = client.collection_group if kind.of_users else client.collection
    expired = FieldFilter(kind.field, "<=", now - kind.after)
    return kinds(kind.collection).where(filter=expired).order_by(kind.field)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for kind in EXPIRING:
        yield expired_query(client, kind, utc_now()).limit(1)


def _deletion(seen: DocumentSnapshot[Any]) -> Write:
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.delete(seen.reference, option)
