"""A job is a value: what it is called, when it runs, and the function that does its work."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from shared.caller import Caller
from shared.errors import CarrelError, Unavailable
from shared.logs import describe, log
from shared.store import Meter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.deps import Backend, Deps


@dataclass(frozen=True, slots=True)
class Failure:
    """One item that did not go through, by name, and why."""

    name: str
    reason: str


@dataclass(slots=True)
class Report:
    """What a run did.

    Attributes:
        counts: How many of what, by name.
        failures: Items that did not go through; the others did.
        finished: Whether nothing is left to do, as far as this run could see.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    finished: bool = True


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a run may work, and whom it tells how far it has come.

    Attributes:
        deadline: When to stop between two steps, on `time.monotonic`'s clock.
        progress: Called with how many items have been dealt with since the last call.
    """

    deadline: float
    progress: Callable[[int], None] = lambda _: None

    @property
    def spent(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() >= self.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The declaration of one job.

    Attributes:
        name: The name of its folder too.
        title: What people see.
        run: Works in small committed steps until the work or its budget ends.
        total: How many items a run would deal with now, for a progress bar.
        schedule: When it runs in the cloud, in cron's format, in UTC; empty: only when asked.
        timeout: Seconds a run may take; Cloud Scheduler waits 30 minutes at most.
        lease: The lease that it runs under, if it is another job's: the two never run at once. By
            default its own, of its name.
    """

    name: str
    title: str
    run: Callable[[Deps, Budget], Awaitable[Report]]
    total: Callable[[Deps], Awaitable[int]]
    schedule: str
    timeout: float = 25 * 60.0
    lease: str | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """Another run holds the lease.

    Attributes:
        until: When the lease ends, if that run has died.
    """

    until: datetime


async def run_job(
    job: Job,
    backend: Backend,
    progress: Callable[[int], None] = lambda _: None,
    seconds: float | None = None,
) -> Report | Busy:
    """Run a job once, under its lease.

    Args:
        job: What to run.
        backend: What it may use.
        progress: See `Budget`.
        seconds: How long it may take; by default, the job's own time-out.

    Raises:
        CarrelError: The run cannot go on. What it has committed stays, and the next run resumes.
    """
    meter = Meter()
    deps = backend.deps(Caller(), meter)
    leases = deps.store.leases
    lease = await leases.acquire(job.lease or job.name, deps.settings.lease_seconds, deps.clock)
    if isinstance(lease, datetime):
        return Busy(until=lease)
    report = None
    heartbeat = asyncio.create_task(_keep_lease(deps))
    try:
        report = await job.run(deps, Budget(time.monotonic() + (seconds or job.timeout), progress))
    finally:
        heartbeat.cancel()
        await asyncio.wait([heartbeat])
        _log_run(job, report, meter)
        await _release(job, deps)
    return report


async def _keep_lease(deps: Deps) -> None:
    """Renew the lease while the run reads or computes; the run's own commits notice a loss."""
    while True:
        await asyncio.sleep(deps.settings.lease_seconds / 3)
        with suppress(Unavailable):
            await deps.store.database.renew_lease()


async def _release(job: Job, deps: Deps) -> None:
    """Give the lease back; where that fails it expires, and how the run ended stays the news."""
    try:
        async with asyncio.timeout(5):
            await deps.store.leases.release()
    except (CarrelError, TimeoutError) as error:
        log.warning("lease_not_released", job=job.name, **describe(error))


def _log_run(job: Job, report: Report | None, meter: Meter) -> None:
    """Say how a run ended; None means that an error stopped it."""
    log.info(
        "job_run",
        job=job.name,
        outcome="stopped" if report is None else "finished" if report.finished else "out of time",
        failures=len(report.failures) if report else 0,
        documents_read=meter.documents_read,
        documents_written=meter.documents_written,
        **(report.counts if report else {}),
    )
