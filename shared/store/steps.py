"""The work that waits on chunks: who needs which step, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from google.cloud.firestore import DELETE_FIELD, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.clock import utc_now
from shared.domain.chunk import embedding_text
from shared.store.chunk_documents import COLLECTION, STEPS
from shared.store.database import Stale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.ai.embedding import Vector
    from shared.store.database import Database, Write

MAX_TRIES: Final = 5
"""How often a step is tried on a chunk before it is parked."""


class Tried(Protocol):
    """A chunk as it was read, and how often a step was tried on it."""

    @property
    def chunk_id(self) -> str: ...  # noqa: D102 - as in every value that stands for a chunk
    @property
    def tries(self) -> int: ...  # noqa: D102 - the same
    @property
    def update_time(self) -> Any: ...  # noqa: D102 - the same


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that waits for a step, as it was read."""

    chunk_id: str
    text: str
    content_hash: str
    tries: int
    update_time: Any


class Steps:
    """Hands out chunks that wait for a step, and records what jobs did to them."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def pending(self, step: str, now: datetime, limit: int) -> list[PendingChunk]:
        """Chunks that wait for `step` and whose time to try (again) has come."""
        query = pending_query(self._database.client, step, now, limit)
        query = query.select(["title", "content", "content_hash", "tries"])
        return [_pending(step, snapshot) for snapshot in await self._database.find(query)]

    async def count_pending(self, step: str) -> int:
        """How many chunks wait for `step`, including those whose time has not come."""
        return await self._database.count(waiting_query(self._database.client, step))

    async def embedded(
        self, chunks: Sequence[PendingChunk], vectors: Sequence[Vector], model: str
    ) -> int:
        """Store vectors; a chunk whose text was edited since it was read stays pending.

        Returns:
            How many were stored.
        """
        made = list(zip(chunks, vectors, strict=True))
        try:
            await self._database.commit(self._vector_writes(made, model))
        except Stale:
            # Other steps write to chunks too: what was edited is told by the text alone.
            present = await self._present(chunks)
            made = [
                (present[old.chunk_id], vector) for old, vector in made if old.chunk_id in present
            ]
            return await self._database.commit_what_holds(self._vector_writes(made, model))
        return len(made)

    def _vector_writes(
        self, made: Sequence[tuple[PendingChunk, Vector]], model: str
    ) -> list[Write]:
        return [
            self._update(
                chunk,
                {
                    "embedding": FirestoreVector(list(vector)),
                    "embedding_model": model,
                    "tries.embed": DELETE_FIELD,
                    "pending.embed": DELETE_FIELD,
                },
            )
            for chunk, vector in made
        ]

    async def _present(self, chunks: Sequence[PendingChunk]) -> dict[str, PendingChunk]:
        """Those of the chunks whose text is still what it was, as they are now."""
        hashes = {chunk.chunk_id: chunk for chunk in chunks}
        references = [self._database.document(COLLECTION, name) for name in hashes]
        found = await self._database.get_all(references, ["content_hash"])
        return {
            snapshot.id: replace(hashes[snapshot.id], update_time=snapshot.update_time)
            for snapshot in found
            if (snapshot.to_dict() or {}).get("content_hash") == hashes[snapshot.id].content_hash
        }

    async def failed(self, step: str, chunk: Tried, reason: str, now: datetime) -> None:
        """Try the step again later, each time after a longer wait; after five tries park it."""
        tries = chunk.tries + 1
        change: dict[str, Any] = {
            f"tries.{step}": tries,
            f"pending.{step}": now + timedelta(minutes=2**tries),
        }
        if tries >= MAX_TRIES:
            change |= {f"pending.{step}": DELETE_FIELD, f"parked.{step}": reason}
        await self._database.commit_what_holds([self._update(chunk, change)])

    def _update(self, chunk: Tried, change: dict[str, Any]) -> Write:
        reference = self._database.document(COLLECTION, chunk.chunk_id)
        option = LastUpdateOption(chunk.update_time)
        return lambda batch: batch.update(reference, change, option)


def waiting_query(client: AsyncClient, step: str) -> AsyncQuery:
    """Chunks that wait for a step, due or not, those that waited longest first."""
    return client.collection(COLLECTION).order_by(f"pending.{step}")


def pending_query(client: AsyncClient, step: str, now: datetime, limit: int) -> AsyncQuery:
    """Chunks that wait for a step and are due, those that waited longest first."""
    due = FieldFilter(f"pending.{step}", "<=", now)
    return waiting_query(client, step).where(filter=due).limit(limit)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for step in STEPS:
        yield pending_query(client, step, utc_now(), 1)
        yield waiting_query(client, step)


def _pending(step: str, snapshot: DocumentSnapshot[Any]) -> PendingChunk:
    data = snapshot.to_dict() or {}
    return PendingChunk(
        chunk_id=snapshot.id,
        text=embedding_text(data["title"], data["content"]),
        content_hash=data["content_hash"],
        tries=data.get("tries", {}).get(step, 0),
        update_time=snapshot.update_time,
    )
