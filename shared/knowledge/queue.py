"""The queue of each step of the pipeline: the chunks that wait for it, and the step's results.

The queue is in the chunks themselves: the field `pending` maps each step that a chunk waits for to
the time from which it may be tried, `tries` counts the failed attempts, and `parked` has the reason
why a step is not tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from shared.core.bisection import bisect_batch
from shared.core.blocks import split
from shared.core.deferral import schedule_retry
from shared.core.errors import PlatformFault
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Update, Write
from shared.index.stored_vector import build_vector_fields
from shared.knowledge import chunk_repository
from shared.knowledge.chunk import build_embedding_text
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from datetime import datetime

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database

BuildWrites = Callable[[Sequence["StepResult"]], Awaitable[Iterable[Write]]]
"""Builds writes to other documents, for the commit that stores results of a step."""
MAX_WRITES: Final = 100
"""The maximum number of chunks whose results are stored in one commit."""
PENDING_FIELDS: Final = ("source_id", "title", "content", "content_hash", "tries", "extracted")


class QueuedChunk(Protocol):
    """A chunk at the time of a read, with the number of failed attempts at a step."""

    @property
    def chunk_id(self) -> str: ...  # noqa: D102 - as in every value about a chunk
    @property
    def tries(self) -> int: ...  # noqa: D102 - the same
    @property
    def update_time(self) -> Any: ...  # noqa: D102 - the same


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that waits for a step, at the time of a read.

    Attributes:
        content_hash: A hash of the title and the text.
        update_time: The time of its last write before the read.
        extracted: The groups of its extractions, by extraction id.
    """

    chunk_id: str
    source_id: str
    title: str
    content: str
    content_hash: str
    tries: int
    update_time: Any
    extracted: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text to embed."""
        return build_embedding_text(self.title, self.content)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step for one chunk.

    Attributes:
        change: The fields to set on the chunk.
        extractions: The fields of the chunk's extractions from now on, by extraction id. Only the
            step that finds them sets this.
    """

    chunk: PendingChunk
    change: Mapping[str, Any]
    extractions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A chunk on which a step failed so often that it is not retried."""

    chunk_id: str
    reason: str


class RefusedChunks(PlatformFault):
    """The database refuses the results of some chunks. The other results are stored.

    Attributes:
        stored: The number of chunks whose results were stored.
    """

    def __init__(self, stored: int, chunks: Sequence[PendingChunk]) -> None:
        super().__init__("The database refuses the result for this passage: it may be too large.")
        self.stored = stored
        self.chunks = list(chunks)


class ChunkQueue:
    """Loads the chunks that wait for a step, and stores results, retries and dead letters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_pending(self, step: str, now: datetime, limit: int) -> list[PendingChunk]:
        """Load chunks for which `step` is due, the longest waiting first. Costs one round trip."""
        query = due_query(step, now, limit).select(PENDING_FIELDS)
        return [to_pending(step, snapshot) for snapshot in await self._database.find(query)]

    async def count_pending(self, step: str) -> int:
        """Count the chunks that wait for `step`, due or not."""
        return await self._database.count(pending_query(step))

    async def is_done(self, step: str) -> bool:
        """Return whether no chunk waits for `step` or is dead-lettered. Costs two reads."""
        queries = pending_query(step), dead_letter_query(step)
        chunks = await asyncio.gather(
            *(self._database.find(query.select([]).limit(1)) for query in queries)
        )
        return not any(chunks)

    async def store_vectors(
        self, chunks: Sequence[PendingChunk], vectors: Sequence[Vector], model: str, now: datetime
    ) -> int:
        """Store the vectors of chunks, and queue the chunks for clustering.

        Returns:
            The number of vectors stored.
        """
        results = [
            StepResult(
                chunk,
                build_vector_fields(vector, model)
                | chunk_repository.build_step_pending("cluster", now),
            )
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        return await self.complete("embed", results)

    async def complete(
        self, step: str, results: Sequence[StepResult], build_writes: BuildWrites | None = None
    ) -> int:
        """Store results, and end the step. A chunk that was edited since the read stays pending.

        Args:
            build_writes: Builds further writes of each commit.

        Returns:
            The number of chunks whose results were stored.

        Raises:
            RefusedChunks: The database refuses some results because of their content. The others
                are stored.
        """
        refused: list[PendingChunk] = []
        stored = 0
        for block in split(results, MAX_WRITES):
            stored += await self._complete(step, block, build_writes, refused)
        if refused:
            raise RefusedChunks(stored, refused)
        return stored

    async def _complete(
        self,
        step: str,
        results: Sequence[StepResult],
        build_writes: BuildWrites | None,
        refused: list[PendingChunk],
    ) -> int:
        """Store results in one commit. Add the chunks whose results are refused to `refused`."""

        async def commit(results: Sequence[StepResult]) -> None:
            done = chunk_repository.build_step_done(step)
            updates = [
                self._build_update(result.chunk, {**result.change, **done}) for result in results
            ]
            others = await build_writes(results) if build_writes else []
            await self._database.commit([*updates, *others])

        try:
            await commit(results)
        except WriteConflict:
            # Other steps write to chunks, too. Only the text shows whether a chunk was edited.
            results = await self._filter_unedited(step, results)
        except (PlatformFault, ValueError):
            pass
        else:
            return len(results)
        # A ValueError means that Google's client cannot encode the data as a request.
        stored = 0
        async for batch, outcome in bisect_batch(
            results, commit, (WriteConflict, PlatformFault, ValueError)
        ):
            if outcome is None:
                stored += len(batch)
            elif not isinstance(outcome, WriteConflict):
                refused.append(batch[0].chunk)
        return stored

    async def _filter_unedited(self, step: str, results: Sequence[StepResult]) -> list[StepResult]:
        """Return the results of chunks with unchanged text, with the chunks' new update times."""
        by_id = {result.chunk.chunk_id: result for result in results}
        references = [Reference(CHUNKS, chunk_id) for chunk_id in by_id]
        snapshots = await self._database.get_all(references, ["content_hash", "extracted"])
        return [
            replace(result, chunk=replace(result.chunk, update_time=snapshot.update_time))
            for snapshot in snapshots
            if _is_unedited(snapshot, (result := by_id[snapshot.id]).chunk, step)
        ]

    async def defer(self, step: str, chunk: QueuedChunk, reason: str, now: datetime) -> None:
        """Retry the step after a pause, longer each time. After five tries, dead-letter it."""
        tries = chunk.tries + 1
        due = schedule_retry(tries, now)
        change: dict[str, Any] = {f"tries.{step}": tries, f"pending.{step}": due or DELETE_FIELD}
        if due is None:
            change[f"parked.{step}"] = reason
        await self._database.commit_skipping_conflicts([self._build_update(chunk, change)])

    async def load_dead_letters(self, step: str, limit: int) -> list[DeadLetter]:
        """Load chunks on which `step` is not retried, with the reasons. Costs one round trip."""
        query = dead_letter_query(step).select([f"parked.{step}"])
        snapshots = await self._database.find(query.limit(limit))
        return [DeadLetter(snapshot.id, snapshot.get(f"parked.{step}")) for snapshot in snapshots]

    async def count_dead_letters(self, step: str) -> int:
        """Count the chunks on which `step` is not retried."""
        return await self._database.count(dead_letter_query(step))

    async def retry(self, step: str, now: datetime) -> int:
        """Queue all dead letters of a step again. Return their number."""
        count = 0
        while letters := await self.load_dead_letters(step, MAX_WRITES):
            writes = [self._build_requeue_write(letter, step, now) for letter in letters]
            count += await self._database.commit_skipping_conflicts(writes)
        return count

    def _build_requeue_write(self, letter: DeadLetter, step: str, now: datetime) -> Write:
        reference = Reference(CHUNKS, letter.chunk_id)
        return Update(reference, chunk_repository.build_step_pending(step, now))

    def _build_update(self, chunk: QueuedChunk, change: dict[str, Any]) -> Write:
        reference = Reference(CHUNKS, chunk.chunk_id)
        return Update(reference, change, chunk.update_time)


def pending_query(step: str) -> Query:
    """Build the query for chunks that wait for a step, due or not, the longest waiting first."""
    return Query(CHUNKS).order_by(f"pending.{step}")


def due_query(step: str, now: datetime, limit: int) -> Query:
    """Build the query for chunks for which a step is due, the longest waiting first."""
    return pending_query(step).where(f"pending.{step}", "<=", now).limit(limit)


def dead_letter_query(step: str) -> Query:
    """Build the query for chunks on which a step is not retried."""
    return Query(CHUNKS).order_by(f"parked.{step}")


def _is_unedited(snapshot: Document, chunk: PendingChunk, step: str) -> bool:
    data = snapshot.fields
    same_text = data.get("content_hash") == chunk.content_hash
    # Only the step that replaces extractions depends on the extractions that it read.
    return same_text and (step != "extract" or (data.get("extracted") or {}) == chunk.extracted)


def to_pending(step: str, snapshot: Document) -> PendingChunk:
    """Read a chunk that waits for a step from its document."""
    data = snapshot.fields
    return PendingChunk(
        chunk_id=snapshot.id,
        source_id=data["source_id"],
        title=data["title"],
        content=data["content"],
        content_hash=data["content_hash"],
        tries=data.get("tries", {}).get(step, 0),
        update_time=snapshot.update_time,
        extracted=data.get("extracted") or {},
    )
