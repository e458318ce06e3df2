"""A failing deletion blocks no others, and an outage of the database ends the purge.

Purge erases documents one by one, first workspaces and then, among others, withdrawn traces.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest
from google.api_core.exceptions import InvalidArgument, ServiceUnavailable

from functions.jobs.purge.job import JOB, purge
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.firestore.database import Database, LeaseLost
from shared.runtime.context import App
from shared.runtime.job import run_job
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import (
    CommitHook,
    Response,
    Send,
    call_after_commit,
    call_before_commit,
)
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import set_fields
from tests.support.tcp_proxy import run_emulator_proxy, use_emulator_at
from tests.support.workspaces import read_write_times, upload_text

FOURTH_COMMIT: Final = 4
"""The first commit after the erasure of a workspace, which takes three."""


async def make_idle_workspaces(app: App, clock: SettableClock, *names: str) -> None:
    """Make idle workspaces and an empty topic, and advance the clock until they are due."""
    for name in names:
        await upload_text(app, name)
        clock.advance(minutes=1)
    await set_fields(make_job_context(app), "topics/bread", {"total": 0})
    clock.advance(days=91)


def make_failing_hook(number: int, error: Exception) -> CommitHook:
    """Return a hook that fails at the commit with this number."""

    async def fail_at_commit(commit: int, send: Send) -> Response:
        if commit == number:
            raise error
        return await send()

    return fail_at_commit


@pytest.mark.parametrize("error_type", [ServiceUnavailable, InvalidArgument])
async def test_a_failing_workspace_blocks_no_other(
    app: App, apps: Apps, clock: SettableClock, error_type: Callable[[str], Exception]
) -> None:
    await make_idle_workspaces(app, clock, "first", "second", "third")
    ctx = make_job_context(apps(make_failing_hook(FOURTH_COMMIT, error_type("no")), clock=clock))

    report = await purge(ctx, make_ample_budget())
    assert [failure.name for failure in report.failures] == ["rag_tasks/second"]
    assert report.counts["rag_tasks"] == 2
    assert report.counts["topics"] == 1
    assert report.finished
    paths = await read_write_times(ctx, "users/reader/rag_tasks")
    assert {path.split("/")[3] for path in paths} == {"second"}

    report = await purge(ctx, make_ample_budget())
    assert report.counts["rag_tasks"] == 1
    assert report.failures == []


async def test_an_outage_of_the_database_ends_the_run(
    app: App, apps: Apps, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_idle_workspaces(app, clock, "first", "second")
    real_timeout = asyncio.timeout
    async with run_emulator_proxy() as proxy:

        async def stop_answering() -> None:
            await proxy.hang()
            monkeypatch.setattr(asyncio, "timeout", lambda _: real_timeout(0))

        purging_app = apps(call_after_commit(4, stop_answering), clock=clock)
        with use_emulator_at(proxy.host):
            database = Database(purging_app.connection, Meter(), request_seconds=600)
            ctx = replace(make_job_context(purging_app), database=database)
        with pytest.raises(Unavailable):
            await purge(ctx, make_ample_budget())
        assert 4 <= purging_app.commits <= 5
        monkeypatch.undo()
        await proxy.restore()
        await purging_app.aclose()


async def test_a_run_that_lost_its_lease_stops(app: App, apps: Apps, clock: SettableClock) -> None:
    """It does not set the workspace apart and go on with the next."""
    await make_idle_workspaces(app, clock, "first", "second")
    ctx = make_job_context(app)

    async def take_lease() -> None:
        lease = {"holder": "another", "expires_at": clock() + timedelta(hours=1)}
        await set_fields(ctx, "leases/purge", lease)

    with pytest.raises(LeaseLost):
        await run_job(JOB, apps(call_before_commit(3, take_lease), clock=clock))
    assert await read_write_times(ctx, "users/reader/rag_tasks")
