"""Fetches saved links on this machine, where no schedule runs jobs.

A link is the address of a web page that a user saved. Its page becomes a source, which later jobs
make searchable.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.core.caller import Caller
from shared.core.errors import CarrelError
from shared.core.log import error_fields, log
from shared.core.meter import Meter
from shared.links.repository import SavedLinks
from shared.runtime.job import AlreadyRunning, Report, run_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.gateway.calls.dispatch import Dispatcher
    from functions.gateway.catalog import Declaration
    from shared.core.safe_fetch import SafeFetch
    from shared.runtime.context import App, Context
    from shared.runtime.job import Budget, Job
    from shared.runtime.messages import CallAnswer, CallRequest

_BUSY_SECONDS: Final = 1.0
"""The pause before trying again to run a job that another process is running."""
ERROR_SECONDS: Final = 60.0
"""The pause before the next round after a failure."""
MAX_FAILED_ROUNDS: Final = 5
"""After this many failed rounds in a row, only the next saved link begins another round."""
_MIN_SECONDS: Final = 1.0
"""The minimum pause between rounds, in case a round leaves a link due."""
_MAX_WAIT: Final = timedelta(days=1)
"""Links that are due later than this are not waited for. Retries are due within minutes."""


class LinkFetcher:
    """Fetches waiting links in the background, and makes their texts searchable.

    It works in rounds: a round fetches the links that are due, and runs the jobs that embed, group
    and index texts. Links that failed are tried again when they are due, and jobs that failed after
    a pause, while this process runs.
    """

    def __init__(
        self, app: App, fetch: SafeFetch | None = None, error_seconds: float = ERROR_SECONDS
    ) -> None:
        """Prepare to fetch links. Nothing is fetched yet.

        Args:
            app: The resources of this process.
            fetch: Fetches pages; by default, from public addresses only.
            error_seconds: The pause after a round with a failure.
        """
        self._app = app
        self._fetch = fetch
        self._error_seconds = error_seconds
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin a round now, or as soon as the current one is over."""
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="links")

    async def aclose(self) -> None:
        """Stop fetching. Links that were not fetched stay queued."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def wait(self) -> None:
        """Wait until there is nothing left to do, or too many rounds have failed."""
        if self._task:
            await self._task

    async def _work(self) -> None:
        """Run rounds until there is nothing left to do, or too many of them have failed."""
        failed_rounds = 0
        while self._wake.is_set():
            self._wake.clear()
            pause: float | None
            try:
                await self._run_jobs()
                failed_rounds, pause = 0, await self._find_pause()
            except CarrelError as error:
                log.error("links_not_fetched", **error_fields(error))
                failed_rounds += 1
                pause = self._error_seconds if failed_rounds < MAX_FAILED_ROUNDS else None
            if pause is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), pause)
                self._wake.set()

    async def _run_jobs(self) -> None:
        """Run all jobs once. The first error is raised after the others have run.

        Raises:
            CarrelError: A job has failed.
        """
        errors = []
        for job in await asyncio.to_thread(self._load_jobs):
            try:
                await self._run(job)
            except CarrelError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _run(self, job: Job) -> None:
        """Run a job, after any run of another process.

        Raises:
            CarrelError: The job has failed.
        """
        while isinstance(await run_job(job, self._app), AlreadyRunning):  # noqa: ASYNC110 - polls another process
            await asyncio.sleep(_BUSY_SECONDS)

    async def _find_pause(self) -> float | None:
        """Return the seconds until a link is due, or None if none is due within `_MAX_WAIT`."""
        ctx = self._app.context(Caller(), Meter())  # only for its database and its clock
        waiting = await SavedLinks(ctx.database).list_due(ctx.clock() + _MAX_WAIT, 1)
        dates = [stored.link.due_at for stored in waiting if stored.link and stored.link.due_at]
        if not dates:
            return None
        return max(_MIN_SECONDS, (dates[0] - ctx.clock()).total_seconds())

    def _load_jobs(self) -> Sequence[Job]:
        """Import and return the jobs to run, in order. The imports take a second."""
        from functions.jobs.cards.job import JOB as CARDS
        from functions.jobs.cluster.job import JOB as CLUSTER
        from functions.jobs.embed.job import JOB as EMBED
        from functions.jobs.extract.job import JOB as EXTRACT
        from functions.jobs.index.job import JOB as INDEX
        from functions.jobs.ingest.job import JOB as INGEST
        from functions.jobs.ingest.links.queue import fetch_links

        async def ingest_links(ctx: Context, budget: Budget) -> Report:
            report = Report()
            await fetch_links(ctx, budget, report, self._fetch)
            return report

        return (replace(INGEST, run=ingest_links), EMBED, CARDS, CLUSTER, EXTRACT, INDEX)


class LinkFetchingDispatcher:
    """Passes calls on, and has links fetched as soon as `save_link` has queued them."""

    def __init__(self, dispatcher: Dispatcher, fetcher: LinkFetcher) -> None:
        """Pass calls to a dispatcher, and start the fetcher after `save_link`."""
        self._dispatcher = dispatcher
        self._fetcher = fetcher

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        """Run a call, and begin to fetch links if it queued one."""
        answer = await self._dispatcher.call(tool, request)
        if tool.name == "save_link" and answer.error is None:
            self._fetcher.start()
        return answer

    async def health(self) -> dict[str, str]:
        """Return the health of the services on which calls depend."""
        return await self._dispatcher.health()
