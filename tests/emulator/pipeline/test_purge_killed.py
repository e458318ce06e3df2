"""A purge killed after any commit leaves no orphans, and the next run completes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from functions.jobs.purge.idle_tasks import erase_idle
from functions.jobs.purge.job import purge
from infra.build.discovery import ROOT
from shared.runtime.job import Budget, Report
from tests.support.clock import SettableClock
from tests.support.database_dump import find_orphans, read_all_documents
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.workspaces import make_erasure, open_workspace_app, read_write_times, upload_text

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

COMMITS: Final = (1, 2, 4, 5, 8)
"""The commits after which a run is killed. Each workspace takes five."""
RUN_PURGE: Final = "from infra.cli.main import main; main(['jobs', 'run', 'purge'])"
KILLED_PURGE: Final = """
import asyncio, os, signal, sys
from dataclasses import replace
from functions.jobs.purge.job import JOB, purge
from shared.runtime.context import App
from shared.runtime.job import Budget, run_job
from shared.core.settings import Settings

class Dying(Budget):
    commits = 0

    @property
    def spent(self):
        Dying.commits += 1
        if Dying.commits == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)

async def run(ctx, budget):
    return await purge(ctx, Dying(budget.deadline))

asyncio.run(run_job(replace(JOB, run=run), App(Settings())))
"""


class StoppedError(Exception):
    """The exception that ends a run."""


class Stopping(Budget):
    """Return an app whose runs end after this many commits, as by a kill."""

    __slots__ = ("left",)
    left: list[int]

    @classmethod
    def after(cls, commits: int) -> Stopping:
        budget = cls(make_ample_budget().deadline)
        object.__setattr__(budget, "left", list(range(commits - 1)))
        return budget

    @property
    def spent(self) -> bool:
        if not self.left:
            raise StoppedError
        self.left.pop()
        return False


async def make_workspaces(app: App, clock: SettableClock) -> dict[str, int]:
    """Make two idle workspaces and one in use. Return the number of documents below each path."""
    for task in ("older", "younger"):
        await upload_text(app, task, idempotency_key=task)
        clock.advance(minutes=1)
    clock.advance(days=89)
    await upload_text(app, "used", idempotency_key="used")
    clock.advance(days=2)
    return Counter(
        path.split("/")[3] for path in await read_write_times(make_job_context(app), "users/")
    )


async def assert_no_orphans(ctx: Context) -> None:
    contents = await read_all_documents(ctx.database.client)
    assert find_orphans(contents) == []


async def test_no_commit_leaves_an_orphan(
    settings: Settings,
) -> None:
    for commits in COMMITS:
        project = f"{settings.google_cloud_project}-{commits}"
        clock = SettableClock()
        async with open_workspace_app(
            settings.model_copy(update={"google_cloud_project": project}), clock
        ) as app:
            await make_workspaces(app, clock)
            ctx = make_job_context(app)
            before = await read_write_times(ctx, "users/")
            with pytest.raises(StoppedError):
                await erase_idle(ctx, Stopping.after(commits), Report())
            await assert_no_orphans(ctx)
            left = await read_write_times(ctx, "users/")
            report = Report()
            await erase_idle(ctx, make_ample_budget(), report)
            used = {path: at for path, at in before.items() if at == left.get(path)}
            ended = await read_write_times(ctx, "users/")
            assert report.counts.total() == len(left) - len(ended)
            assert len(before) - len(ended) == 2 * 9
            assert ended == {path: used[path] for path in ended}


async def test_run_killed_before_its_first_deletion_is_completed(
    settings: Settings,
) -> None:
    clock = SettableClock()
    async with open_workspace_app(settings, clock) as app:
        await upload_text(app, "notes")
        ctx = make_job_context(app)
        assert await make_erasure(ctx, "notes").begin()
        clock.advance(minutes=1)
        assert (await purge(ctx, make_ample_budget())).counts["tasks"] == 1
        assert await read_write_times(ctx, "users/") == {}


@pytest.mark.slow
async def test_repeatedly_killed_process_completes(settings: Settings, project: str) -> None:
    clock = SettableClock()
    clock.advance(days=-92)
    async with open_workspace_app(settings, clock) as app:
        await make_workspaces(app, clock)
        ctx = make_job_context(app)
        for commits in (3, 1):
            assert run_python(project, KILLED_PURGE, str(commits)).returncode == -signal.SIGKILL
            await assert_no_orphans(ctx)
        run = run_python(project, RUN_PURGE)
        assert run.returncode == 0
        assert run.stderr == ""
        # Of the older one, whatever was deleted before is gone with those who counted it.
        message = "purge: 2 tasks, 1 documents, 2 parts, 4 passages, 1 answers"
        assert any(line.startswith(message) for line in run.stdout.splitlines())
        left = await read_write_times(ctx, "users/reader/rag_tasks")
        assert {path.split("/")[3] for path in left} == {"used"}


def run_python(project: str, *code: str) -> subprocess.CompletedProcess[str]:
    """Return the code of a child process."""
    return subprocess.run(
        [sys.executable, "-c", *code],
        cwd=ROOT,
        env={**os.environ, "GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
