"""Fetches saved links on this machine, where no schedule runs jobs.

A link is the address of a web page that a user saved. Its page becomes a source, which the other
jobs then make searchable.
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

BUSY_PAUSE: Final = 1.0
"""The pause, in seconds, before trying again to run a job that another process is running."""
_MAX_WAIT: Final = timedelta(days=1)
"""Links that are due later than this are not waited for. Retries are due within minutes."""


class LinkFetcher:
    """Fetches waiting links in the background, and makes their texts searchable.

    Links that failed are tried again when they are due, while this process runs.
    """

    def __init__(self, app: App, fetch: SafeFetch | None = None) -> None:
        """Prepare to fetch links. Nothing is fetched yet.

        Args:
            app: The resources of this process.
            fetch: Fetches pages; by default, from public addresses only.
        """
        self._app = app
        self._fetch = fetch
        self._saved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Fetch waiting links now, even while earlier links are fetched or wait for a retry."""
        self._saved.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="links")

    async def aclose(self) -> None:
        """Stop fetching. Links that were not fetched stay queued."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def wait(self) -> None:
        """Wait until all links are fetched or have failed for good."""
        if self._task:
            await self._task

    async def _work(self) -> None:
        """Run the jobs whenever links are saved or due, and return when no link is queued."""
        try:
            while True:
                self._saved.clear()
                for job in await asyncio.to_thread(self._load_jobs):
                    await self._run(job)
                if not await self._wait_for_link():
                    return
        except CarrelError as error:
            log.error("links_not_fetched", **error_fields(error))

    async def _run(self, job: Job) -> None:
        """Run a job, after any run of another process."""
        while True:
            outcome = await run_job(job, self._app)
            if not isinstance(outcome, AlreadyRunning):
                return
            await asyncio.sleep(BUSY_PAUSE)

    async def _wait_for_link(self) -> bool:
        """Wait until a link is saved or due. Return False without waiting if no link is queued."""
        ctx = self._app.context(Caller(), Meter())
        waiting = await SavedLinks(ctx.database).list_due(ctx.clock() + _MAX_WAIT, 1)
        if not waiting and not self._saved.is_set():
            return False
        due_at = waiting[0].link.due_at if waiting and waiting[0].link else None
        pause = (due_at - ctx.clock()).total_seconds() if due_at else 0
        with suppress(TimeoutError):
            await asyncio.wait_for(self._saved.wait(), max(0.0, pause))
        return True

    def _load_jobs(self) -> Sequence[Job]:
        """Import and return the jobs to run, in order. The imports take a second."""
        from functions.jobs.cards.job import JOB as CARDS
        from functions.jobs.cluster.job import JOB as CLUSTER
        from functions.jobs.embed.job import JOB as EMBED
        from functions.jobs.extract.job import JOB as EXTRACT
        from functions.jobs.index.job import JOB as INDEX
        from functions.jobs.ingest.job import JOB as INGEST
        from functions.jobs.ingest.links.queue import fetch_links

        async def fetch_only_links(ctx: Context, budget: Budget) -> Report:
            report = Report()
            await fetch_links(ctx, budget, report, self._fetch)
            return report

        return (replace(INGEST, run=fetch_only_links), EMBED, CARDS, CLUSTER, EXTRACT, INDEX)


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
