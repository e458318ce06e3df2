"""Runs jobs on this machine to completion, with a progress bar."""

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

MAX_LISTED: Final = 20
"""At most this many failures, and this many warnings, are printed."""


def ingest_all(path: Path) -> bool:
    """Ingest `path` into the local knowledge base, with embeddings, cards, clusters and indexes."""
    jobs = [INGEST, EMBED, CARDS, CLUSTER, EXTRACT, INDEX]
    return run_jobs(jobs, _settings_for(path))


def load_sample() -> bool:
    """Load the sample: texts with embeddings, cards, clusters and indexes, and traces."""
    from infra.local.sample.extractions import EXTRACTIONS
    from infra.local.sample.knowledge import KNOWLEDGE
    from infra.local.sample.traces import TRACES

    jobs = [INGEST, EMBED, KNOWLEDGE, EXTRACTIONS, CLUSTER, INDEX, TRACES]
    return run_jobs(jobs, _settings_for(SAMPLE))


def _settings_for(path: Path) -> Settings:
    """Settings to ingest only this path instead of the environment's sources."""
    return Settings(ingest_path=str(path), readwise_token=None, ingest_bucket=None)


def run_jobs(jobs: Sequence[Job], settings: Settings) -> bool:
    """Run jobs to completion in order. If another run holds a lease, wait for it.

    Returns:
        Whether everything was processed.
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
            await _sleep_until(outcome.until)


def _format_cost(meter: Meter) -> str:
    cost = f"{meter.documents_read} documents read, {meter.documents_written} written"
    if meter.input_tokens or meter.output_tokens:
        cost += f", {meter.input_tokens} model tokens in, {meter.output_tokens} out"
    return cost


async def _sleep_until(moment: datetime) -> None:
    seconds = (moment - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(min(max(seconds, 0.1), 5))


def _print_counts(job: Job, report: Report) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items() if count)
    click.echo(
        f"{job.name}: {counts or report.note or 'nothing to do'} ({_format_cost(report.cost)})"
    )


def _print_notes(job: Job, report: Report) -> None:
    """Print notes, warnings and failures of a run, after all runs so that they stay visible."""
    if report.note and any(report.counts.values()):
        click.echo(f"{job.name}: {report.note}")
    _print_items(f"{job.name}: warning", report.warnings)
    _print_items(f"{job.name}: left out", report.failures)
    if report.failures:
        click.echo("  Earlier versions of these stay in the knowledge base.", err=True)


def _print_items(label: str, items: Sequence[Failure]) -> None:
    for item in items[:MAX_LISTED]:
        click.echo(f"{label}: {item.name}: {item.reason}", err=True)
    if len(items) > MAX_LISTED:
        click.echo(f"  ... and {len(items) - MAX_LISTED} more", err=True)
