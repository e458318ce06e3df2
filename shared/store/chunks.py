"""`chunks/{chunk_id}`: passages, read by id, found by their vectors and listed by date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.domain.chunk import Chunk
from shared.index.vector_index import Documents, date_shapes, vector_shapes
from shared.store.chunk_documents import COLLECTION, READ_FIELDS, to_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud.firestore import AsyncClient, AsyncQuery
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it stands in the database, with its vector if it has been embedded."""

    chunk: Chunk
    vector: Vector | None


class Chunks(Documents[Chunk]):
    """The documents of the knowledge base."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        super().__init__(database, COLLECTION, READ_FIELDS, _present)

    async def get(self, chunk_id: str) -> StoredChunk | None:
        """The chunk of this id, or None. One round trip."""
        snapshot = await self._database.get(self._database.document(COLLECTION, chunk_id))
        data = snapshot.to_dict() or {}
        chunk, vector = _present(snapshot.id, data), data.get("embedding")
        return StoredChunk(chunk, tuple(vector) if vector is not None else None) if chunk else None


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from vector_shapes(client.collection(COLLECTION))
    yield from date_shapes(client.collection(COLLECTION))


def _present(chunk_id: str, data: dict[str, Any]) -> Chunk | None:
    """The chunk, unless it is missing, or deleted and not yet taken out of the index."""
    return to_chunk(chunk_id, data) if "content" in data else None
