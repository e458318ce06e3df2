"""A failing deletion blocks no other; an outage of the database ends the purge."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from google.api_core.exceptions import InvalidArgument, ServiceUnavailable

from functions.jobs.purge.job import JOB, purge
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.firestore.database import Database, LeaseLost
from shared.runtime.job import run_job
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp, call_after, call_before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import set_fields
from tests.support.tcp_proxy import run_emulator_proxy, use_emulator_at
from tests.support.workspaces import read_write_times, upload_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.settings import Settings
    from tests.support.commit_hooks import CommitHook, Results, Send

pytestmark = pytest.mark.anyio


async def make_idle_workspaces(settings: Settings, *names: str) -> SettableClock:
    """Make idle workspaces. Return the time at which they are idle."""
    clock = SettableClock()
    app = WatchedApp(settings, clock=clock, embedder=WordEmbedder())
    for name in names:
        await upload_text(app, name)
        clock.advance(minutes=1)
    await set_fields(make_job_context(app), "users/anna/tasks/1", {"purge_at": clock()})
    await app.aclose()
    clock.advance(days=91)
    return clock


SECOND_TASK: Final = 6
"""The number of the commit that begins to erase the second workspace."""


def make_failing_hook(number: int, error: Exception) -> CommitHook:
    """Make one commit fail."""

    async def around(commit: int, send: Send) -> Results:
        if commit == number:
            raise error
        return await send()

    return around


@pytest.mark.parametrize("kind", [ServiceUnavailable, InvalidArgument])
async def test_failing_workspace_blocks_no_other(
    settings: Settings, kind: Callable[[str], Exception]
) -> None:
    clock = await make_idle_workspaces(settings, "first", "second", "third")
    watched = WatchedApp(settings, make_failing_hook(SECOND_TASK, kind("no")), clock=clock)
    report = await purge(make_job_context(watched), make_ample_budget())
    assert [failure.name for failure in report.failures] == ["rag_tasks/second"]
    assert report.counts["tasks"] == 2
    assert report.counts["todos"] == 1
    assert report.finished
    left = await read_write_times(make_job_context(watched), "users/reader/rag_tasks")
    assert {path.split("/")[3] for path in left} == {"second"}
    report = await purge(make_job_context(watched), make_ample_budget())
    assert report.counts["tasks"] == 1
    assert report.failures == []
    await watched.aclose()


async def test_failing_sweep_blocks_no_other(settings: Settings) -> None:
    clock = await make_idle_workspaces(settings, "only")
    error = InvalidArgument("too much")  # type: ignore[no-untyped-call]
    watched = WatchedApp(settings, make_failing_hook(SECOND_TASK, error), clock=clock)
    report = await purge(make_job_context(watched), make_ample_budget())
    assert [failure.name for failure in report.failures] == ["todos"]
    assert report.counts["todos"] == 0
    assert report.counts["tasks"] == 1
    await watched.aclose()


async def test_outage_of_the_database_ends_the_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = await make_idle_workspaces(settings, "first", "second")
    timeout = asyncio.timeout
    async with run_emulator_proxy() as proxy:

        async def hang() -> None:
            await proxy.hang()
            monkeypatch.setattr(asyncio, "timeout", lambda _: timeout(0))

        watched = WatchedApp(settings, call_after(4, hang), clock=clock)
        with use_emulator_at(proxy.host):
            database = Database(watched.connection, Meter(), request_seconds=600)
            ctx = replace(make_job_context(watched), database=database)
        with pytest.raises(Unavailable):
            await purge(ctx, make_ample_budget())
        assert 4 <= watched.commits <= 5
        monkeypatch.undo()
        await proxy.restore()
        await watched.aclose()


async def test_run_without_its_lease_stops(settings: Settings) -> None:
    clock = await make_idle_workspaces(settings, "only")

    async def take() -> None:
        other = {"holder": "another", "expires_at": clock() + timedelta(hours=1)}
        await set_fields(make_job_context(calm), "leases/purge", other)

    calm = WatchedApp(settings, clock=clock)
    raced = WatchedApp(settings, call_before(3, take), clock=clock)
    with pytest.raises(LeaseLost):
        await run_job(JOB, raced)
    assert await read_write_times(make_job_context(calm), "users/reader/rag_tasks")
    for app in (calm, raced):
        await app.aclose()
