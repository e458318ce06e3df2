"""A run of a job has a record: its state, progress, counts and cost, and what it left out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.errors import Unavailable
from shared.core.settings import Settings
from shared.firestore.leases import Leases
from shared.firestore.runs import RUN_RECORDS, Run, Runs, RunState, new_run_id
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Failure, Job, Report, run_job
from tests.support.stored_documents import read_documents

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)


async def count_nothing(_context: Context) -> int:
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
    assert (run.job, run.started_at) == ("embed", NOON)
    assert new_run_id("embed", NOON) != run.run_id


async def test_a_run_records_its_counts_and_cost(ctx: Context, app: App) -> None:
    report = await run_job(DUST, app)
    assert isinstance(report, Report)
    [run] = await Runs(ctx.database).load_latest("dust", 10)
    assert run == Run(
        run_id=run.run_id,
        state=RunState.FINISHED,
        ended_at=run.ended_at,
        progress=3,
        counts={"dusted": 3},
        note="Mind the vase.",
        failures=("shelf 3: too high",),
        failed=1,
        warnings=("shelf 2: still grey",),
        warned=1,
        documents_read=1,
        documents_written=run.documents_written,
    )
    assert run.ended_at
    assert report.cost.documents_read >= run.documents_read
    [stored] = (await read_documents(ctx, "runs")).values()
    assert stored["purge_at"] == stored["started_at"] + RUN_RECORDS.duration

    with pytest.raises(Unavailable):
        await run_job(FAIL, app)
    errors = {run.state: run.error for run in await Runs(ctx.database).load_latest("dust", 10)}
    assert errors == {RunState.FINISHED: "", RunState.STOPPED: "UNAVAILABLE: No duster."}


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
    assert dead_run == replace(running, state=RunState.DIED)


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
