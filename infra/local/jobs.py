"""Runs jobs on this machine to completion, in order or side by side, with a progress bar.

A job processes items, such as chunks. It holds a lease while it runs, so that only one run of the
job works at a time, in any process.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.extract.job import JOB as EXTRACT
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.folder import ingest_confirmed
from functions.jobs.ingest.job import JOB as INGEST
from functions.jobs.ingest.links.queue import fetch_links, ingest_link
from infra.local.local_database import SAMPLE, STATE
from infra.terminal import make_printable
from shared.core import telemetry
from shared.core.caller import Caller
from shared.core.errors import CarrelError
from shared.core.log import log_warnings_to
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Report, run_job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from click._termui_impl import ProgressBar

    from functions.jobs.ingest.readers.reading import InputProblem
    from shared.core.safe_fetch import SafeFetch
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Failure, Job

COMMAND_LOG: Final = STATE / "command.log"
"""The log of the last command, which tells where in the code each printed failure happened."""
MAX_PRINTED_FAILURES: Final = 1_000
"""A job prints at most this many failures: practically all, so that people can mend each."""
MAX_PRINTED_WARNINGS: Final = 20
"""A job prints at most this many warnings."""
POLL_SECONDS: Final = 0.2
"""A job that runs alongside another looks for work with this pause."""
ESTIMATE_SECONDS: Final = 1.0
"""The remaining work of an ingest is estimated with this pause."""
WORK_UNITS: Final = {INGEST.name: 2, EMBED.name: 10, CARDS.name: 2, CLUSTER.name: 3, INDEX.name: 4}
"""The relative time that each job takes for an item, which is a text for `ingest` and a chunk for
the others. The progress bar advances by these units."""
MAX_LEASE_PAUSE_SECONDS: Final = 5.0
"""A lease of another run is checked again after at most this long, because it may be released
early."""


def ingest_all(path: Path, confirmed: AbstractSet[str] = frozenset()) -> bool:
    """Ingest a path, with embeddings, cards, clusters and indexes. Return whether all went well."""
    reading = replace(INGEST, run=partial(ingest_confirmed, str(path), confirmed))
    return _run_command(_make_settings(path), partial(_ingest, reading))


def ingest_page(url: str, fetch: SafeFetch | None = None) -> bool:
    """Ingest a page, like `ingest_all`. By default, only public addresses are fetched."""

    async def run(ctx: Context, budget: Budget) -> Report:
        return await ingest_link(url, ctx, budget, fetch)

    return _run_command(_make_settings(None), partial(_ingest, replace(INGEST, run=run)))


def fetch_pages(fetch: SafeFetch | None = None, source_ids: Sequence[str] | None = None) -> bool:
    """Ingest the pages of these links, or of all that are due, like `ingest_page`."""

    async def run(ctx: Context, budget: Budget) -> Report:
        report = Report()
        await fetch_links(ctx, budget, report, fetch, source_ids=source_ids)
        return report

    return _run_command(_make_settings(None), partial(_ingest, replace(INGEST, run=run)))


def load_sample() -> bool:
    """Load the sample with all that is made of it, and return whether everything was processed."""
    from infra.local.sample.job import SAMPLE as ADD_REST  # only this function needs it

    return run_jobs([INGEST, EMBED, ADD_REST, CLUSTER, INDEX], _make_settings(SAMPLE))


def _make_settings(path: Path | None) -> Settings:
    """Make settings that ingest only this path, if any, instead of the environment's origins."""
    return Settings(ingest_path=path and str(path), readwise_token=None, ingest_bucket=None)


def run_jobs(jobs: Sequence[Job], settings: Settings) -> bool:
    """Run jobs to completion, after other runs with their leases. Return whether nothing failed."""

    async def run_all(runs: JobRuns) -> None:
        for job in jobs:
            total = await job.total(runs.context)
            with click.progressbar(length=total, label=job.title) as bar:
                await runs.run(job, Progress(bar))
            runs.print_counts(job)

    return _run_command(settings, run_all)


def _run_command(settings: Settings, command: Callable[[JobRuns], Awaitable[None]]) -> bool:
    """Run the jobs of a command, and print what they could not process."""

    async def run() -> bool:
        app = App(settings)
        runs = JobRuns(app)
        try:
            await command(runs)
        finally:
            await app.aclose()
            runs.print_notes()
        return runs.succeeded

    log_warnings_to(COMMAND_LOG)
    telemetry.start(settings, "jobs")
    return asyncio.run(run())


async def _ingest(ingest_job: Job, runs: JobRuns) -> None:
    """Embed texts while more texts are read, then run the other jobs one after another.

    If two of the other jobs ran at the same time, they would change the same chunks, and would have
    to repeat most commits. If the embedding provider fails, the texts are indexed before the error
    is raised.
    """
    try:
        with click.progressbar(length=1, label=INGEST.title) as bar:
            progress = Progress(bar, WORK_UNITS)
            reading = asyncio.create_task(runs.run(ingest_job, progress))
            embedding = asyncio.create_task(runs.run_alongside(EMBED, reading, progress))
            estimating = asyncio.create_task(_estimate(progress, runs.context))
            try:
                await asyncio.wait([reading, embedding])
                reading.result()
                for job in (CARDS, CLUSTER, EXTRACT, INDEX):
                    await runs.run(job, progress)
                embedding.result()
            finally:
                tasks = [reading, embedding, estimating]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            progress.finish()
    finally:
        for job in (INGEST, EMBED, CARDS, CLUSTER, EXTRACT, INDEX):
            runs.print_counts(job)


async def _estimate(progress: Progress, ctx: Context) -> None:
    """Estimate the remaining work of an ingest every `ESTIMATE_SECONDS`.

    Unread texts are expected to have as many new chunks, on average, as the texts read so far.
    """
    with suppress(CarrelError):  # the jobs report the error
        texts = await INGEST.total(ctx)
        while True:
            counts = await asyncio.gather(*(job.total(ctx) for job in (EMBED, CARDS, INDEX)))
            waiting = dict(zip((EMBED.name, CARDS.name, INDEX.name), counts, strict=True))
            waiting[CLUSTER.name] = waiting[EMBED.name]  # each new vector is clustered
            read = progress.items[INGEST.name]
            created = waiting[EMBED.name] + progress.items[EMBED.name]
            unread = max(0, texts - read)
            expected = created * unread // max(1, read)
            remaining = {name: count + expected for name, count in waiting.items()}
            progress.expect({**remaining, INGEST.name: unread})
            await asyncio.sleep(ESTIMATE_SECONDS)


class Progress:
    """The progress bar of jobs, which may run side by side.

    Attributes:
        items: How many items each job has processed.
    """

    def __init__(self, bar: ProgressBar[int], units: Mapping[str, int] | None = None) -> None:
        """Show the progress of jobs in a bar.

        Args:
            bar: The bar to advance.
            units: How many units an item of each job advances the bar. By default, one.
        """
        self.items = Counter[str]()
        self._bar = bar
        self._units = units or {}
        self._running: list[str] = []

    def advance(self, job: Job, items: int) -> None:
        """Count processed items of a job, and advance the bar."""
        self.items[job.name] += items
        steps = items * self._units.get(job.name, 1)
        if self._units:  # the estimate may be too low, and the bar must not end before the work
            self._bar.length = max(self._bar.length or 0, self._bar.pos + steps + 1)
        self._bar.update(steps)

    def expect(self, items: Mapping[str, int]) -> None:
        """Set how many items of each job remain."""
        units = sum(count * self._units.get(name, 1) for name, count in items.items())
        self._bar.length = self._bar.pos + max(1, units)
        self._bar.render_progress()

    def finish(self) -> None:
        """Show that nothing remains."""
        self._bar.finish()
        self._bar.render_progress()

    @contextmanager
    def running(self, job: Job) -> Iterator[None]:
        """Show the job's title, after the titles of other running jobs, within the block."""
        self._running.append(job.title)
        self._show("; ".join(self._running))
        try:
            yield
        finally:
            self._running.remove(job.title)

    def show_wait(self, job: Job) -> None:
        """Show that a job waits for another run that holds its lease."""
        self._show(f"{job.title} (waiting: another run holds the lease)")

    def _show(self, label: str) -> None:
        self._bar.label = label
        self._bar.render_progress()


class JobRuns:
    """Runs the jobs of a command, and adds up the reports of each job."""

    def __init__(self, app: App) -> None:
        """Prepare to run jobs with the resources of an app."""
        self.context = app.context(Caller(), Meter())
        self._app = app
        self._reports: dict[str, Report] = {}

    @property
    def succeeded(self) -> bool:
        """Whether everything was processed so far."""
        return not any(report.failures for report in self._reports.values())

    async def run(self, job: Job, progress: Progress) -> None:
        """Run a job to completion, after any other run that holds the lease."""
        with progress.running(job):
            while True:
                outcome = await run_job(
                    job, self._app, partial(progress.advance, job), seconds=math.inf
                )
                if not isinstance(outcome, AlreadyRunning):
                    break
                progress.show_wait(job)
                await _sleep_until(outcome.until)
        self._add(job, outcome)

    async def run_alongside(
        self, job: Job, predecessor: asyncio.Task[None], progress: Progress
    ) -> None:
        """Run a job whenever it has new work, and once more when its predecessor has ended.

        With a bulk bucket, the job runs only once, at the end, because one batch job costs less
        than many requests.
        """
        deferred_count = 0  # items that the last run left, which are not new work
        while not predecessor.done():
            is_bulk = bool(self.context.settings.bulk_bucket)
            if not is_bulk and await job.total(self.context) > deferred_count:
                await self.run(job, progress)
                deferred_count = await job.total(self.context)
            await asyncio.wait([predecessor], timeout=POLL_SECONDS)
        predecessor.result()
        await self.run(job, progress)

    def print_counts(self, job: Job) -> None:
        """Print the counts and the cost of a job, if it ran."""
        if report := self._reports.get(job.name):
            counts = ", ".join(f"{count} {name}" for name, count in report.counts.items() if count)
            summary = counts or report.note or "nothing to do"
            line = f"{job.name}: {summary} ({_format_cost(report.cost)})"
            click.echo(make_printable(line))

    def print_notes(self) -> None:
        """Print notes, warnings and failures. Called after all runs, so that they stay visible."""
        for name, report in self._reports.items():
            print_problems(f"{name}: warning", report.warnings, MAX_PRINTED_WARNINGS)
            print_problems(f"{name}: left out", report.failures, MAX_PRINTED_FAILURES)
            if report.failures:
                click.echo("  What was stored of them before stays.", err=True)
        for name, report in self._reports.items():
            if report.note and any(report.counts.values()):
                click.echo(make_printable(f"{name}: {report.note}"))

    def _add(self, job: Job, report: Report) -> None:
        """Add the report of a run to the reports of the job's earlier runs."""
        total = self._reports.setdefault(job.name, Report())
        total.counts += report.counts
        total.failures += report.failures
        total.warnings += report.warnings
        total.note = report.note or total.note
        total.cost.add(report.cost)


def _format_cost(meter: Meter) -> str:
    cost = f"{meter.documents_read} documents read, {meter.documents_written} written"
    if meter.input_tokens or meter.output_tokens:
        cost += f", {meter.input_tokens} model tokens in, {meter.output_tokens} out"
    return cost


async def _sleep_until(moment: datetime) -> None:
    """Sleep until a time, but at most for `MAX_LEASE_PAUSE_SECONDS`."""
    seconds = (moment - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(min(max(seconds, 0.1), MAX_LEASE_PAUSE_SECONDS))


def print_problems(label: str, problems: Sequence[Failure | InputProblem], limit: int) -> None:
    """Print what was or would be left out, and the number of those beyond a limit."""
    for problem in problems[:limit]:
        click.echo(make_printable(f"{label}: {problem.name}: {problem.reason}"), err=True)
    if len(problems) > limit:
        click.echo(f"  ... and {len(problems) - limit} more", err=True)
