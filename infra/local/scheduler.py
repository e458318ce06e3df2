"""Runs jobs on this machine while Carrel runs: on their schedules, and as soon as new texts wait.

A job is due if its schedule has come round since its last run began. A job that was missed while
Carrel was stopped or the machine slept therefore runs once. Of the processes that share a state
folder, only the one that holds the lock runs jobs. When it ends or is killed, another takes over.
"""

from __future__ import annotations

import asyncio
import fcntl
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from infra.file_lock import hold_lock
from infra.local import local_database
from infra.local.cron import find_last_time
from shared.core.caller import Caller
from shared.core.log import error_fields, log
from shared.core.meter import Meter
from shared.firestore.runs import Runs, RunState
from shared.links.repository import SavedLinks
from shared.runtime.job import AlreadyRunning, Report, run_job

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from functions.gateway.calls.dispatch import Dispatcher
    from functions.gateway.catalog import Declaration
    from infra.local.folder_watch import FolderWatch
    from shared.firestore.database import Database
    from shared.runtime.context import App
    from shared.runtime.job import Job
    from shared.runtime.messages import CallAnswer, CallRequest

INGEST: Final = "ingest"
STEPS: Final = (INGEST, "embed", "cards", "cluster", "extract", "index")
"""The jobs that make new texts searchable, in order."""
_START_SECONDS: Final = 5.0
"""The pause before the first job, so that a client's first calls do not compete with it."""
_POLL_SECONDS: Final = 1.0
"""The pause between checks for due jobs. A check takes a fraction of a millisecond."""
_ERROR_SECONDS: Final = 60.0
"""The pause after a fault, such as a database that does not answer."""
_TURN_SECONDS: Final = dict.fromkeys(("embed", "cards", "extract", "ingest_materials"), 60.0)
"""How long each job that may take hours runs before the others get a turn."""
_WAKING_TOOLS: Final = frozenset(
    {"edit_source", "fetch_links", "forget", "save_link", "save_note", "save_page"}
)
"""The tools that leave work for jobs."""
_UNFINISHED: Final = frozenset({RunState.RUNNING, RunState.DIED, RunState.OUT_OF_TIME})
"""The states of a run whose work the next one continues."""


def get_lock_file() -> Path:
    """Return the file that the process with the jobs keeps locked. Touching it wakes that one."""
    return local_database.STATE / "jobs.lock"


def get_upload_folder() -> Path:
    """Return the folder with the uploads, each a folder. Hidden ones are not complete yet."""
    return local_database.STATE / "uploads"


def wake() -> None:
    """Make the process that runs jobs run `STEPS` now, and reload the followed folders.

    If there is no such process, the next one starts with that.
    """
    with suppress(FileNotFoundError):  # with an emulator, there is no state folder
        get_lock_file().touch()


class Scheduler:
    """Runs what is due in the background, unless another process does."""

    _folders: FolderWatch

    def __init__(self, app: App) -> None:
        """Prepare to run jobs with the resources of this process."""
        self._app = app
        self._context = app.context(Caller(), Meter())  # only for its database and its clock
        self._jobs: dict[str, Job] = {}
        self._last_starts: dict[str, datetime] = {}
        self._due_jobs: set[str] = set()
        self._waiting_jobs: set[str] = set()
        self._changed_folders: frozenset[Path] = frozenset()
        self._last_look: tuple[object, ...] = ()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, if not started yet."""
        self._task = self._task or asyncio.create_task(self._work(), name="jobs")

    async def aclose(self) -> None:
        """Stop. The next process continues a job that was running."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _work(self) -> None:
        """Wait for the lock, then run jobs until this task is cancelled."""
        await asyncio.sleep(_START_SECONDS)
        with ExitStack() as stack:
            while True:
                with suppress(BlockingIOError):
                    stack.enter_context(hold_lock(get_lock_file(), fcntl.LOCK_EX | fcntl.LOCK_NB))
                    break
                await asyncio.sleep(_POLL_SECONDS)
            self._jobs, self._folders = await asyncio.to_thread(_load, self._context.database)
            try:
                while True:
                    await self._look()
                    await asyncio.sleep(_POLL_SECONDS)
            finally:
                await self._folders.aclose()

    async def _look(self) -> None:
        """Find the jobs that are due, and run them."""
        try:
            await self._find_due()
            await self._run_due()
        except Exception as error:  # noqa: BLE001 - the task must survive any fault
            log.error("jobs_not_run", **error_fields(error))
            await asyncio.sleep(_ERROR_SECONDS)

    async def _find_due(self) -> None:
        """Find the jobs to run. Reads the database once a minute and after `wake`."""
        now = self._context.clock()
        woken_at = get_lock_file().stat().st_mtime_ns
        if woken_at not in self._last_look:
            self._waiting_jobs.update(STEPS)
        if self._last_look != (woken_at, now.replace(second=0, microsecond=0)):
            self._last_look = (woken_at, now.replace(second=0, microsecond=0))
            await self._folders.update()
            self._due_jobs |= {name for name in self._jobs if await self._is_due(name, now)}
            if await SavedLinks(self._context.database).list_due(now, 1):
                self._waiting_jobs.add(INGEST)
        if changed := await self._folders.find_changed():
            self._changed_folders |= changed
            self._waiting_jobs.add(INGEST)

    async def _is_due(self, name: str, now: datetime) -> bool:
        """Return whether a job is due. Reads the job's last run by any process if need be."""
        due_at = find_last_time(self._jobs[name].schedule, now)
        if name in self._last_starts and self._last_starts[name] >= due_at:
            return False
        runs = await Runs(self._context.database).load_latest(name, 1)
        if not runs or runs[0].state in _UNFINISHED:
            return True
        self._last_starts[name] = runs[0].started_at
        return self._last_starts[name] < due_at

    async def _run_due(self) -> None:
        """Run the jobs in order. A job whose lease is taken is tried again a second later."""
        for name, job in self._jobs.items():
            if name not in self._due_jobs | self._waiting_jobs:
                continue
            self._last_starts[name] = self._context.clock()
            outcome = await self._run_ingest(job) if name == INGEST else await self._run(job)
            if isinstance(outcome, AlreadyRunning):
                continue
            if outcome.finished:
                self._due_jobs.discard(name)
                self._waiting_jobs.discard(name)
            if name in STEPS and any(outcome.counts.values()):
                self._waiting_jobs.update(STEPS[STEPS.index(name) + 1 :])

    async def _run_ingest(self, job: Job) -> Report | AlreadyRunning:
        """Fetch links, and read uploads, changed folders and, if due, configured origins."""
        from functions.jobs.ingest.job import ingest_here

        changed, is_scheduled = self._changed_folders, INGEST in self._due_jobs
        run = partial(ingest_here, changed, _list_uploads(), is_scheduled=is_scheduled)
        outcome = await self._run(replace(job, run=run))
        if isinstance(outcome, AlreadyRunning):  # perhaps a command, which reads these folders
            self._folders.suspect(changed)
        if isinstance(outcome, AlreadyRunning) or outcome.finished:
            self._changed_folders = frozenset()
        await self._folders.update()
        return outcome

    async def _run(self, job: Job) -> Report | AlreadyRunning:
        """Run a job. If it fails, it runs again on its schedule."""
        try:
            return await run_job(job, self._app, seconds=_TURN_SECONDS.get(job.name))
        except Exception as error:  # noqa: BLE001 - the other jobs must still run
            log.error("job_failed", job=job.name, **error_fields(error))
            return Report()


def _list_uploads() -> list[Path]:
    """List the uploads that wait to be read, the oldest first."""
    return sorted(path for path in get_upload_folder().glob("*") if not path.name.startswith("."))


def _load(database: Database) -> tuple[dict[str, Job], FolderWatch]:
    """Load the scheduled jobs, `STEPS` first, and the folder watch. The imports take a second."""
    from infra.build.discovery import jobs
    from infra.local.folder_watch import FolderWatch

    scheduled = {job.name: job for job in jobs() if job.schedule}
    return {name: scheduled[name] for name in (*STEPS, *scheduled)}, FolderWatch(database)


class WakingDispatcher:
    """Passes calls on, and wakes the scheduler after calls that leave work for jobs."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Pass calls to a dispatcher."""
        self._dispatcher = dispatcher

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run a call."""
        answer = await self._dispatcher.call(tool, request)
        if tool.name in _WAKING_TOOLS and answer.error is None:
            wake()
        return answer

    async def health(self) -> dict[str, str]:
        """Return the health of the services on which calls depend."""
        return await self._dispatcher.health()
