"""Leases in Firestore: `leases/{job}`. A lease lets only one run of a job work at a time.

A run holds the lease of its job until it releases the lease or stops renewing it. Every commit of
the run renews the lease, and fails if another run has taken it (`Lease`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared.firestore.database import Lease, WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.runs import Runs, new_run_id
from shared.firestore.writes import Delete, Together, Write, put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.dates import Clock
    from shared.firestore.database import Database


class Leases:
    """Acquires and releases leases."""

    def __init__(self, database: Database) -> None:
        """Use the run's database. After `acquire`, its commits renew the lease."""
        self._database = database

    async def acquire(
        self, job: str, seconds: float, clock: Clock, run_id: str | None = None
    ) -> Lease | datetime:
        """Acquire the lease of a job for this run.

        If the previous holder never released the lease, the same commit records that the holder
        died. Costs two round trips, or one if another run holds the lease.

        Args:
            seconds: How long the lease lasts after the last commit.
            clock: Tells the present time.
            run_id: The id of this run. By default, a new one is made.

        Returns:
            The lease, or when another run's lease expires.
        """
        reference = Reference("leases", job)
        snapshot = await self._database.get(reference)
        now = clock()
        if snapshot.exists and snapshot.get("expires_at") > now:
            expires_at: datetime = snapshot.get("expires_at")
            return expires_at
        expiry = now + timedelta(seconds=seconds)
        holder = run_id or new_run_id(job, now)
        values = {"holder": holder, "expires_at": expiry, "commit": ""}
        try:
            update_time = await self._database.commit(
                [put_if_unchanged(snapshot, values), *self._build_died_writes(snapshot)]
            )
        except WriteConflict:
            latest = await self._database.get(reference)
            if not latest.exists or latest.get("holder") != holder:
                return expiry  # Another run was faster. Its lease expires at about this time.
            update_time = latest.update_time  # Our commit succeeded, but the response was lost.
        lease = Lease(job, holder, seconds, update_time, reference, clock)
        self._database.lease = lease
        return lease

    def _build_died_writes(self, snapshot: Document) -> list[Write]:
        """Build the write, if any, that records that the previous holder of a lease died."""
        if not snapshot.exists:
            return []
        return [Runs(self._database).mark_died(snapshot.get("holder"))]

    async def release(self, last_writes: Sequence[Write] = ()) -> None:
        """Release this run's lease, and commit the run's last writes at the same time.

        If another run has taken the lease in the meantime, or this run holds none, nothing is
        written. Costs two round trips.
        """
        lease, self._database.lease = self._database.lease, None
        if lease is None:
            return
        reference = Reference("leases", lease.job)
        snapshot = await self._database.get(reference)
        if snapshot.exists and snapshot.get("holder") == lease.holder:
            writes = [Delete(reference, snapshot.update_time), *last_writes]
            await self._database.commit_skipping_conflicts([Together(writes)])
