"""`carrel jobs`: lists and runs batch jobs, shows their runs, and retries dead-lettered items.

An item, such as a chunk or a link, is dead-lettered if a job gave it up after five attempts.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from infra.cli.database import run_with_context
from infra.cli.formatting import format_minute, format_table
from infra.terminal import make_printable
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from shared.firestore.runs import Run
    from shared.runtime.context import Context
    from shared.runtime.job import Failure, Job

_MAX_RUNS: Final = 10
"""`jobs show` prints at most this many runs of a job."""
_MAX_DEAD_LETTERS: Final = 50
"""`jobs show` prints at most this many dead-lettered items."""


@click.group()
def jobs() -> None:
    """Manage batch jobs. They run on a schedule, on this machine while Carrel runs."""


@jobs.command("list")
def list_jobs() -> None:
    """List all jobs with their schedules and last runs."""
    all_jobs = list(_load_jobs().values())
    last_runs = run_with_context(lambda ctx: _load_last_runs(all_jobs, ctx))
    rows = [
        (job.name, job.schedule, _describe_end(run) if run else "never ran", job.title)
        for job, run in zip(all_jobs, last_runs, strict=True)
    ]
    click.echo(format_table(("JOB", "SCHEDULE (UTC)", "LAST RUN", "WHAT IT DOES"), rows))


@jobs.command("run")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--yes",
    is_flag=True,
    help="Let `ingest` forget texts although more than a third of the files disappeared.",
)
def run(names: tuple[str, ...], *, yes: bool) -> None:
    """Run one or more jobs to completion, in the given order."""
    from infra.cloud.environment import set_job_secrets
    from infra.local.jobs import run_jobs
    from shared.core.settings import Settings

    selected = [_confirm(_get_job(name)) if yes else _get_job(name) for name in names]
    set_job_secrets(names)
    complete = run_jobs(selected, Settings())
    sys.exit(not complete)


@jobs.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show the last runs of the job NAME, and the items that it gave up after five attempts."""
    job = _get_job(name)
    runs, dead_letters = run_with_context(lambda ctx: _load_history(job, ctx))
    schedule = f"{job.schedule} (UTC)" if job.schedule else "none, it runs on request"
    click.echo(f"{job.name}: {job.title}. Schedule: {schedule}.")
    if not runs:
        from shared.firestore.runs import RUN_RECORDS

        click.echo(f"There is no record of a run in the last {RUN_RECORDS.period}.")
    for entry in runs:
        heading = f"{format_minute(entry.started_at)}  {_describe_end(entry)}"
        click.echo(make_printable(f"\n{heading}\n{_describe_run(entry)}".rstrip()))
    if dead_letters:
        more = " or more" if len(dead_letters) == _MAX_DEAD_LETTERS else ""
        click.echo(f"\nGiven up after five attempts: {len(dead_letters)}{more}")
        lines = [f"  {item.name}: {item.reason}" for item in dead_letters]
        click.echo(make_printable("\n".join(lines)))
        click.echo(f"To retry them: {carrel(f'jobs retry {job.name}')}")


@jobs.command("retry")
@click.argument("name")
def retry(name: str) -> None:
    """Queue the items that the job NAME gave up. Its next run retries them."""
    job_dead_letters = _get_job(name).dead_letters
    if job_dead_letters is None:
        raise click.ClickException(f"The job {name} has nothing to retry: it never gives up items.")
    count = run_with_context(job_dead_letters.retry)
    click.echo(_format_queued(count, "retry", name))


@jobs.command("renew")
@click.argument("name")
def renew(name: str) -> None:
    """Queue the results that the job NAME made with an earlier model, to be replaced."""
    queue_outdated = _get_job(name).renew
    if queue_outdated is None:
        renewable = ", ".join(job.name for job in _load_jobs().values() if job.renew)
        raise click.ClickException(
            f"The results of the job {name} cannot be renewed, only those of: {renewable}."
        )
    count = run_with_context(queue_outdated)
    click.echo(_format_queued(count, "renew", name))


def _format_queued(count: int, verb: str, name: str) -> str:
    if not count:
        return f"There is nothing to {verb}."
    command = carrel(f"jobs run {name}")
    return f"Queued {format_count(count, 'item')}. To process now: {command}"


def _load_jobs() -> dict[str, Job]:
    from infra.build.discovery import jobs as all_jobs

    return {job.name: job for job in all_jobs()}


def _get_job(name: str) -> Job:
    by_name = _load_jobs()
    if name not in by_name:
        raise click.ClickException(f"There is no job {name}. The jobs are: {', '.join(by_name)}.")
    return by_name[name]


def _confirm(job: Job) -> Job:
    """Return a job that runs its confirmed variant, if it has one.

    The variant of `ingest` forgets texts even if many files disappeared.
    """
    return replace(job, run=job.run_confirmed) if job.run_confirmed else job


async def _load_last_runs(jobs: list[Job], ctx: Context) -> list[Run | None]:
    """Load the last run of each job, or None if none is recorded."""
    from shared.firestore.runs import Runs

    latest = await asyncio.gather(*(Runs(ctx.database).load_latest(job.name, 1) for job in jobs))
    return [runs[0] if runs else None for runs in latest]


async def _load_history(job: Job, ctx: Context) -> tuple[list[Run], list[Failure]]:
    """Load the last runs of a job, and its dead-lettered items."""
    from shared.firestore.runs import Runs

    runs = await Runs(ctx.database).load_latest(job.name, _MAX_RUNS)
    dead_letters = await job.dead_letters.load(ctx, _MAX_DEAD_LETTERS) if job.dead_letters else []
    return runs, list(dead_letters)


def _describe_end(run: Run) -> str:
    """Describe how and when a run ended, such as `stopped (UNAVAILABLE) 2026-01-31 02:00`."""
    code = f" ({run.error.partition(':')[0]})" if run.error else ""
    # A run that is running or died has no end, which `format_minute` calls "never".
    return f"{run.state.value}{code} {format_minute(run.ended_at)}".removesuffix(" never")


def _describe_run(run: Run) -> str:
    """Describe what a run did, what it cost, and which errors it had."""
    from shared.firestore.runs import RunState

    counts = ", ".join(f"{count} {name}" for name, count in run.counts.items() if count)
    idle = "nothing done" if run.error or run.state is RunState.DIED else "nothing to do"
    progress = counts or (f"{run.progress} done so far" if run.progress else idle)
    cost = f"{run.documents_read} documents read, {run.documents_written} written"
    if run.input_tokens or run.output_tokens:
        cost += f", {run.input_tokens} model tokens in, {run.output_tokens} out"
    lines = [f"{progress} ({cost})", run.note, run.error]
    lines += [f"left out: {failure}" for failure in run.failures]
    lines += [f"... and {run.failed - len(run.failures)} more"] * (run.failed > len(run.failures))
    lines += [f"warning: {warning}" for warning in run.warnings]
    lines += [f"... and {run.warned - len(run.warnings)} more"] * (run.warned > len(run.warnings))
    return "\n".join(f"  {line}" for line in lines if line)
