"""Makes calls and runs jobs in child processes, which are killed after some commits.

As a program, this module reads orders, one JSON object on a line. It carries out each order in a
child process, and prints the child's exit code. A child starts within milliseconds, because it is
the fork of a process that has imported everything and has opened no connection.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Final

from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.ingest.job import ingest
from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from functions.jobs.repair.job import JOB as REPAIR
from infra.build.discovery import ROOT
from shared.core.caller import Caller, Role
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.invocation import invoke
from shared.runtime.job import Budget, run_job
from shared.workspaces.erasure import WorkspaceErasure
from shared.workspaces.repository import Workspace
from tests.support.commit_hooks import WatchedApp, call_after_commit
from tests.support.tool_calls import find_tool, make_call_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.context import App

_JOBS = {job.name: job for job in (CLUSTER, INGEST_MATERIALS, PURGE, REPAIR)}
"""The jobs that orders may name."""
_MAX_KILLED_RUNS: Final = 30
"""The number of kills after which a run of ingest is considered to make no progress."""


@dataclass(frozen=True, slots=True)
class KillableChildren:
    """Sends orders to the parent process, which carries out each in a child."""

    _process: subprocess.Popen[str]

    def survives(self, settings: dict[str, Any], commits: int, **order: Any) -> bool:
        """Return whether a child finishes its order before it is killed, after `commits` commits.

        Args:
            settings: The fields of the child's settings.
            commits: The number of commits that succeed; with 0, the child is killed before it
                sends the first.
            order: One of these orders:

                - a call: `arguments` and `user`, and optionally `role` and `tool`, by default
                  `extract_key_info`;
                - a job run: `job`, the name;
                - `ingest`: a run of ingest without a lease;
                - an erasure: `erase`, the id of a task, and `user`.

        Raises:
            RuntimeError: The child neither finished nor was killed.
        """
        line = json.dumps({"settings": settings, "commits": commits, **order})
        stdin, stdout = _get_pipes(self._process)
        stdin.write(line + "\n")
        stdin.flush()
        code = int(stdout.readline() or 1)
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"The child exited with code {code}.")
        return code == 0

    def run_ingest_until_it_finishes(self, settings: dict[str, Any]) -> int:
        """Run ingest, killed after one commit, until a run finishes; return the number of kills."""
        count = 0
        while not self.survives(settings, 1, ingest=True):
            count += 1
            assert count < _MAX_KILLED_RUNS
        return count


@contextmanager
def start_killable_children() -> Iterator[KillableChildren]:
    """Start the parent process, and stop it when the block ends."""
    command = [sys.executable, "-m", "tests.support.killable_children"]
    with (
        TemporaryDirectory() as folder,  # for the temporary files of killed children
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield KillableChildren(process)


def _get_pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin
    assert process.stdout
    return process.stdin, process.stdout


async def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _run_child(order: dict[str, Any]) -> None:
    settings = Settings(**order["settings"])
    app = WatchedApp(settings, call_after_commit(order["commits"], _kill_this_process))
    try:
        await _run_order(order, app)
    finally:
        await app.aclose()


async def _run_order(order: dict[str, Any], app: App) -> None:
    if "job" in order:
        await run_job(_JOBS[order["job"]], app)
        return
    if "ingest" in order:
        await ingest(app.context(Caller(), Meter()), Budget(math.inf))
        return
    caller = Caller.of(order["user"], role=Role(order.get("role", Role.READER)))
    if "erase" in order:
        database = app.context(caller, Meter()).database
        erasure = WorkspaceErasure(database, Workspace(database, order["user"], order["erase"]))
        await erasure.begin()
        async for _ in erasure.delete_pages():
            pass
        return
    tool = find_tool(order.get("tool", "extract_key_info"))
    answer = await invoke(tool, make_call_request(tool, caller, order["arguments"]), app)
    if answer.error:
        raise RuntimeError(answer.error.message)


def _main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(_run_child(json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
