"""`leases/{job}`: one holder at a time, so that two schedulers firing at once run one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from google.cloud.firestore import LastUpdateOption

from shared.store.database import Stale

if TYPE_CHECKING:
    from google.cloud.firestore import AsyncDocumentReference, AsyncWriteBatch, DocumentSnapshot

    from shared.clock import Clock
    from shared.store.database import Database, Write


@dataclass(slots=True)
class Lease:
    """A lease that is held. Its renewal, preconditioned, rides in every commit of the run.

    Attributes:
        job: What it is the lease of.
        seconds: How long it lasts after the last commit.
        update_time: When Firestore last wrote it; a newer write means that it was lost.
    """

    job: str
    seconds: float
    update_time: Any
    _reference: AsyncDocumentReference
    _clock: Clock

    def renew_in(self, batch: AsyncWriteBatch) -> None:
        """Add the renewal to a batch: if the lease was lost, the whole batch is refused."""
        option = LastUpdateOption(self.update_time)
        batch.update(self._reference, {"expires_at": self._expiry()}, option)

    def renewed(self, update_time: Any) -> None:
        """Note when the renewal was written."""
        self.update_time = update_time

    async def is_lost(self, database: Database) -> bool:
        """Whether somebody else has written the lease since."""
        snapshot = await database.get(self._reference)
        return not snapshot.exists or bool(snapshot.update_time != self.update_time)

    def _expiry(self) -> datetime:
        return self._clock() + timedelta(seconds=self.seconds)


class Leases:
    """Taking and giving back leases."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def acquire(self, job: str, seconds: float, clock: Clock) -> Lease | datetime:
        """Take the lease of a job for this run, or learn when it may become free."""
        reference = self._database.document("leases", job)
        snapshot = await self._database.get(reference)
        now = clock()
        if snapshot.exists and snapshot.get("expires_at") > now:
            held_until: datetime = snapshot.get("expires_at")
            return held_until
        expiry = now + timedelta(seconds=seconds)
        try:
            written = await self._database.commit([_take(snapshot, expiry)])
        except Stale:
            return expiry
        lease = self._database.lease = Lease(job, seconds, written, reference, clock)
        return lease

    async def release(self) -> None:
        """Give back the lease that is held; one that was lost meanwhile stays with its taker."""
        lease, self._database.lease = self._database.lease, None
        if lease is None:
            return
        reference = self._database.document("leases", lease.job)
        option = LastUpdateOption(lease.update_time)
        await self._database.commit_what_holds([lambda batch: batch.delete(reference, option)])


def _take(seen: DocumentSnapshot[Any], expiry: datetime) -> Write:
    """Write the lease, unless somebody was quicker."""
    data = {"expires_at": expiry}
    if not seen.exists:
        return lambda batch: batch.create(seen.reference, data)
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.update(seen.reference, data, option)
