"""Chunks in Firestore: by id, by vector, by date, by source.

`chunks/{chunk_id}`: passages listed by their place in a source, and counted.

A deleted chunk that waits for the index to forget it has no date, no source and no facets: it is
neither listed nor counted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.dates import ALL_DATES
from shared.firestore.codec import Codec
from shared.index.facets import HAS_CARD, Facet
from shared.index.vector_index import Documents, date_shapes, dated_query, vector_shapes
from shared.knowledge.chunk import Chunk, KnowledgeCard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.core.dates import DateSpan
    from shared.firestore.database import Database

COLLECTION: Final = "chunks"
STEPS: Final = ("embed", "index", "card", "cluster", "extract")
"""What jobs do to a chunk. Each step waits in `pending`, under its name, with the time when it may
be tried."""
AT_FIRST: Final = ("embed", "index", "card", "extract")
"""What waits on a new chunk: it is put among topics once it has a vector."""
LAYOUT: Final = 1
"""Raise it when what is stored of a chunk changes shape: the next ingest writes all of them again,
and they are indexed again."""

_BY_JOBS: Final = frozenset({"dated_at", "knowledge_card", "cluster_id"})
"""Fields that ingest does not own. Every other field of a chunk is compared, and written, by it."""


def _card(data: dict[str, Any]) -> KnowledgeCard:
    return KnowledgeCard(data["summary"], tuple(data.get("takeaways") or ()))


_CODEC: Final = Codec(
    Chunk, "chunk_id", stored_as={"origin": "source"}, readers={"knowledge_card": _card}
)
READ_FIELDS: Final = _CODEC.stored_names
"""What a reader sees of a chunk: everything but its vector and the jobs' bookkeeping."""
to_chunk: Final = _CODEC.read
"""Reads a chunk from its document; what jobs have not made yet is empty."""


def ingest_fields(chunk: Chunk) -> dict[str, Any]:
    """The fields that ingest owns; cards, clusters and vectors belong to other jobs."""
    owned = _CODEC.write(chunk, _CODEC.names.keys() - _BY_JOBS)
    return owned | {"content_hash": chunk.content_hash}


def fingerprint(chunk: Chunk) -> str:
    """Changes exactly when a field that ingest owns changes, or the layout."""
    return hashlib.sha256(_canonical(chunk)).hexdigest()


def write_size(chunk: Chunk) -> int:
    """About how many bytes a write of this chunk takes: what it says, and a kilobyte of names."""
    return 1_000 + len(_canonical(chunk))


def new_document(chunk: Chunk, now: datetime) -> dict[str, Any]:
    """A new chunk, to be merged into what a deleted one of its id may have left."""
    return _written(chunk, now) | {
        "created_at": now,
        "dated_at": chunk.highlighted_at or chunk.dated_at or now,
        "pending": dict.fromkeys(AT_FIRST, now),
        "tries": {},
        "parked": {},
        "deleted_at": DELETE_FIELD,
    }


def edit_update(chunk: Chunk, known: dict[str, Any], now: datetime) -> dict[str, Any]:
    """An update for a chunk whose surroundings changed: its place, its tags, its date."""
    dated_at = chunk.highlighted_at or known.get("dated_at") or known["created_at"]
    removed = dict.fromkeys(_CODEC.absent_names(chunk), DELETE_FIELD)
    return _written(chunk, now) | removed | {"dated_at": dated_at} | step_pending("index", now)


def rewrite_update(chunk: Chunk, known: dict[str, Any], now: datetime) -> dict[str, Any]:
    """An update for a chunk whose title changed, which is embedded with it.

    Its text did not, or it would be another chunk: cards and extractions stay.
    """
    return edit_update(chunk, known, now) | step_pending("embed", now)


def deletion_update(now: datetime) -> dict[str, Any]:
    """An update that leaves of a chunk only what must be taken back before it goes.

    That is what the index knows of it, and the extractions that hang on it.
    """
    gone = [*READ_FIELDS, "embedding", "embedding_model", "facets"]
    gone += ["content_hash", "fingerprint", "created_at", "updated_at", "dated_at"]
    bookkeeping = {"pending": {"index": now}, "tries": {}, "parked": {}, "deleted_at": now}
    return dict.fromkeys(gone, DELETE_FIELD) | bookkeeping


def _written(chunk: Chunk, now: datetime) -> dict[str, Any]:
    return ingest_fields(chunk) | {"fingerprint": fingerprint(chunk), "updated_at": now}


def step_pending(step: str, now: datetime) -> dict[str, Any]:
    """Part of an update: the step waits again, and what came of it before is forgotten."""
    return step_done(step) | {f"pending.{step}": now}


def step_done(step: str) -> dict[str, Any]:
    """Part of an update: the step waits no more, and what came of it before is forgotten."""
    return {
        f"pending.{step}": DELETE_FIELD,
        f"tries.{step}": DELETE_FIELD,
        f"parked.{step}": DELETE_FIELD,
    }


def _canonical(chunk: Chunk) -> bytes:
    document = ingest_fields(chunk) | {"layout": LAYOUT}
    return json.dumps(document, sort_keys=True, default=str, ensure_ascii=False).encode()


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


def _chunks_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from vector_shapes(client.collection(COLLECTION))
    yield from date_shapes(client.collection(COLLECTION))


def _present(chunk_id: str, data: dict[str, Any]) -> Chunk | None:
    """The chunk, unless it is missing, or deleted and not yet taken out of the index."""
    return to_chunk(chunk_id, data) if "content" in data else None


class ChunkLists:
    """Lists chunks, and counts them."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def of_source(self, source_id: str, limit: int, first: int = 1) -> list[Chunk]:
        """The chunks of a source in their order, from the position `first`. One round trip."""
        query = of_source_query(self._database.client, source_id, limit, first)
        snapshots = await self._database.find(query.select(READ_FIELDS))
        return [to_chunk(snapshot.id, snapshot.to_dict() or {}) for snapshot in snapshots]

    async def positions(self, chunk_ids: Sequence[str]) -> dict[str, int]:
        """Where those chunks that exist stand in their sources. One round trip."""
        references = [self._database.document(COLLECTION, name) for name in chunk_ids]
        snapshots = await self._database.get_all(references, ["position"])
        data = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return {name: fields["position"] for name, fields in data.items() if fields}

    async def count(self, span: DateSpan = ALL_DATES) -> int:
        """How many chunks have their date in these days. One round trip."""
        query = dated_query(self._database.collection(COLLECTION), span)
        return await self._database.count(query)

    async def count_with_facet(self, facet: Facet) -> int:
        """How many chunks bear a facet, as far as they are indexed. One round trip."""
        return await self._database.count(with_facet_query(self._database.client, facet))


def of_source_query(client: AsyncClient, source_id: str, limit: int, first: int) -> AsyncQuery:
    """The chunks of a source from a position on."""
    return (
        client.collection(COLLECTION)
        .where(filter=FieldFilter("source_id", "==", source_id))
        .where(filter=FieldFilter("position", ">=", first))
        .order_by("position")
        .limit(limit)
    )


def with_facet_query(client: AsyncClient, facet: Facet) -> AsyncQuery:
    """The chunks that bear a facet."""
    return client.collection(COLLECTION).where(
        filter=FieldFilter("facets", "array_contains", facet.id)
    )


def _chunk_lists_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield of_source_query(client, "a", 1, 1)
    yield dated_query(client.collection(COLLECTION), ALL_DATES)
    yield with_facet_query(client, HAS_CARD)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from _chunks_shapes(client)
    yield from _chunk_lists_shapes(client)
