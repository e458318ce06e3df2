"""`leases/{job}`: one holder at a time, so that two schedulers firing at once run one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from google.cloud.firestore import LastUpdateOption

from shared.firestore.database import Lease, WriteConflict, combine_writes
from shared.firestore.runs import Runs, new_run_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.cloud.firestore import DocumentSnapshot

    from shared.core.dates import Clock
    from shared.firestore.database import Database, Write


class Leases:
    """Taking and giving back leases."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def acquire(
        self, job: str, seconds: float, clock: Clock, run_id: str | None = None
    ) -> Lease | datetime:
        """Take the lease of a job for this run, or learn when it may become free.

        Of the run that held it before, if it never gave it back, the same commit says that it died.
        """
        reference = self._database.document("leases", job)
        snapshot = await self._database.get(reference)
        now = clock()
        if snapshot.exists and snapshot.get("expires_at") > now:
            held_until: datetime = snapshot.get("expires_at")
            return held_until
        expiry = now + timedelta(seconds=seconds)
        holder = run_id or new_run_id(job, now)
        taken = {"holder": holder, "expires_at": expiry, "commit": ""}
        try:
            results = await self._database.commit([_take(snapshot, taken), *self._died(snapshot)])
            written = results[0].update_time
        except WriteConflict:
            present = await self._database.get(reference)
            if not present.exists or present.get("holder") != holder:
                return expiry
            written = present.update_time  # it was us: the first answer was lost
        lease = Lease(job, holder, seconds, written, reference, clock)
        self._database.lease = lease
        return lease

    def _died(self, seen: DocumentSnapshot[Any]) -> list[Write]:
        return [Runs(self._database).died(seen.get("holder"))] if seen.exists else []

    async def release(self, last: Sequence[Write] = ()) -> None:
        """Give back the lease that is held, with the run's last writes.

        Neither happens where it was lost meanwhile: it stays with its taker.
        """
        lease, self._database.lease = self._database.lease, None
        if lease is None:
            return
        reference = self._database.document("leases", lease.job)
        present = await self._database.get(reference)
        if present.exists and present.get("holder") == lease.holder:
            option = LastUpdateOption(present.update_time)
            writes = [lambda batch: batch.delete(reference, option), *last]
            await self._database.commit_skipping_conflicts([combine_writes(writes)])


def _take(seen: DocumentSnapshot[Any], data: dict[str, Any]) -> Write:
    """Write the lease, unless somebody was quicker."""
    if not seen.exists:
        return lambda batch: batch.create(seen.reference, data)
    option = LastUpdateOption(seen.update_time)
    return lambda batch: batch.update(seen.reference, data, option)
