"""A job runs under its lease, one run at a time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import LeaseLost
from shared.firestore.leases import Leases
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Budget, Failure, Job, Report, run_job
from tests.support.stored_documents import read_documents, read_leased_jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


async def no_pending_items(_context: Context) -> int:
    return 0


def make_job(run: Callable[[Context, Budget], Awaitable[Report]], timeout: float = 60.0) -> Job:
    return Job(
        name="dusting",
        title="Dust the shelves",
        run=run,
        total=no_pending_items,
        schedule="0 4 * * *",
        timeout=timeout,
    )


async def dust(ctx: Context, name: str) -> None:
    document = ctx.database.document("shelves", name)
    await ctx.database.commit([lambda batch: batch.set(document, {})])


async def test_a_run_reports_and_leaves_no_lease(ctx: Context, app: App) -> None:
    progress: list[int] = []

    async def run(ctx: Context, budget: Budget) -> Report:
        assert await read_leased_jobs(ctx) == {"dusting"}
        budget.progress(2)
        budget.progress(1)
        return Report(failures=[Failure("shelf 3", "too high")], finished=False)

    report = await run_job(make_job(run), app, progress.append)
    assert report == Report(failures=[Failure("shelf 3", "too high")], finished=False)
    assert progress == [2, 1]
    assert await read_leased_jobs(ctx) == set()


async def test_a_run_has_the_time_its_job_declares(app: App) -> None:
    seconds: list[float] = []

    async def run(_context: Context, budget: Budget) -> Report:
        seconds.append(budget.deadline - time.monotonic())
        assert not budget.spent
        return Report()

    await run_job(make_job(run, timeout=1000), app)
    assert 900 < seconds[0] <= 1000
    assert Budget(time.monotonic()).spent


async def test_of_two_runs_at_once_one_works(ctx: Context, app: App) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def run(ctx: Context, _budget: Budget) -> Report:
        started.set()
        await ended.wait()
        await dust(ctx, "a")
        return Report()

    first = asyncio.create_task(run_job(make_job(run), app))
    await started.wait()
    second = await run_job(make_job(run), app)
    ended.set()
    assert isinstance(second, AlreadyRunning)
    assert second.until > datetime.now(UTC)
    assert await first == Report()
    assert set(await read_documents(ctx, "shelves")) == {"a"}
    assert await read_leased_jobs(ctx) == set()


async def test_a_failed_run_releases_its_lease(ctx: Context, app: App) -> None:
    async def run(ctx: Context, _budget: Budget) -> Report:
        await dust(ctx, "a")
        raise Unavailable("No duster.")

    with pytest.raises(Unavailable, match="No duster"):
        await run_job(make_job(run), app)
    assert set(await read_documents(ctx, "shelves")) == {"a"}
    assert await read_leased_jobs(ctx) == set()


async def test_a_run_that_lost_its_lease_stops(ctx: Context, app: App, settings: Settings) -> None:
    later = App(settings, clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    other = later.context(Caller(), Meter()).database

    async def run(ctx: Context, _budget: Budget) -> Report:
        await dust(ctx, "before")
        await Leases(other).acquire("dusting", 30, later.clock)
        await dust(ctx, "after")
        return Report()

    with pytest.raises(LeaseLost):
        await run_job(make_job(run), app)
    await later.aclose()
    assert set(await read_documents(ctx, "shelves")) == {"before"}
    assert await read_leased_jobs(ctx) == {"dusting"}


async def test_a_run_that_commits_nothing_renews_its_lease(ctx: Context, project: str) -> None:
    hasty = App(Settings(google_cloud_project=project, lease_seconds=0.3))

    async def run(ctx: Context, _budget: Budget) -> Report:
        lease = await read_documents(ctx, "leases")
        while lease == await read_documents(ctx, "leases"):
            pass
        return Report()

    async with asyncio.timeout(120):
        assert await run_job(make_job(run), hasty) == Report()
    await hasty.aclose()
    assert await read_leased_jobs(ctx) == set()


async def test_a_dead_runs_lease_can_be_taken_when_it_expires(
    ctx: Context, app: App, settings: Settings
) -> None:
    await Leases(ctx.database).acquire("dusting", 30, ctx.clock)

    async def run(_context: Context, _budget: Budget) -> Report:
        return Report()

    later = App(settings, clock=lambda: datetime.now(UTC) + timedelta(seconds=31))
    outcomes = [await run_job(make_job(run), each_app) for each_app in (app, later)]
    await later.aclose()
    assert [type(outcome) for outcome in outcomes] == [AlreadyRunning, Report]
    assert await read_leased_jobs(ctx) == set()
