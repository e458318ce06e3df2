"""Jobs on a laptop: run to their end, with a progress bar."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.extract.job import JOB as EXTRACT
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest.job import JOB as INGEST
from infra.local.local_database import SAMPLE
from shared.core.caller import Caller
from shared.core.log import log_only_warnings
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, run_job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared.runtime.job import Failure, Job, Report

SHOWN: Final = 20
"""How many failures, and how many warnings, are listed one by one."""


def ingest_all(path: Path) -> bool:
    """Bring the local knowledge base to what `path` says, with all that is made of texts."""
    jobs = [INGEST, EMBED, CARDS, CLUSTER, EXTRACT, INDEX]
    return run_locally(jobs, _reading(path))


def load_sample() -> bool:
    """Bring the sample in: texts, with all that is made of texts, and solved problems."""
    from infra.local.sample.extracted import EXTRACTED
    from infra.local.sample.load import KNOWLEDGE
    from infra.local.sample.solved import SOLVED

    jobs = [INGEST, EMBED, KNOWLEDGE, EXTRACTED, CLUSTER, INDEX, SOLVED]
    return run_locally(jobs, _reading(SAMPLE))


def _reading(path: Path) -> Settings:
    """Settings to read one path, whatever else the environment names to be read."""
    return Settings(ingest_path=str(path), readwise_token=None, ingest_bucket=None)


def run_locally(jobs: Sequence[Job], settings: Settings) -> bool:
    """Run jobs to their end, one after the other. If another run holds a lease, wait for it.

    Returns:
        Whether nothing was left out.
    """
    log_only_warnings()
    return asyncio.run(_run_all(jobs, settings))


async def _run_all(jobs: Sequence[Job], settings: Settings) -> bool:
    app = App(settings)
    reports: list[tuple[Job, Report]] = []
    try:
        for job in jobs:
            report = await _run(job, app)
            _print_counts(job, report)
            reports.append((job, report))
    finally:
        await app.aclose()
        for job, report in reports:
            _print_notes(job, report)
    return not any(report.failures for _, report in reports)


async def _run(job: Job, app: App) -> Report:
    total = await job.total(app.context(Caller(), Meter()))
    with click.progressbar(length=total, label=job.title) as bar:
        while True:
            outcome = await run_job(job, app, bar.update, seconds=math.inf)
            if not isinstance(outcome, AlreadyRunning):
                return outcome
            bar.label = f"{job.title} (waiting: another run holds the lease)"
            await _until(outcome.until)


def _cost(meter: Meter) -> str:
    said = f"{meter.documents_read} documents read, {meter.documents_written} written"
    if meter.input_tokens or meter.output_tokens:
        said += f", {meter.input_tokens} model tokens in, {meter.output_tokens} out"
    return said


async def _until(moment: datetime) -> None:
    seconds = (moment - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(min(max(seconds, 0.1), 5))


def _print_counts(job: Job, report: Report) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items() if count)
    click.echo(f"{job.name}: {counts or report.note or 'nothing to do'} ({_cost(report.cost)})")


def _print_notes(job: Job, report: Report) -> None:
    """Print what else to know of a run: after all of them, where it does not scroll away."""
    if report.note and any(report.counts.values()):
        click.echo(f"{job.name}: {report.note}")
    _list(f"{job.name}: warning", report.warnings)
    _list(f"{job.name}: left out", report.failures)
    if report.failures:
        click.echo("  What was put in of these before stays as it was.", err=True)


def _list(label: str, items: Sequence[Failure]) -> None:
    for item in items[:SHOWN]:
        click.echo(f"{label}: {item.name}: {item.reason}", err=True)
    if len(items) > SHOWN:
        click.echo(f"  ... and {len(items) - SHOWN} more", err=True)
