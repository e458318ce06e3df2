"""Jobs on a laptop: run to their end, with a progress bar."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.ingest.job import JOB as INGEST
from shared.caller import Caller
from shared.deps import Backend
from shared.job import Busy, run_job
from shared.logs import only_warnings
from shared.settings import Settings
from shared.store import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shared.job import Job, Report

SHOWN: Final = 20
"""How many failures are told one by one."""


def ingest_and_embed(path: Path) -> bool:
    """Bring the local knowledge base to what `path` says, vectors included."""
    return run_locally([INGEST, EMBED], Settings(ingest_path=str(path)))


def run_locally(jobs: Sequence[Job], settings: Settings) -> bool:
    """Run jobs to their end, one after the other. If another run holds a lease, wait for it.

    Returns:
        Whether nothing was left out.
    """
    only_warnings()
    return asyncio.run(_run_all(jobs, settings))


async def _run_all(jobs: Sequence[Job], settings: Settings) -> bool:
    backend = Backend(settings)
    complete = True
    try:
        for job in jobs:
            report = await _run(job, backend)
            _tell(job, report)
            complete = complete and not report.failures
    finally:
        await backend.aclose()
    return complete


async def _run(job: Job, backend: Backend) -> Report:
    total = await job.total(backend.deps(Caller(), Meter()))
    with click.progressbar(length=total, label=job.title) as bar:
        while True:
            outcome = await run_job(job, backend, bar.update, seconds=math.inf)
            if not isinstance(outcome, Busy):
                return outcome
            bar.label = f"{job.title} (waiting: another run holds the lease)"
            await _until(outcome.until)


async def _until(moment: datetime) -> None:
    seconds = (moment - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(min(max(seconds, 0.1), 5))


def _tell(job: Job, report: Report) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
    click.echo(f"{job.name}: {counts or 'nothing to do'}")
    for failure in report.failures[:SHOWN]:
        click.echo(f"  left out: {failure.name}: {failure.reason}", err=True)
    if len(report.failures) > SHOWN:
        click.echo(f"  ... and {len(report.failures) - SHOWN} more", err=True)
