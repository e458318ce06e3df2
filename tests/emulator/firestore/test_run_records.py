"""A run of a job has a record: its state, progress, counts and cost, and what it left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.errors import Unavailable
from shared.core.settings import Settings
from shared.firestore.leases import Leases
from shared.firestore.runs import Run, Runs, RunState, new_run_id
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Failure, Job, Report, run_job
from tests.support.stored_documents import read_documents

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def count_nothing(_context: Context) -> int:
    """Count the items that wait for the job."""
    return 0


async def dust(_context: Context, budget: Budget) -> Report:
    """Report a count, a failure, a warning and a note."""
    budget.progress(3)
    report = Report(failures=[Failure("shelf 3", "too high")], note="Mind the vase.")
    report.warnings.append(Failure("shelf 2", "still grey"))
    report.counts["dusted"] += 3
    return report


async def fail(_context: Context, _budget: Budget) -> Report:
    raise Unavailable("No duster.")


DUST = Job(name="dust", title="Dust", run=dust, total=count_nothing, schedule="")
FAIL = replace(DUST, run=fail)


def test_a_run_id_contains_the_job_and_the_time() -> None:
    run = Run(run_id=new_run_id("embed", NOON), state=RunState.RUNNING)
    assert run.job == "embed"
    assert run.started_at == NOON


def test_two_runs_of_the_same_time_have_different_ids() -> None:
    assert new_run_id("embed", NOON) != new_run_id("embed", NOON)


async def test_a_run_records_its_counts_and_cost(ctx: Context, app: App) -> None:
    report = await run_job(DUST, app)
    assert isinstance(report, Report)
    [run] = await Runs(ctx.database).load_latest("dust", 10)
    assert run.state is RunState.FINISHED
    assert run.ended_at
    assert run.progress == 3
    assert run.counts == {"dusted": 3}
    assert run.note == "Mind the vase."
    assert run.failures == ("shelf 3: too high",)
    assert run.failed == 1
    assert run.warnings == ("shelf 2: still grey",)
    assert run.warned == 1
    assert run.documents_read == 1
    assert report.cost.documents_read >= run.documents_read
    [stored] = (await read_documents(ctx, "runs")).values()
    assert stored["expires_at"] == stored["started_at"] + timedelta(days=30)


async def test_a_stopped_run_records_its_error(ctx: Context, app: App) -> None:
    with pytest.raises(Unavailable):
        await run_job(FAIL, app)
    [run] = await Runs(ctx.database).load_latest("dust", 10)
    assert run.state == RunState.STOPPED
    assert run.error == "UNAVAILABLE: No duster."


async def test_the_latest_runs_of_a_job_are_loaded_latest_first(ctx: Context) -> None:
    runs = [
        Run(run_id=new_run_id(job, NOON + timedelta(hours=hour)), state=RunState.FINISHED)
        for job, hour in (("dust", 1), ("dust", 3), ("mop", 4), ("dust", 2))
    ]
    await ctx.database.commit(map(Runs(ctx.database).record, runs))
    assert await Runs(ctx.database).load_latest("dust", 2) == [runs[1], runs[3]]


async def test_a_run_that_died_is_marked_by_the_next_run(ctx: Context, app: App) -> None:
    """Its lease has expired, and its record still says that it is running."""
    run_id = new_run_id("dust", NOON)
    running = Run(run_id=run_id, state=RunState.RUNNING, progress=7)
    await Leases(ctx.database).acquire("dust", 60, lambda: NOON, run_id)
    await ctx.database.commit([Runs(ctx.database).record(running)])

    await run_job(DUST, app)
    next_run, dead_run = await Runs(ctx.database).load_latest("dust", 10)
    assert next_run.state == RunState.FINISHED
    assert dead_run.state == RunState.DIED
    assert dead_run.run_id == run_id
    assert dead_run.progress == 7
    assert dead_run.ended_at is None


async def test_a_long_run_records_its_progress(ctx: Context, project: str) -> None:
    """A run renews its lease and records its progress three times in the lease's duration."""
    app = App(Settings(google_cloud_project=project, lease_seconds=0.3))

    async def wait_for_record(ctx: Context, budget: Budget) -> Report:
        budget.progress(5)
        while not (runs := await Runs(ctx.database).load_latest("dust", 1)):
            pass
        assert runs[0].state == RunState.RUNNING
        assert runs[0].progress == 5
        return Report()

    await run_job(replace(DUST, run=wait_for_record), app)
    await app.aclose()
    [ended] = await Runs(ctx.database).load_latest("dust", 10)
    assert ended.state is RunState.FINISHED
