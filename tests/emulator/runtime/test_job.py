"""A job runs once at a time, since each run needs the lease of its job.

A lease is a document that expires unless the run renews it.
"""

import asyncio
import time
from datetime import timedelta

import pytest

from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.firestore.database import LeaseLost
from shared.firestore.documents import Reference
from shared.firestore.leases import Leases
from shared.firestore.writes import Set
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Budget, Failure, Report, run_job
from tests.support.apps import Apps
from tests.support.clock import NOON, SettableClock
from tests.support.jobs import make_job
from tests.support.stored_documents import read_documents, read_leased_jobs


async def dust_shelf(ctx: Context, name: str) -> None:
    """Commit a document, as a step of the job."""
    document = Reference("shelves", name)
    await ctx.database.commit([Set(document, {})])


async def test_a_run_reports_and_leaves_no_lease(ctx: Context, app: App) -> None:
    """It has the time that its job declares."""
    progress: list[int] = []

    async def run(ctx: Context, budget: Budget) -> Report:
        assert 900 < budget.deadline - time.monotonic() <= 1000
        assert not budget.spent
        assert await read_leased_jobs(ctx) == {"dusting"}
        budget.progress(2)
        budget.progress(1)
        return Report(failures=[Failure("shelf 3", "too high")], finished=False)

    report = await run_job(make_job(run, timeout=1000), app, progress.append)
    assert report == Report(failures=[Failure("shelf 3", "too high")], finished=False)
    assert progress == [2, 1]
    assert await read_leased_jobs(ctx) == set()
    assert Budget(time.monotonic()).spent


async def test_a_failed_run_releases_its_lease(ctx: Context, app: App) -> None:
    async def run(ctx: Context, _budget: Budget) -> Report:
        await dust_shelf(ctx, "a")
        raise Unavailable("No duster.")

    with pytest.raises(Unavailable, match="No duster"):
        await run_job(make_job(run), app)
    assert set(await read_documents(ctx, "shelves")) == {"a"}
    assert await read_leased_jobs(ctx) == set()


async def test_a_run_that_lost_its_lease_stops(
    ctx: Context, apps: Apps, clock: SettableClock
) -> None:
    app = apps(clock=clock)
    leases = Leases(apps(clock=clock).context(Caller(), Meter()).database)

    async def run(ctx: Context, _budget: Budget) -> Report:
        await dust_shelf(ctx, "before")
        clock.advance(hours=1)
        await leases.acquire("dusting", 30, clock)
        await dust_shelf(ctx, "after")
        return Report()

    with pytest.raises(LeaseLost):
        await run_job(make_job(run), app)
    assert set(await read_documents(ctx, "shelves")) == {"before"}
    assert await read_leased_jobs(ctx) == {"dusting"}


async def test_a_run_that_commits_nothing_renews_its_lease(ctx: Context, apps: Apps) -> None:
    async def run(ctx: Context, _budget: Budget) -> Report:
        lease = await read_documents(ctx, "leases")
        while lease == await read_documents(ctx, "leases"):
            pass
        return Report()

    async with asyncio.timeout(120):
        assert await run_job(make_job(run), apps(lease_seconds=0.3)) == Report()
    assert await read_leased_jobs(ctx) == set()


async def test_a_dead_runs_lease_can_be_taken_when_it_expires(
    ctx: Context, app: App, clock: SettableClock
) -> None:
    async def run(_context: Context, _budget: Budget) -> Report:
        return Report()

    clock.now = NOON
    await Leases(ctx.database).acquire("dusting", 30, clock)
    clock.advance(seconds=29)
    outcome = await run_job(make_job(run), app)
    assert isinstance(outcome, AlreadyRunning)
    assert outcome.until == NOON + timedelta(seconds=30)
    clock.advance(seconds=1)
    assert isinstance(await run_job(make_job(run), app), Report)
    assert await read_leased_jobs(ctx) == set()
