"""Runs of ingest in a process of their own, which is killed right after one of its commits."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from infra.deploy.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIGKILLED: Final = -9
_ENDLESS: Final = 30
_DYING: Final = """
import asyncio, math, os, signal, sys
from functions.jobs.ingest.job import ingest
from shared.core.caller import Caller
from shared.runtime.job import Budget
from shared.core.settings import Settings
from shared.firestore.database import Meter
from tests.support.commit_hooks import WatchedBackend, after

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def run():
    backend = WatchedBackend(Settings(), after(int(sys.argv[1]), die))
    await ingest(backend.deps(Caller(), Meter()), Budget(math.inf))

asyncio.run(run())
"""


def killed(environment: Mapping[str, str], commit: int = 1) -> bool:
    """Run ingest, without its lease, until it has made so many commits.

    Args:
        environment: Its settings.
        commit: After which one it is killed.

    Returns:
        Whether it was; a run that had less to do ends by itself.
    """
    process = subprocess.run(
        [sys.executable, "-c", _DYING, str(commit)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode in {0, _SIGKILLED}, process.stderr.decode()
    return process.returncode == _SIGKILLED


def kills(environment: Mapping[str, str]) -> int:
    """Kill each run after the first commit that it makes, until one has nothing to commit.

    Returns:
        How many were killed.
    """
    count = 0
    while killed(environment):
        count += 1
        assert count < _ENDLESS
    return count
