"""Stores chunks in `chunks/{chunk_id}`, and reads them by id, by vector, by date and by source.

The document of a deleted chunk stays until the index job has removed the chunk from the postings.
Until then it has no date, no source and no facets, so it is neither listed nor counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from shared.ai.vector_halves import ENGLISH, MULTILINGUAL, TWO_HALVES, weigh
from shared.core.blocks import split
from shared.core.dates import ALL_DATES, from_microseconds
from shared.firestore.codec import Codec
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.index.stored_vector import COMPACT, from_compact
from shared.index.vector_index import DISTANCE, Documents, Neighbour, dated_query
from shared.knowledge.chunk import Chunk, Kept
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import DateMeaning
from shared.text.language import is_foreign

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.ai.vector_halves import WeightedVector
    from shared.core.dates import DateSpan
    from shared.firestore.database import Database

COLLECTION: Final = "chunks"
STEPS: Final = ("embed", "index", "card", "cluster", "extract")
"""The steps by which jobs process a chunk. The field `pending` maps each pending step to the time
from which it may be tried."""
LAYOUT: Final = 1
"""The version of a chunk's stored layout. Raise it when the layout changes, so that the next ingest
writes and indexes all chunks again. An `added_field` is not such a change."""

UNDATED: Final = from_microseconds(0)
"""The stored date of a chunk that has none. It is the last in lists by date."""
MIN_SIMILARITY: Final = 0.43
"""The minimum similarity of related chunks, by the multilingual half of the local model.

Of 40 chunks in seven languages, 40 per cent of the five nearest of other sources were found useful,
and 61 per cent of those that this and MIN_ENGLISH_SIMILARITY leave. No other model was measured."""
MIN_ENGLISH_SIMILARITY: Final = 0.45
"""The minimum mean similarity by both halves, if both chunks are in English."""
MAX_IN: Final = 30
"""The maximum number of values that Firestore accepts in one `in`."""
AboutField = Literal["about_id", "about_source_id"]
"""A field of a note's chunks: the id of the chunk or source that the note is about, or in any case
that of the source."""


def _to_card(data: dict[str, Any]) -> KnowledgeCard:
    summary = data["summary"]
    takeaways = tuple(data.get("takeaways") or ())
    return KnowledgeCard(summary, takeaways, data.get("model"), data.get("generated_at"))


CODEC: Final = Codec(
    Chunk,
    "chunk_id",
    stored_as={"origin": "source"},
    readers={
        "knowledge_card": _to_card,
        "kept": Kept,
        "dated_at": lambda date: date if date != UNDATED else None,
        "date_meaning": DateMeaning,
    },
)
READ_FIELDS: Final = CODEC.stored_names
"""The stored fields of a `Chunk`: all except its vector and the jobs' bookkeeping."""
to_chunk: Final = CODEC.read
"""Read a chunk from its id and stored fields. Fields that jobs have not filled yet are empty."""


def build_step_pending(step: str, now: datetime) -> dict[str, Any]:
    """Build the part of an update that makes a step pending and clears its earlier errors."""
    return build_step_done(step) | {f"pending.{step}": now}


def build_step_done(step: str) -> dict[str, Any]:
    """Build the part of an update that ends a pending step and clears its errors."""
    return {
        f"pending.{step}": DELETE_FIELD,
        f"tries.{step}": DELETE_FIELD,
        f"parked.{step}": DELETE_FIELD,
    }


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A stored chunk, and what others are compared with if it has been embedded.

    Attributes:
        english: What other chunks in English are compared with as well, if it is in English.
        max_distance: The maximum distance of related chunks, if it is known for the model.
    """

    chunk: Chunk
    vector: WeightedVector | None = None
    english: WeightedVector | None = None
    max_distance: float | None = None


class Chunks(Documents[Chunk]):
    """The documents of the knowledge base."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, COLLECTION, READ_FIELDS, _to_present_chunk)

    async def get(self, chunk_id: str) -> EmbeddedChunk | None:
        """Load a chunk, or None. Costs one round trip."""
        reference = Reference(COLLECTION, chunk_id)
        snapshot = await self._database.get(reference, [*READ_FIELDS, COMPACT, "embedding_model"])
        data = snapshot.fields
        chunk = _to_present_chunk(chunk_id, data)
        if chunk is None:
            return None
        if COMPACT not in data:
            return EmbeddedChunk(chunk)
        numbers, model = from_compact(data[COMPACT]), data["embedding_model"]
        vector = weigh(numbers, model, MULTILINGUAL)
        if model != TWO_HALVES:
            return EmbeddedChunk(chunk, vector)
        english = None if is_foreign(chunk.content) else weigh(numbers, model, ENGLISH)
        return EmbeddedChunk(chunk, vector, english, vector.to_distance(MIN_SIMILARITY))

    async def find_related(self, stored: EmbeddedChunk, limit: int) -> list[Neighbour[Chunk]]:
        """Find chunks close in meaning, nearest first, with at most one of the same source.

        Costs one round trip, and at most one read more than `limit`, because a chunk finds itself.
        """
        if stored.vector is None:
            return []
        query = (
            Query(COLLECTION)
            .select([*READ_FIELDS, COMPACT, DISTANCE])
            .find_nearest(
                "embedding",
                stored.vector.values,
                limit + 1,
                distance_field=DISTANCE,
                max_distance=stored.max_distance,
            )
        )
        related: list[Neighbour[Chunk]] = []
        has_own_source = False
        for snapshot in await self._database.find(query):
            chunk = _to_present_chunk(snapshot.id, snapshot.fields)
            if chunk is None or chunk.id == stored.chunk.id:
                continue
            distance = float(snapshot.fields[DISTANCE])
            neighbour = Neighbour(chunk, stored.vector.to_similarity(distance), distance)
            is_own_source = chunk.source_id == stored.chunk.source_id
            if (is_own_source and has_own_source) or not _is_related(
                stored, neighbour, snapshot.fields[COMPACT]
            ):
                continue
            has_own_source |= is_own_source
            related.append(neighbour)
        return related[:limit]

    async def load_of_source(self, source_id: str, limit: int, first: int = 1) -> list[Chunk]:
        """Load the chunks of a source, in order, from position `first`. Costs one round trip."""
        query = of_source_query(source_id, limit, first)
        snapshots = await self._database.find(query.select(READ_FIELDS))
        return [to_chunk(snapshot.id, snapshot.fields) for snapshot in snapshots]

    async def load_notes_about(
        self, field: AboutField, ids: Sequence[str], limit: int
    ) -> list[Chunk]:
        """Load the first chunks of notes about chunks or sources: corrections, then the newest.

        Costs one round trip.

        Args:
            limit: The maximum number of notes for each `MAX_IN` ids.
        """
        queries = [notes_about_query(field, block, limit) for block in split(ids, MAX_IN)]
        pages = await asyncio.gather(
            *(self._database.find(query.select(READ_FIELDS)) for query in queries)
        )
        return [chunk for page in pages for chunk in self._read_documents(page)]

    async def load_positions(self, chunk_ids: Sequence[str]) -> dict[str, int]:
        """Load the positions of these chunks in their sources. Costs one round trip."""
        references = [Reference(COLLECTION, chunk_id) for chunk_id in chunk_ids]
        snapshots = await self._database.get_all(references, ["position"])
        documents = {snapshot.id: snapshot.fields for snapshot in snapshots}
        return {chunk_id: data["position"] for chunk_id, data in documents.items() if data}

    async def count(self, span: DateSpan = ALL_DATES) -> int:
        """Count the chunks dated within a span, by default all. Costs up to two round trips."""
        count = await self._database.count(dated_query(Query(COLLECTION), span))
        if span == ALL_DATES or UNDATED not in span:
            return count
        undated = Query(COLLECTION).where("dated_at", "==", UNDATED)
        return count - await self._database.count(undated)

    async def count_with_card(self) -> int:
        """Count the chunks that have a knowledge card. Costs one round trip."""
        return await self._database.count(Query(COLLECTION).order_by("knowledge_card.generated_at"))


def _is_related(stored: EmbeddedChunk, neighbour: Neighbour[Chunk], compact: bytes) -> bool:
    """Return whether two chunks in English are also similar by the English half."""
    if stored.english is None or is_foreign(neighbour.document.content):
        return True
    distance = stored.english.measure_distance(from_compact(compact))
    similarity = (neighbour.similarity + stored.english.to_similarity(distance)) / 2
    return similarity >= MIN_ENGLISH_SIMILARITY


def _to_present_chunk(chunk_id: str, data: dict[str, Any]) -> Chunk | None:
    """Read a chunk. Return None if it is missing or deleted."""
    return to_chunk(chunk_id, data) if "content" in data else None


def of_source_query(source_id: str, limit: int, first: int) -> Query:
    """Build the query for the chunks of a source, from position `first`."""
    return (
        Query(COLLECTION)
        .where("source_id", "==", source_id)
        .where("position", ">=", first)
        .order_by("position")
        .limit(limit)
    )


def notes_about_query(field: AboutField, ids: Sequence[str], limit: int) -> Query:
    """Build the query for the first chunks of notes about chunks or sources, corrections first.

    Args:
        ids: At most `MAX_IN` ids.
    """
    return (
        Query(COLLECTION)
        .where(field, "in", list(ids))
        .where("position", "==", 1)
        .order_by("corrects", descending=True)
        .order_by("dated_at", descending=True)
        .limit(limit)
    )
