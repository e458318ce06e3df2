"""`chunks/{chunk_id}`: passages, read by id and found by their vectors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.domain.facet import own_facet
from shared.store import chunk_documents as documents
from shared.store.chunk_documents import COLLECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient, DocumentSnapshot
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.domain.chunk import Chunk
    from shared.store.database import Database

MAX_ANY: Final = 30
"""Values that Firestore compares with at once."""
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


class Chunks:
    """Reads chunks, and finds them by vector."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def get(self, chunk_id: str) -> StoredChunk | None:
        """The chunk of this id, or None. One round trip."""
        snapshot = await self._database.get(self._database.document(COLLECTION, chunk_id))
        data = snapshot.to_dict() or {}
        if "content" not in data:  # missing, or deleted and not yet taken out of the index
            return None
        vector = data.get("embedding")
        return StoredChunk(
            documents.to_chunk(snapshot.id, data), tuple(vector) if vector is not None else None
        )

    async def get_all(self, chunk_ids: Sequence[str]) -> list[Chunk]:
        """The chunks that exist among those named, in the order named. One round trip."""
        references = [self._database.document(COLLECTION, name) for name in chunk_ids]
        snapshots = await self._database.get_all(references, documents.READ_FIELDS)
        found = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return [
            documents.to_chunk(name, found[name])
            for name in chunk_ids
            if "content" in found.get(name, {})
        ]

    async def nearest(
        self, vector: Vector, limit: int, facets: Sequence[str] = ()
    ) -> list[Neighbour]:
        """The chunks whose vectors are closest to `vector`, best first. One round trip.

        Similarity is max(0, 1 - cosine distance): opposite directions count as unrelated.

        Args:
            vector: A unit vector.
            limit: How many at most; Firestore gives 1,000.
            facets: The ids of at most 30 facets, one of which a chunk must bear; none: any chunk.
        """
        query = nearest_query(self._database.client, vector, limit, facets)
        return [_neighbour(snapshot) for snapshot in await self._database.find(query)]

    async def similarities(self, vector: Vector, chunk_ids: Sequence[str]) -> list[Neighbour]:
        """These chunks, best first, compared by the server; those without a vector are left out.

        One round trip, in requests of 30 that go out together.
        """
        own = [own_facet(name) for name in chunk_ids]
        blocks = [own[start : start + MAX_ANY] for start in range(0, len(own), MAX_ANY)]
        found = await asyncio.gather(*(self.nearest(vector, MAX_ANY, block) for block in blocks))
        neighbours = [neighbour for block in found for neighbour in block]
        return sorted(neighbours, key=lambda each: -each.similarity)


def nearest_query(
    client: AsyncClient, vector: Vector, limit: int, facets: Sequence[str] = ()
) -> AsyncVectorQuery:
    """Neighbours of a vector, without their vectors."""
    query = client.collection(COLLECTION).select([*documents.READ_FIELDS, _DISTANCE])
    if facets:
        query = query.where(filter=FieldFilter("facets", "array_contains_any", list(facets)))
    return query.find_nearest(
        "embedding",
        FirestoreVector(list(vector)),
        limit=limit,
        distance_measure=DistanceMeasure.COSINE,
        distance_result_field=_DISTANCE,
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield nearest_query(client, (1.0,), 1)
    yield nearest_query(client, (1.0,), 1, ["tag:a", "tag:b"])


def _neighbour(snapshot: DocumentSnapshot[Any]) -> Neighbour:
    data = snapshot.to_dict() or {}
    similarity = min(1.0, max(0.0, 1.0 - data[_DISTANCE]))
    return Neighbour(documents.to_chunk(snapshot.id, data), similarity)
