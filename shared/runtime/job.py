"""A job is a value: what it is called, when it runs, and the function that does its work."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Self

from shared.core.caller import Caller
from shared.core.errors import CarrelError, Unavailable
from shared.core.log import error_fields, log
from shared.core.meter import Meter
from shared.firestore.leases import Leases
from shared.firestore.runs import Run, Runs, RunState, new_run_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.runtime.capabilities import Capability
    from shared.runtime.context import App, Context

MAX_RECORDED_ITEMS: Final = 20
"""How many failures, and how many warnings, the record of a run names."""
MAX_RECORDED_LENGTH: Final = 500
"""Characters that it says of one."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One item that did not go through, by name, and why."""

    name: str
    reason: str

    @classmethod
    def of(cls, name: str, error: CarrelError | str) -> Self:
        """The failure of an item, with the code of a known error."""
        return cls(name, error if isinstance(error, str) else f"{error.code}: {error.message}")


@dataclass(slots=True)
class Report:
    """What a run did.

    Attributes:
        counts: How many of what, by name.
        failures: Items that did not go through; the others did.
        warnings: Items that went through but for a part, each with what is wrong.
        finished: Whether nothing is left to do, as far as this run could see.
        note: What else to know of it; for whoever reads the run's record, so no content, and of
            folders their names alone.
        cost: What it read and wrote.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    warnings: list[Failure] = field(default_factory=list)
    finished: bool = True
    note: str = ""
    cost: Meter = field(default_factory=Meter, compare=False)


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
class DeadLetters:
    """The items of a job that failed so often that they are not tried any more.

    Attributes:
        load: Loads some of them, up to a limit, with the reasons.
        retry: Queues all of them again, and returns how many there were.
    """

    load: Callable[[Context, int], Awaitable[Sequence[Failure]]]
    retry: Callable[[Context], Awaitable[int]]


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
        dead_letters: What failed too often, if the job gives items up.
        renew: Lets all wait again that another model made than the one that would make it now, and
            tells how much that is.
        capabilities: What it reaches beside the database.
        settings: Fields of `Settings` that it reads beside those that follow from its needs.
        memory: MiB of an instance of its function.
    """

    name: str
    title: str
    run: Callable[[Context, Budget], Awaitable[Report]]
    total: Callable[[Context], Awaitable[int]]
    schedule: str
    timeout: float = 25 * 60.0
    lease: str | None = None
    dead_letters: DeadLetters | None = None
    renew: Callable[[Context], Awaitable[int]] | None = None
    capabilities: frozenset[Capability] = frozenset()
    settings: tuple[str, ...] = ()
    memory: int = 1024


@dataclass(frozen=True, slots=True)
class AlreadyRunning:
    """Another run holds the lease.

    Attributes:
        until: When the lease ends, if that run has died.
    """

    until: datetime


async def run_job(
    job: Job,
    app: App,
    progress: Callable[[int], None] = lambda _: None,
    seconds: float | None = None,
) -> Report | AlreadyRunning:
    """Run a job once, under its lease.

    Args:
        job: What to run.
        app: What it may use.
        progress: See `Budget`.
        seconds: How long it may take; by default, the job's own time-out.

    Raises:
        CarrelError: The run cannot go on. What it has committed stays, and the next run resumes.
    """
    meter = Meter()
    ctx = replace(app.context(Caller(), meter), capabilities=job.capabilities)
    leases = Leases(ctx.database)
    run_id = new_run_id(job.name, ctx.clock())
    lease = await leases.acquire(
        job.lease or job.name, ctx.settings.lease_seconds, ctx.clock, run_id
    )
    if isinstance(lease, datetime):
        return AlreadyRunning(until=lease)
    keeper = _Keeper(run_id, ctx, progress)
    keeping = asyncio.create_task(keeper.keep())
    report: Report | None = None
    error: Exception | None = None
    began = time.monotonic()
    try:
        report = await job.run(ctx, Budget(began + (seconds or job.timeout), keeper.progress))
        report.cost = meter
    except Exception as failure:
        error = failure
        raise
    else:
        return report
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        ended = keeper.ended(report, error)
        _log_run(job, ended, time.monotonic() - began)
        await _release(job, ended, ctx)


class _Keeper:
    """Keeps the lease of a run, and what is known of the run, while it works."""

    def __init__(self, run_id: str, ctx: Context, told: Callable[[int], None]) -> None:
        self._run_id = run_id
        self._context = ctx
        self._told = told
        self._progress = 0

    def progress(self, items: int) -> None:
        """Take note of what was dealt with."""
        self._progress += items
        self._told(items)

    async def keep(self) -> None:
        """Renew the lease while the run reads or computes; the run's own commits notice a loss."""
        while True:
            await asyncio.sleep(self._context.settings.lease_seconds / 3)
            with suppress(Unavailable):
                record = Runs(self._context.database).record(self._run(RunState.RUNNING))
                await self._context.database.commit([record])

    def ended(self, report: Report | None, error: Exception | None) -> Run:
        """What there is to say in the end."""
        if report is None:
            told = f"{error.code}: {error.message}" if isinstance(error, CarrelError) else "a fault"
            return replace(self._run(RunState.STOPPED), error=told, ended_at=self._context.clock())
        return replace(
            self._run(RunState.FINISHED if report.finished else RunState.OUT_OF_TIME),
            ended_at=self._context.clock(),
            counts=dict(report.counts),
            failures=tuple(map(_recorded, report.failures[:MAX_RECORDED_ITEMS])),
            failed=len(report.failures),
            warnings=tuple(map(_recorded, report.warnings[:MAX_RECORDED_ITEMS])),
            warned=len(report.warnings),
            note=report.note,
        )

    def _run(self, state: RunState) -> Run:
        meter = self._context.meter
        return Run(
            run_id=self._run_id,
            state=state,
            progress=self._progress,
            documents_read=meter.documents_read,
            documents_written=meter.documents_written,
            input_tokens=meter.input_tokens,
            output_tokens=meter.output_tokens,
        )


def _recorded(failure: Failure) -> str:
    return f"{failure.name}: {failure.reason}"[:MAX_RECORDED_LENGTH]


async def _release(job: Job, ended: Run, ctx: Context) -> None:
    """Give the lease back; where that fails it expires, and how the run ended stays the news."""
    try:
        async with asyncio.timeout(5):
            await Leases(ctx.database).release([Runs(ctx.database).record(ended)])
    except (CarrelError, TimeoutError) as error:
        log.warning("lease_not_released", job=job.name, **error_fields(error))


def _log_run(job: Job, run: Run, seconds: float) -> None:
    """Say how a run ended."""
    log.info(
        "job_run",
        job=job.name,
        outcome=run.state.value,
        seconds=round(seconds, 3),
        failures=run.failed,
        documents_read=run.documents_read,
        documents_written=run.documents_written,
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        **run.counts,
    )
