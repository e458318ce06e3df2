"""`chunks/{chunk_id}`: passages, their vectors, and the work that still waits on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD, ArrayRemove, LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.clock import utc_now
from shared.domain.chunk import embedding_text
from shared.store import chunk_documents as documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.domain.chunk import Chunk
    from shared.store.database import Database, Write

COLLECTION: Final = "chunks"
MAX_TRIES: Final = 5
"""How often a step is tried on a chunk before it is parked."""
_DISTANCE: Final = "distance"


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it stands in the database, with its vector if it has been embedded."""

    chunk: Chunk
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A chunk found by its vector; similarity is the cosine, from 0 to 1."""

    chunk: Chunk
    similarity: float


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that waits for a step, as it was read."""

    chunk_id: str
    text: str
    tries: int
    update_time: Any


class Chunks:
    """Reads chunks, finds them by vector, and records what jobs did to them."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def get(self, chunk_id: str) -> StoredChunk | None:
        """The chunk of this id, or None. One round trip."""
        snapshot = await self._database.get(self._database.document(COLLECTION, chunk_id))
        if not snapshot.exists:
            return None
        data = snapshot.to_dict() or {}
        vector = data.get("embedding")
        return StoredChunk(
            documents.to_chunk(snapshot.id, data), tuple(vector) if vector is not None else None
        )

    async def nearest(self, vector: Vector, limit: int) -> list[Neighbour]:
        """The chunks whose vectors are closest to `vector`, best first. One round trip.

        Similarity is max(0, 1 - cosine distance): opposite directions count as unrelated.
        """
        query = nearest_query(self._database.client, vector, limit)
        return [_neighbour(snapshot) for snapshot in await self._database.find(query)]

    async def pending(self, step: str, now: datetime, limit: int) -> list[PendingChunk]:
        """Chunks that wait for `step` and whose time to try (again) has come."""
        query = pending_query(self._database.client, step, now, limit)
        return [_pending(step, snapshot) for snapshot in await self._database.find(query)]

    async def count_pending(self, step: str) -> int:
        """How many chunks wait for `step`, including those whose time has not come."""
        query = waiting_query(self._database.client, step)
        return await self._database.count(query)

    async def embedded(
        self, chunks: Sequence[PendingChunk], vectors: Sequence[Vector], model: str
    ) -> int:
        """Store vectors; a chunk that was edited since it was read stays pending.

        Returns:
            How many were stored.
        """
        writes = [
            self._update(
                chunk,
                {
                    "embedding": FirestoreVector(list(vector)),
                    "embedding_model": model,
                    "tries.embed": DELETE_FIELD,
                    "pending": ArrayRemove(["embed"]),
                },
            )
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        return await self._database.commit_what_holds(writes)

    async def failed(self, step: str, chunk: PendingChunk, reason: str, now: datetime) -> None:
        """Try the step again later, each time after a longer wait; after five tries park it."""
        tries = chunk.tries + 1
        change: dict[str, Any] = {
            f"tries.{step}": tries,
            "retry_at": now + timedelta(minutes=2**tries),
        }
        if tries >= MAX_TRIES:
            change |= {"pending": ArrayRemove([step]), f"parked.{step}": reason}
        await self._database.commit_what_holds([self._update(chunk, change)])

    def _update(self, chunk: PendingChunk, change: dict[str, Any]) -> Write:
        reference = self._database.document(COLLECTION, chunk.chunk_id)
        option = LastUpdateOption(chunk.update_time)
        return lambda batch: batch.update(reference, change, option)


def nearest_query(client: AsyncClient, vector: Vector, limit: int) -> AsyncVectorQuery:
    """Neighbours of a vector, without their vectors."""
    return (
        client.collection(COLLECTION)
        .select([*documents.READ_FIELDS, _DISTANCE])
        .find_nearest(
            "embedding",
            FirestoreVector(list(vector)),
            limit=limit,
            distance_measure=DistanceMeasure.COSINE,
            distance_result_field=_DISTANCE,
        )
    )


def waiting_query(client: AsyncClient, step: str) -> AsyncQuery:
    """Chunks that wait for a step, due or not."""
    return client.collection(COLLECTION).where(
        filter=FieldFilter("pending", "array_contains", step)
    )


def pending_query(client: AsyncClient, step: str, now: datetime, limit: int) -> AsyncQuery:
    """Chunks that wait for a step, those that waited longest first."""
    return (
        waiting_query(client, step)
        .where(filter=FieldFilter("retry_at", "<=", now))
        .order_by("retry_at")
        .select(["title", "content", "tries"])
        .limit(limit)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield nearest_query(client, (1.0,), 1)
    yield pending_query(client, "embed", utc_now(), 1)
    yield waiting_query(client, "embed")


def _neighbour(snapshot: DocumentSnapshot[Any]) -> Neighbour:
    data = snapshot.to_dict() or {}
    similarity = min(1.0, max(0.0, 1.0 - data[_DISTANCE]))
    return Neighbour(documents.to_chunk(snapshot.id, data), similarity)


def _pending(step: str, snapshot: DocumentSnapshot[Any]) -> PendingChunk:
    data = snapshot.to_dict() or {}
    text = embedding_text(data["title"], data["content"])
    return PendingChunk(snapshot.id, text, data.get("tries", {}).get(step, 0), snapshot.update_time)
