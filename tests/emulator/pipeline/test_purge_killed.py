"""A purge killed after any commit leaves no orphans, and the next run completes it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
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

KILLED_AFTER: Final = (1, 2, 4, 5, 8)
"""The numbers of the commits after which a run is killed. Each workspace takes five commits."""
DOCUMENTS_PER_WORKSPACE: Final = 9
PURGE_PROGRAM: Final = "from infra.cli.main import main; main(['jobs', 'run', 'purge'])"
DYING_PURGE_PROGRAM: Final = """
import asyncio, os, signal, sys
from dataclasses import replace
from functions.jobs.purge.job import JOB, purge
from shared.runtime.context import App
from shared.runtime.job import Budget, run_job
from shared.core.settings import Settings

class DeadlyBudget(Budget):
    commits = 0

    @property
    def spent(self):
        DeadlyBudget.commits += 1
        if DeadlyBudget.commits == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)

async def run(ctx, budget):
    return await purge(ctx, DeadlyBudget(budget.deadline))

asyncio.run(run_job(replace(JOB, run=run), App(Settings())))
"""


class Killed(Exception):
    """Ends a run, as if its process were killed."""


def make_deadly_budget(commits: int) -> Budget:
    """Make a budget that ends a run when it asks for the time after this many commits."""
    remaining_commits = iter(range(1, commits))

    class DeadlyBudget(Budget):
        @property
        def spent(self) -> bool:
            if next(remaining_commits, None) is None:
                raise Killed
            return False

    return DeadlyBudget(math.inf)


async def make_workspaces(app: App, clock: SettableClock) -> None:
    """Make two idle workspaces, `older` and `younger`, and one in use, `used`."""
    for task in ("older", "younger"):
        await upload_text(app, task, idempotency_key=task)
        clock.advance(minutes=1)
    clock.advance(days=89)
    await upload_text(app, "used", idempotency_key="used")
    clock.advance(days=2)


async def assert_no_orphans(ctx: Context) -> None:
    """Assert that no document is below a workspace that does not exist."""
    documents = await read_all_documents(ctx.database.connection.client)
    assert find_orphans(documents) == []


@pytest.mark.parametrize("commits", KILLED_AFTER)
async def test_a_run_killed_after_a_commit_leaves_no_orphans(
    settings: Settings, commits: int
) -> None:
    clock = SettableClock()
    async with open_workspace_app(settings, clock) as app:
        await make_workspaces(app, clock)
        ctx = make_job_context(app)
        before = await read_write_times(ctx, "users/")

        with pytest.raises(Killed):
            await erase_idle(ctx, make_deadly_budget(commits), Report())
        await assert_no_orphans(ctx)
        after_kill = await read_write_times(ctx, "users/")

        report = Report()
        await erase_idle(ctx, make_ample_budget(), report)
        after = await read_write_times(ctx, "users/")
        assert report.counts.total() == len(after_kill) - len(after)
        assert len(before) - len(after) == 2 * DOCUMENTS_PER_WORKSPACE
        for path, write_time in after.items():
            assert after_kill[path] == before[path] == write_time


async def test_a_run_killed_before_its_first_deletion_is_completed(settings: Settings) -> None:
    clock = SettableClock()
    async with open_workspace_app(settings, clock) as app:
        await upload_text(app, "notes")
        ctx = make_job_context(app)
        assert await make_erasure(ctx, "notes").begin()
        clock.advance(minutes=1)
        assert (await purge(ctx, make_ample_budget())).counts["tasks"] == 1
        assert await read_write_times(ctx, "users/") == {}


@pytest.mark.slow
async def test_the_next_run_completes_several_killed_processes(
    settings: Settings, project: str
) -> None:
    clock = SettableClock()
    clock.advance(days=-92)
    async with open_workspace_app(settings, clock) as app:
        await make_workspaces(app, clock)
        ctx = make_job_context(app)
        for commits in (3, 1):
            process = run_python(project, DYING_PURGE_PROGRAM, str(commits))
            assert process.returncode == -signal.SIGKILL
            await assert_no_orphans(ctx)

        process = run_python(project, PURGE_PROGRAM)
        assert process.returncode == 0
        assert process.stderr == ""
        # The documents of the older workspace were deleted and counted by the killed runs.
        message = "purge: 2 tasks, 1 documents, 2 parts, 4 passages, 1 answers"
        assert any(line.startswith(message) for line in process.stdout.splitlines())
        paths = await read_write_times(ctx, "users/reader/rag_tasks")
        assert {path.split("/")[3] for path in paths} == {"used"}


def run_python(project: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program on the database of a project, and wait for its end."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, "GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
