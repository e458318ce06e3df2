"""The declaration of a job, and how its runs are leased, measured and recorded."""

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
from shared.core.telemetry import SpanKind, span
from shared.firestore.leases import Leases
from shared.firestore.runs import Run, Runs, RunState, new_run_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.core.telemetry import TraceSpan
    from shared.runtime.capabilities import Capability
    from shared.runtime.context import App, Context

MAX_RECORDED_ITEMS: Final = 20
"""The maximum number of failures in a run's record, and the maximum number of warnings."""
MAX_RECORDED_LENGTH: Final = 500
"""The maximum length of a failure or warning in a run's record, in characters."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that failed, with the reason."""

    name: str
    reason: str

    @classmethod
    def of(cls, name: str, error: CarrelError | str) -> Self:
        """Make the failure of an item from an error, whose code it quotes, or from a reason."""
        return cls(name, error if isinstance(error, str) else f"{error.code}: {error.message}")


@dataclass(slots=True)
class Report:
    """The result of a run.

    Attributes:
        counts: The job's own counters by name.
        warnings: The items that succeeded in part, each with the problem.
        finished: Whether no work is left, as far as this run could see.
        note: A remark for the run's record. It must contain neither content nor full paths.
        cost: What the run read and wrote.
        removed: The numbers of `sources` and `passages` that the run took out of the knowledge base
            because their origin no longer has them.
        removed_at: The time that their records have, by which they are restored together.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    warnings: list[Failure] = field(default_factory=list)
    finished: bool = True
    note: str = ""
    cost: Meter = field(default_factory=Meter, compare=False)
    removed: Counter[str] = field(default_factory=Counter, compare=False)
    removed_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a run may work, and where it reports its progress.

    Attributes:
        deadline: When to stop, in seconds of `time.monotonic`. Runs check it between two steps.
        progress: Called with the number of items processed since the last call.
    """

    deadline: float
    progress: Callable[[int], None] = lambda _: None

    @property
    def spent(self) -> bool:
        """Whether the run must stop."""
        return time.monotonic() >= self.deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """How to list and retry the items that a job gave up after repeated failures.

    Attributes:
        load: Loads up to a limit of the items, with the reasons.
        retry: Queues all of the items again, and returns their number.
    """

    load: Callable[[Context, int], Awaitable[Sequence[Failure]]]
    retry: Callable[[Context], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The declaration of one job.

    Attributes:
        name: The name of the job and of its folder.
        run: Works in small committed steps until the work is done or the budget is spent.
        run_confirmed: Works like `run`, and also takes the steps that a person must confirm.
        total: Counts the items that a run would process now, for a progress bar.
        schedule: When the job runs, in cron's format and UTC, or an empty string if it runs only on
            demand.
        timeout: Seconds that a run may take. Cloud Scheduler waits at most 30 minutes.
        lease: The name of a lease that the job shares with another job, so that the two never run
            at the same time. By default, the job has its own lease.
        dead_letters: The items that failed too often, if the job gives items up.
        renew: Queues all items that were made by another model than the current one, and returns
            their number.
        settings: The fields of `Settings` that the job reads, except those of its capabilities.
        memory: The memory of the function's instances, in MiB.
    """

    name: str
    title: str
    run: Callable[[Context, Budget], Awaitable[Report]]
    total: Callable[[Context], Awaitable[int]]
    schedule: str
    timeout: float = 25 * 60.0
    lease: str | None = None
    run_confirmed: Callable[[Context, Budget], Awaitable[Report]] | None = None
    dead_letters: DeadLetters | None = None
    renew: Callable[[Context], Awaitable[int]] | None = None
    capabilities: frozenset[Capability] = frozenset()
    settings: tuple[str, ...] = ()
    memory: int = 1024


@dataclass(frozen=True, slots=True)
class AlreadyRunning:
    """The result of a run that did not start, because another run has the lease.

    Attributes:
        until: When the lease expires if the other run has died.
    """

    until: datetime


async def run_job(
    job: Job,
    app: App,
    progress: Callable[[int], None] = lambda _: None,
    seconds: float | None = None,
) -> Report | AlreadyRunning:
    """Run a job once, under its lease, and record it as a span.

    Args:
        progress: See `Budget`.
        seconds: How long the run may take; by default, the job's own timeout.

    Raises:
        CarrelError: The run cannot continue. What it committed stays, and the next run resumes.
    """
    with span(f"job {job.name}", kind=SpanKind.SERVER) as job_span:
        return await _run_leased(job, app, progress, seconds, job_span)


async def _run_leased(
    job: Job,
    app: App,
    progress: Callable[[int], None],
    seconds: float | None,
    job_span: TraceSpan,
) -> Report | AlreadyRunning:
    meter = Meter()
    ctx = replace(app.context(Caller(), meter), capabilities=job.capabilities)
    leases = Leases(ctx.database)
    run_id = new_run_id(job.name, ctx.clock())
    lease = await leases.acquire(
        job.lease or job.name, ctx.settings.lease_seconds, ctx.clock, run_id
    )
    if isinstance(lease, datetime):
        job_span.set({"carrel.job.outcome": "busy"})
        return AlreadyRunning(until=lease)
    recorder = _RunRecorder(run_id, ctx, progress)
    heartbeat = asyncio.create_task(recorder.keep_lease())
    report: Report | None = None
    error: Exception | None = None
    start = time.monotonic()
    try:
        report = await job.run(ctx, Budget(start + (seconds or job.timeout), recorder.add_progress))
        report.cost = meter
    except Exception as failure:
        error = failure
        raise
    else:
        return report
    finally:
        heartbeat.cancel()
        await asyncio.wait([heartbeat])
        run = recorder.make_final_record(report, error)
        facts = _describe_run(job, run, time.monotonic() - start)
        log.info("job_run", **facts)
        job_span.set({f"carrel.job.{name}": value for name, value in facts.items()})
        await _release(job, run, ctx)


class _RunRecorder:
    """Renews the lease and updates the record of a run while the run works."""

    def __init__(self, run_id: str, ctx: Context, on_progress: Callable[[int], None]) -> None:
        self._run_id = run_id
        self._context = ctx
        self._on_progress = on_progress
        self._progress = 0

    def add_progress(self, items: int) -> None:
        """Count processed items, and report them."""
        self._progress += items
        self._on_progress(items)

    async def keep_lease(self) -> None:
        """Renew the lease while the run only reads or computes, until the task is cancelled.

        Each commit under the lease renews it, and this one also updates the run's record.
        """
        while True:
            await asyncio.sleep(self._context.settings.lease_seconds / 3)
            # If a commit fails, the next one may still be in time.
            with suppress(Unavailable):
                record = Runs(self._context.database).record(self._make_run(RunState.RUNNING))
                await self._context.database.commit([record])

    def make_final_record(self, report: Report | None, error: Exception | None) -> Run:
        """Make the record of a run that has ended."""
        if report is None:
            reason = (
                f"{error.code}: {error.message}" if isinstance(error, CarrelError) else "a fault"
            )
            return replace(
                self._make_run(RunState.STOPPED), error=reason, ended_at=self._context.clock()
            )
        return replace(
            self._make_run(RunState.FINISHED if report.finished else RunState.OUT_OF_TIME),
            ended_at=self._context.clock(),
            counts=dict(report.counts),
            failures=format_failures(report.failures),
            failed=len(report.failures),
            warnings=format_failures(report.warnings),
            warned=len(report.warnings),
            note=report.note,
        )

    def _make_run(self, state: RunState) -> Run:
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


def format_failures(failures: Sequence[Failure]) -> tuple[str, ...]:
    """Return the first failures as they are recorded."""
    return tuple(
        f"{failure.name}: {failure.reason}"[:MAX_RECORDED_LENGTH]
        for failure in failures[:MAX_RECORDED_ITEMS]
    )


async def _release(job: Job, run: Run, ctx: Context) -> None:
    """Release the lease and store the run's record. If that fails, the lease expires later."""
    try:
        async with asyncio.timeout(5):
            await Leases(ctx.database).release([Runs(ctx.database).record(run)])
    except (CarrelError, TimeoutError) as error:
        log.warning("lease_not_released", job=job.name, **error_fields(error))


def _describe_run(job: Job, run: Run, seconds: float) -> dict[str, str | int | float]:
    """Return how a run ended, for its log line and its span."""
    return {
        "job": job.name,
        "outcome": run.state.value,
        "seconds": round(seconds, 3),
        "failures": run.failed,
        "documents_read": run.documents_read,
        "documents_written": run.documents_written,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        **run.counts,
    }
