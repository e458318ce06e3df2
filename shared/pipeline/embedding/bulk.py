"""Embeds thousands of passages with one batch job of the provider, at half the price.

A task goes through these states. Each state is stored before the next step can cost money:

1. begun: the task has a name, and a cut-off time for its passages (`bulk_repository`);
2. written: the texts are in Cloud Storage;
3. under way: the name that the provider gave the job is known;
4. stored: the vectors of all passages that were not edited in the meantime are stored.

Then the files and the task are deleted. After a killed run, the next run continues, and never
starts a second job for the same passages: a job has the name of its task, by which it is found
again even if the response to its creation was lost.
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
from shared.pipeline.embedding.online import PAGE, STEP, embed_pages, store_vectors
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

MIN_PASSAGES: Final = 10_000
"""The number of pending passages from which they are embedded in bulk."""
MAX_ROWS: Final = 200_000
"""The maximum number of passages of a job."""
MAX_BYTES: Final = 500_000_000
"""The approximate maximum size of a job's input, in bytes. Google accepts more than twice as
much."""
MAX_FAILURES: Final = 3
"""After this many consecutive failures of jobs, or of attempts to start a job, passages are
embedded online until only a few are pending."""
MAX_REJECTED: Final = 1_000
"""The maximum number of a job's rejected passages that are deferred. Further ones stay pending."""
POLL_SECONDS: Final = 30.0
"""The default interval at which the state of a job is read."""
_NO_VECTOR: Final = PlatformFault("The batch job returned no usable vector for this text.")


@dataclass(frozen=True, slots=True)
class BulkServices:
    """The services and the limits of bulk embedding.

    Attributes:
        min_passages: The minimum number of pending passages for bulk embedding.
        poll_seconds: The interval at which the state of a job is read.
        max_rows: The maximum number of passages of a job.
    """

    vertex: VertexBatch
    files: BatchFiles
    min_passages: int
    poll_seconds: float = POLL_SECONDS
    max_rows: int = MAX_ROWS

    async def aclose(self) -> None:
        """Close the connections."""
        await self.vertex.aclose()
        await self.files.aclose()


@dataclass(slots=True)
class _JobOutput:
    """What a job returned."""

    vectors: int = 0
    unreadable: int = 0
    rejected: list[PendingChunk] = field(default_factory=list)


def make_bulk_services(settings: Settings) -> BulkServices | None:
    """Make the configured services, or return None without any, or if the model has no batches."""
    bucket = settings.bulk_bucket
    model = settings.embedding_model_or_default
    if settings.embedding_provider != "vertex" or not bucket or model not in MODELS:
        return None
    from shared.ai.batch_files import BatchFiles

    endpoint = VertexEndpoint(
        project=settings.google_cloud_project,
        location=settings.vertex_location,
        base_url=settings.vertex_base_url,
    )
    vertex = VertexBatch(endpoint, model=model, dimension=settings.embedding_dimension)
    files = BatchFiles(bucket, settings.google_cloud_project)
    return BulkServices(vertex, files, MIN_PASSAGES)


class BulkRun:
    """The bulk embedding of one run of a job."""

    def __init__(
        self, services: BulkServices, ctx: Context, budget: Budget, report: Report
    ) -> None:
        self._services = services
        self._context = ctx
        self._budget = budget
        self._report = report
        self._store = BulkRepository(ctx.database)
        self._failures = 0

    async def process_task(self) -> bool:
        """Complete the unfinished task, or begin and complete a new one, if there is time.

        Returns:
            Whether a task was completed. If not, too few passages are pending, the task failed, or
            the next run continues it.

        Raises:
            CarrelError: The provider, Cloud Storage or the database is down or misconfigured.
        """
        task = await self._load_unfinished_task() or await self._begin_task()
        if task is None:
            return False
        self._services.vertex.require_package()
        if not task.stored:
            task = await self._start(task)
            if task.job and not await self._finish(task):
                return False
        await self._services.files.delete(task.name)
        await self._store.clear()
        return True

    async def _load_unfinished_task(self) -> BulkTask | None:
        """Load the unfinished task, or None. A task for another embedding space is cancelled."""
        state = await self._store.load_state()
        self._failures = state.failures
        task, vertex = state.task, self._services.vertex
        if task is None or (task.model, task.dimension) == (vertex.model, vertex.dimension):
            return task
        if task.job:
            with suppress(CarrelError):  # The job may have ended.
                await vertex.cancel(task.job)
        await self._services.files.delete(task.name)
        await self._store.clear()
        self._failures = 0
        return None

    async def _begin_task(self) -> BulkTask | None:
        """Begin a task, if enough passages are pending and there is time."""
        now = self._context.clock()
        if self._budget.spent:
            return None
        if await self._store.count_due(now) < self._services.min_passages:
            if self._failures:
                await self._store.clear()
            return None
        if self._failures >= MAX_FAILURES:
            return None
        task = BulkTask(
            name=f"carrel-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
            model=self._services.vertex.model,
            dimension=self._services.vertex.dimension,
            until=now,
        )
        return await self._save(task)

    async def _start(self, task: BulkTask) -> BulkTask:
        """Write the texts of a task and start its job, unless an earlier run did.

        Raises:
            CarrelError: The job cannot be started now. The task stays, because its job may have
                been started anyway. After `MAX_FAILURES` attempts, the task is abandoned.
        """
        try:
            if task.rows is None:
                task = await self._save(await self._write_texts(task))
            if task.rows and task.job is None:
                job = await self._services.vertex.submit(
                    task.name,
                    self._services.files.get_address(f"{task.name}/input.jsonl"),
                    self._services.files.get_address(f"{task.name}/output"),
                )
                task = await self._save(replace(task, job=job))
        except LeaseLost:
            raise
        except CarrelError as error:
            log.error("bulk_not_started", task=task.name, **error_fields(error))
            task = replace(task, tries=task.tries + 1)
            is_abandoned = task.tries >= MAX_FAILURES
            state = (
                BulkState(None, MAX_FAILURES) if is_abandoned else BulkState(task, self._failures)
            )
            await self._store.save(state)
            raise
        return task

    async def _write_texts(self, task: BulkTask) -> BulkTask:
        """Write the texts of pending passages, up to the limits of one job."""
        rows = 0

        async def build_blocks() -> AsyncIterator[bytes]:
            nonlocal rows
            size = 0
            async for page in self._store.iterate_pending_until(
                task.until, self._services.max_rows
            ):
                block = b"".join(map(self._build_request, page))
                yield block
                rows += len(page)
                size += len(block)
                if size >= MAX_BYTES:
                    return

        await self._services.files.write(f"{task.name}/input.jsonl", build_blocks())
        return replace(task, rows=rows)

    def _build_request(self, chunk: PendingChunk) -> bytes:
        """Build the request for a vector. Its key consists of the hash of the text and the id."""
        return self._services.vertex.make_request_line(
            f"{chunk.content_hash}:{chunk.chunk_id}", chunk.text
        )

    async def _finish(self, task: BulkTask) -> bool:
        """Wait for the job and store its vectors, if there is time. Abandon a failed job.

        Returns:
            Whether all vectors are stored.
        """
        state = await self._wait(task)
        if state is None:
            return False
        if state.progress is BatchProgress.FAILED:
            await self._abandon(task, f"The batch job ended as {state.code}.")
            return False
        output = await self._fetch(task)
        if output is None:
            return False
        # If most texts got no vector, the job failed, and the texts are not the cause.
        if 2 * output.vectors < (task.rows or 0):
            reason = f"The batch job made {output.vectors} vectors of {task.rows} texts."
            await self._abandon(task, reason)
            return False
        for chunk in output.rejected:
            await defer_chunk(STEP, chunk, _NO_VECTOR, self._context, self._report)
        await self._save(replace(task, stored=True))
        return True

    async def _wait(self, task: BulkTask) -> BatchState | None:
        """Wait for the end of the job. Return its state, or None if the time is up before.

        In the meantime, passages that became pending after the start of the task are embedded
        online.
        """

        async def load_page() -> Sequence[PendingChunk]:
            return await self._store.load_pending_since(task.until, self._context.clock(), PAGE)

        while True:
            await embed_pages(load_page, self._context, self._budget, self._report)
            state = await self._services.vertex.get_state(str(task.job))
            if state.progress is not BatchProgress.UNDER_WAY:
                return state
            remaining_seconds = self._budget.deadline - time.monotonic()
            if remaining_seconds <= self._services.poll_seconds:
                self._report.finished = False
                self._report.note = f"A batch job for {task.rows} passages is under way."
                return None
            await asyncio.sleep(self._services.poll_seconds)

    async def _fetch(self, task: BulkTask) -> _JobOutput | None:
        """Store the vectors of a job, and return its output, or None if the time is up before.

        The next run then reads the whole output again, and stores the vectors of the passages that
        are still pending.
        """
        output = _JobOutput()
        names = await self._services.files.list_names(f"{task.name}/output")
        for name in names:
            if not name.endswith(".jsonl"):
                continue
            async for lines in self._services.files.iterate_lines(name):
                if self._budget.spent:
                    self._report.finished = False
                    return None
                await self._store_rows(lines, output)
        if output.unreadable:
            self._report.counts["unreadable"] = output.unreadable
        return output

    async def _store_rows(self, lines: Sequence[bytes], output: _JobOutput) -> None:
        """Store the vectors of passages whose text has not changed since it was embedded."""
        answers = [self._services.vertex.parse_answer(line) for line in lines]
        rows = [row for row in answers if row]
        pending = await self._store.load_unedited(dict(_parse_chunk_and_hash(row) for row in rows))
        vectors = {_parse_chunk_and_hash(row)[0]: row.vector for row in rows if row.vector}
        embedded = [(pending[name], vector) for name, vector in vectors.items() if name in pending]
        await store_vectors(embedded, self._context, self._budget, self._report)
        rejected = [pending[name] for name in pending.keys() - vectors.keys()]
        output.vectors += len(vectors)
        output.unreadable += len(answers) - len(rows)
        output.rejected += rejected[: MAX_REJECTED - len(output.rejected)]

    async def _abandon(self, task: BulkTask, reason: str) -> None:
        """Report a failed job, and delete its task. Its passages stay pending."""
        log.error("bulk_failed", job=task.job, failures=self._failures + 1)
        self._report.failures.append(Failure(str(task.job), reason))
        self._report.finished = False
        await self._services.files.delete(task.name)
        await self._store.save(BulkState(None, self._failures + 1))

    async def _save(self, task: BulkTask) -> BulkTask:
        await self._store.save(BulkState(task, self._failures))
        return task


def _parse_chunk_and_hash(row: BatchRow) -> tuple[str, str]:
    """Return the id of the passage to which an answer belongs, and the hash of its text."""
    content_hash, _, chunk_id = row.key.partition(":")
    return chunk_id, content_hash
