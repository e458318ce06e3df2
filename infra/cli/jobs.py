"""`carrel jobs`: batch jobs, what their runs did, and what they gave up."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final, TypeVar

import click

from infra.cli.formatting import counted, minute, table
from infra.cloud.place import share_secrets_of_jobs
from infra.local import local_database
from shared.firestore.runs import Runs, RunState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.firestore.runs import Run
    from shared.runtime.context import Context
    from shared.runtime.job import Failure, Job

    ResultT = TypeVar("ResultT")

_RUNS: Final = 10
"""Runs that are shown of a job."""
_PARKED: Final = 50
"""Items that were given up, as they are shown."""


@click.group()
def jobs() -> None:
    """Batch jobs: in the cloud they run by schedule, on a laptop when you say so."""


@jobs.command("list")
def list_jobs() -> None:
    """List the jobs, when they run in the cloud, and how their last runs here ended."""
    found = _all_jobs().values()
    with local_database.knowledge_base():
        latest = _with_deps(lambda ctx: _last_runs(list(found), ctx))
    rows = [
        (job.name, job.schedule, _ended(run) if run else "never ran", job.title)
        for job, run in zip(found, latest, strict=True)
    ]
    click.echo(table(("JOB", "SCHEDULE (UTC)", "LAST RUN", "WHAT IT DOES"), rows))


@jobs.command("run")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def run(names: tuple[str, ...]) -> None:
    """Run the job NAME to its end; of several, one after the other."""
    from infra.local.jobs import run_locally
    from shared.core.settings import Settings

    wanted = [_job(name) for name in names]
    share_secrets_of_jobs(names)
    with local_database.knowledge_base():
        complete = run_locally(wanted, Settings())
        local_database.keep()
    sys.exit(not complete)


@jobs.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show the last runs of the job NAME, and what it gave up after five tries."""
    job = _job(name)
    with local_database.knowledge_base():
        runs, parked = _with_deps(lambda ctx: _looked_up(job, ctx))
    click.echo(f"{job.name}: {job.title}. In the cloud: {job.schedule or 'only when asked'} (UTC).")
    if not runs:
        click.echo("No run of the last 30 days is on record.")
    for each in runs:
        click.echo(f"\n{minute(each.started_at)}  {_ended(each)}\n{_told(each)}".rstrip())
    if parked:
        more = " or more" if len(parked) == _PARKED else ""
        click.echo(f"\nGiven up after five tries: {len(parked)}{more}")
        click.echo("\n".join(f"  {each.name}: {each.reason}" for each in parked))
        click.echo(f"Have them tried again: carrel jobs retry {job.name}")


@jobs.command("retry")
@click.argument("name")
def retry(name: str) -> None:
    """Have the job NAME try again what it gave up, in its next run."""
    dead_letters = _job(name).dead_letters
    if dead_letters is None:
        raise click.ClickException(f"The job {name} gives nothing up.")
    with local_database.knowledge_base():
        count = _with_deps(dead_letters.retry)
        local_database.keep()
    click.echo(_waiting(count, "tried", name))


@jobs.command("renew")
@click.argument("name")
def renew(name: str) -> None:
    """Have the job NAME do again what another model made, in its next runs."""
    anew = _job(name).renew
    if anew is None:
        able = ", ".join(job.name for job in _all_jobs().values() if job.renew)
        raise click.ClickException(f"The job {name} renews nothing. Those that do: {able}.")
    with local_database.knowledge_base():
        count = _with_deps(anew)
        local_database.keep()
    click.echo(_waiting(count, "made", name))


def _waiting(count: int, what: str, name: str) -> str:
    if not count:
        return f"Nothing is to be {what} again."
    return f"{counted(count, 'item')} will be {what} again: carrel jobs run {name}"


def _all_jobs() -> dict[str, Job]:
    from infra.build.discovery import jobs as all_jobs

    return {job.name: job for job in all_jobs()}


def _job(name: str) -> Job:
    found = _all_jobs()
    if name not in found:
        raise click.ClickException(f"There is no job {name}. The jobs are: {', '.join(found)}.")
    return found[name]


def _with_deps(ask: Callable[[Context], Awaitable[ResultT]]) -> ResultT:
    """Ask the database something, and close it."""
    from shared.core.caller import Caller
    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.runtime.context import App

    async def asked() -> ResultT:
        app = App(Settings())
        try:
            return await ask(app.context(Caller(), Meter()))
        finally:
            await app.aclose()

    return asyncio.run(asked())


async def _last_runs(jobs: list[Job], ctx: Context) -> list[Run | None]:
    found = await asyncio.gather(*(Runs(ctx.database).latest(job.name, 1) for job in jobs))
    return [runs[0] if runs else None for runs in found]


async def _looked_up(job: Job, ctx: Context) -> tuple[list[Run], list[Failure]]:
    runs = await Runs(ctx.database).latest(job.name, _RUNS)
    parked = await job.dead_letters.load(ctx, _PARKED) if job.dead_letters else []
    return runs, list(parked)


def _ended(run: Run) -> str:
    """How a run ended, and when."""
    code = f" ({run.error.partition(':')[0]})" if run.error else ""
    return f"{run.state.value}{code} {minute(run.ended_at)}".removesuffix(" never")


def _told(run: Run) -> str:
    """What a run did, and what it cost."""
    counts = ", ".join(f"{count} {name}" for name, count in run.counts.items() if count)
    idle = "nothing done" if run.error or run.state is RunState.DIED else "nothing to do"
    done = counts or (f"{run.progress} done so far" if run.progress else idle)
    tokens = run.input_tokens + run.output_tokens
    cost = f"{run.documents_read} documents read, {run.documents_written} written"
    cost += f", {run.input_tokens} tokens given to the model, {run.output_tokens} back" * bool(
        tokens
    )
    lines = [f"{done} ({cost})", run.note, run.error]
    lines += [f"left out: {each}" for each in run.failures]
    lines += [f"... and {run.failed - len(run.failures)} more"] * (run.failed > len(run.failures))
    lines += [f"warning: {each}" for each in run.warnings]
    lines += [f"... and {run.warned - len(run.warnings)} more"] * (run.warned > len(run.warnings))
    return "\n".join(f"  {line}" for line in lines if line)
