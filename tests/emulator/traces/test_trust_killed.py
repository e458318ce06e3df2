"""The trust job, which recounts votes, completes even if its process is killed repeatedly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from functions.jobs.trust.job import ROUND_INTERVAL, recount_votes
from infra.build.discovery import ROOT
from shared.runtime.context import App
from tests.emulator.traces.test_trust_job import contribute_and_vote, damage
from tests.support.clock import SettableClock
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.stored_traces import assert_tallies_match_votes

if TYPE_CHECKING:
    from shared.core.settings import Settings

pytestmark = pytest.mark.anyio

PROGRAM: Final = """
import asyncio, os, signal, sys
from functions.jobs.trust.job import JOB
from shared.runtime.job import run_job
from shared.core.settings import Settings
from tests.support.commit_hooks import WatchedApp, call_after_commit

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(run_job(JOB, WatchedApp(Settings(), call_after_commit(int(sys.argv[1]), die))))
"""
"""A program that runs the job, and kills itself after the number of commits in its argument."""


async def test_a_run_after_repeated_kills_repairs_all_tallies(
    settings: Settings, project: str
) -> None:
    clock, rng = SettableClock(), random.Random(2)  # noqa: S311 - no secret
    app = App(settings, clock=clock, embedder=WordEmbedder())
    await contribute_and_vote(app, rng)
    await damage(app, rng)
    # Commits 1 and 2 store the lease and the time, and each further one stores a tally.
    for commits in (2, 3, 4):
        assert run_until_killed(project, commits) == -signal.SIGKILL

    clock.now += ROUND_INTERVAL  # so that the next run recounts all traces
    report = await recount_votes(make_job_context(app), make_ample_budget())
    assert report.finished
    assert report.failures == []
    await assert_tallies_match_votes(app)
    await app.aclose()


def run_until_killed(project: str, commits: int) -> int:
    """Run the job until it is killed after a number of commits, and return the exit code."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(commits)],
        cwd=ROOT,
        env={**os.environ, "GOOGLE_CLOUD_PROJECT": project, "LEASE_SECONDS": "0.1"},
        check=False,
    ).returncode
