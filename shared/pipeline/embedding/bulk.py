"""Embedding thousands of passages by one batch job of the provider, at half the price.

A task goes through these states, each of them stored before what it says can be paid for:

1. begun: its name is known, and which passages it takes (`bulk_repository`);
2. written: their texts are in Cloud Storage;
3. under way: the provider's name of its job is known;
4. stored: every vector that it made is with its passage, unless somebody edited that meanwhile.

Then its files go, and what is known of it. Killed anywhere, the next run goes on from there, and
never starts a second job for what one is working on: jobs have the task's name, by which one is
found whose answer was lost.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from shared.ai.vertex_batch import MODELS, BatchProgress, VertexBatch
from shared.ai.vertex_client import VertexEndpoint
from shared.core.errors import CarrelError, PlatformFault
from shared.core.log import error_fields, log
from shared.firestore.database import LeaseLost
from shared.pipeline.embedding.bulk_repository import BulkRepository, BulkState, BulkTask
from shared.pipeline.embedding.online import PAGE, STEP, embed_pages, keep
from shared.pipeline.worker import defer_chunk
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from shared.ai.batch_files import BatchFiles
    from shared.ai.vertex_batch import BatchRow, BatchState
    from shared.core.settings import Settings
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

MOST_ROWS: Final = 200_000
MOST_BYTES: Final = 500_000_000
"""What one job is given at most; Google takes twice that and more."""
MOST_FAILURES: Final = 3
"""How many jobs fail in a row, or attempts to start one, before passages are embedded text by text
again, until few are left."""
MOST_REFUSED: Final = 1_000
"""Refused passages that are put off; others simply wait on."""
POLL_SECONDS: Final = 30.0
_REFUSED: Final = PlatformFault("The batch job made no usable vector of this text.")


@dataclass(frozen=True, slots=True)
class BulkServices:
    """What embedding in bulk takes.

    Attributes:
        vertex: The provider.
        files: Where it reads and writes.
        least: From how many passages on it is worth while.
        pause: Seconds between two looks at a job.
        most: How many passages one job is given.
    """

    vertex: VertexBatch
    files: BatchFiles
    least: int
    pause: float = POLL_SECONDS
    most: int = MOST_ROWS

    async def aclose(self) -> None:
        """Close the connections."""
        await self.vertex.aclose()
        await self.files.aclose()


@dataclass(slots=True)
class _Answers:
    """What a job answered: how many vectors, and of which passages there is none."""

    vectors: int = 0
    unreadable: int = 0
    refused: list[PendingChunk] = field(default_factory=list)


def bulk_of(settings: Settings) -> BulkServices | None:
    """Embedding in bulk as it is configured; None where it is not, or the model cannot."""
    bucket = settings.bulk_bucket
    if settings.embedding_provider != "vertex" or not bucket or settings.vertex_model not in MODELS:
        return None
    from shared.ai.batch_files import BatchFiles

    endpoint = VertexEndpoint(
        project=settings.google_cloud_project,
        location=settings.vertex_location,
        base_url=settings.vertex_base_url,
    )
    vertex = VertexBatch(endpoint, model=settings.vertex_model, dimension=settings.vertex_dimension)
    files = BatchFiles(bucket, settings.google_cloud_project)
    return BulkServices(vertex, files, settings.bulk_from)


class BulkRun:
    """One run's part in embedding in bulk."""

    def __init__(self, bulk: BulkServices, ctx: Context, budget: Budget, report: Report) -> None:
        """Go on with what earlier runs have begun."""
        self._bulk = bulk
        self._context = ctx
        self._budget = budget
        self._report = report
        self._store = BulkRepository(ctx.database)
        self._failures = 0

    async def next_task(self) -> bool:
        """Bring the task that is under way, or a new one, to its end, if there is time for that.

        Returns:
            Whether it came to its end; False where none is worth while, or one failed or goes on.

        Raises:
            CarrelError: The provider, Cloud Storage or the database is down or set up wrongly.
        """
        task = await self._present() or await self._begun()
        if task is None:
            return False
        if not task.stored:
            task = await self._started(task)
            if task.job and not await self._finished(task):
                return False
        await self._bulk.files.delete(task.name)
        await self._store.forget()
        return True

    async def _present(self) -> BulkTask | None:
        """The task that is under way, unless what it makes is of another space."""
        state = await self._store.state()
        self._failures = state.failures
        task, vertex = state.task, self._bulk.vertex
        if task is None or (task.model, task.dimension) == (vertex.model, vertex.dimension):
            return task
        if task.job:
            with suppress(CarrelError):  # it may have ended
                await vertex.cancel(task.job)
        await self._bulk.files.delete(task.name)
        await self._store.forget()
        self._failures = 0
        return None

    async def _begun(self) -> BulkTask | None:
        """A new task, if enough passages wait, and there is time."""
        now = self._context.clock()
        if self._budget.spent:
            return None
        if await self._store.count_due(now) < self._bulk.least:
            if self._failures:
                await self._store.forget()
            return None
        if self._failures >= MOST_FAILURES:
            return None
        task = BulkTask(
            name=f"carrel-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
            model=self._bulk.vertex.model,
            dimension=self._bulk.vertex.dimension,
            until=now,
        )
        return await self._remembered(task)

    async def _started(self, task: BulkTask) -> BulkTask:
        """The task with its texts written and its job started; what was done before stays done.

        Raises:
            CarrelError: That cannot be done. The task stays, for its job may have been started
                nevertheless; tried in vain a few times, it is given up.
        """
        try:
            if task.rows is None:
                task = await self._remembered(await self._written(task))
            if task.rows and task.job is None:
                job = await self._bulk.vertex.submit(
                    task.name,
                    self._bulk.files.address(f"{task.name}/input.jsonl"),
                    self._bulk.files.address(f"{task.name}/output"),
                )
                task = await self._remembered(replace(task, job=job))
        except LeaseLost:
            raise
        except CarrelError as error:
            log.error("bulk_not_started", task=task.name, **error_fields(error))
            task = replace(task, tries=task.tries + 1)
            given_up = task.tries >= MOST_FAILURES
            state = BulkState(None, MOST_FAILURES) if given_up else BulkState(task, self._failures)
            await self._store.remember(state)
            raise
        return task

    async def _written(self, task: BulkTask) -> BulkTask:
        """Write the texts of all that waits; what is too much for one job waits for the next."""
        rows = 0

        async def blocks() -> AsyncIterator[bytes]:
            nonlocal rows
            size = 0
            async for page in self._store.waiting_until(task.until, self._bulk.most):
                yield (block := b"".join(map(self._request, page)))
                rows += len(page)
                size += len(block)
                if size >= MOST_BYTES:
                    return

        await self._bulk.files.write(f"{task.name}/input.jsonl", blocks())
        return replace(task, rows=rows)

    def _request(self, chunk: PendingChunk) -> bytes:
        """What asks for the vector of a passage; the key brings back which, and what it said."""
        return self._bulk.vertex.request(f"{chunk.content_hash}:{chunk.chunk_id}", chunk.text)

    async def _finished(self, task: BulkTask) -> bool:
        """Wait for the job and store what it made, if there is time for that; or let it go."""
        state = await self._awaited(task)
        if state is None:
            return False
        if state.progress is BatchProgress.FAILED:
            return await self._failed(task, f"The batch job ended as {state.said}.")
        answers = await self._fetched(task)
        if answers is None:
            return False
        if 2 * answers.vectors < (task.rows or 0):
            told = f"The batch job made {answers.vectors} vectors of {task.rows} texts."
            return await self._failed(task, told)
        for chunk in answers.refused:
            await defer_chunk(STEP, chunk, _REFUSED, self._context, self._report)
        await self._remembered(replace(task, stored=True))
        return True

    async def _awaited(self, task: BulkTask) -> BatchState | None:
        """The job's end, or None if it is under way when the time is over.

        What began to wait since the task began is embedded meanwhile, text by text.
        """

        async def since() -> Sequence[PendingChunk]:
            return await self._store.waiting_since(task.until, self._context.clock(), PAGE)

        while True:
            await embed_pages(since, self._context, self._budget, self._report)
            state = await self._bulk.vertex.look(str(task.job))
            if state.progress is not BatchProgress.UNDER_WAY:
                return state
            left = self._budget.deadline - time.monotonic()
            if left <= self._bulk.pause:
                self._report.finished = False
                self._report.note = f"A batch job for {task.rows} passages is under way."
                return None
            await asyncio.sleep(self._bulk.pause)

    async def _fetched(self, task: BulkTask) -> _Answers | None:
        """Store the vectors that a job made; None if the time is over before that is done.

        A run that goes on with it reads all answers again, and stores what still waits.
        """
        answers = _Answers()
        names = await self._bulk.files.names(f"{task.name}/output")
        for name in names:
            if not name.endswith(".jsonl"):
                continue
            async for lines in self._bulk.files.lines(name):
                if self._budget.spent:
                    self._report.finished = False
                    return None
                await self._keep(lines, answers)
        if answers.unreadable:
            self._report.counts["unreadable"] = answers.unreadable
        return answers

    async def _keep(self, lines: Sequence[bytes], answers: _Answers) -> None:
        """Store vectors where they belong: with a passage that still says what was embedded."""
        read = [self._bulk.vertex.answer(line) for line in lines]
        rows = [row for row in read if row]
        waiting = await self._store.still_waiting(dict(_named(row) for row in rows))
        made = {_named(row)[0]: row.vector for row in rows if row.vector}
        pairs = [(waiting[name], vector) for name, vector in made.items() if name in waiting]
        await keep(pairs, self._context, self._budget, self._report)
        refused = [waiting[name] for name in waiting.keys() - made.keys()]
        answers.vectors += len(made)
        answers.unreadable += len(read) - len(rows)
        answers.refused += refused[: MOST_REFUSED - len(answers.refused)]

    async def _failed(self, task: BulkTask, reason: str) -> bool:
        """Let a job go that made nothing of use; what it was to embed waits on."""
        log.error("bulk_failed", job=task.job, failures=self._failures + 1)
        self._report.failures.append(Failure(str(task.job), reason))
        self._report.finished = False
        await self._bulk.files.delete(task.name)
        await self._store.remember(BulkState(None, self._failures + 1))
        return False

    async def _remembered(self, task: BulkTask) -> BulkTask:
        await self._store.remember(BulkState(task, self._failures))
        return task


def _named(row: BatchRow) -> tuple[str, str]:
    """The id of the passage that an answer is for, and the hash of what it said."""
    content_hash, _, chunk_id = row.key.partition(":")
    return chunk_id, content_hash
