"""Stores chunks in `chunks/{chunk_id}`, and reads them by id, by vector, by date and by source.

The document of a deleted chunk stays until the index job has removed the chunk from the postings.
Until then it has no date, no source and no facets, so it is neither listed nor counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from shared.ai.vector_halves import MULTILINGUAL, TWO_HALVES, Weights, weigh
from shared.core.blocks import split
from shared.core.dates import ALL_DATES, from_microseconds
from shared.firestore.codec import Codec
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.index.stored_vector import COMPACT, from_compact
from shared.index.vector_index import Documents, Neighbour, compare, dated_query
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
MIN_SIMILARITY: Final = 0.5
"""The minimum similarity of related chunks, by the multilingual half of the local model.

This and MIN_ENGLISH_SIMILARITY were fitted to 39 chunks of the sample, of notes in seven languages
and of abstracts. Of 39 others, 75 per cent of the related chunks are useful, 2.8 for each chunk.
No other model was measured."""
MIN_ENGLISH_SIMILARITY: Final = 0.45
"""The minimum similarity of related chunks that are both in English, by RELATED_ENGLISH."""
RELATED_ENGLISH: Final = Weights(2, 1)
"""The weights of the halves for that. In English, the multilingual half says little about what is
useful: its correlation with it is 0.24, and that of the English half 0.67."""
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
        english: What chunks in English are compared with, if it is in English too.
        has_floor: Whether the minimum similarities are known for its model.
    """

    chunk: Chunk
    vector: WeightedVector | None = None
    english: WeightedVector | None = None
    has_floor: bool = False


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
        has_english = model == TWO_HALVES and not is_foreign(chunk.content)
        english = weigh(numbers, model, RELATED_ENGLISH) if has_english else None
        return EmbeddedChunk(chunk, vector, english, has_floor=model == TWO_HALVES)

    async def find_related(self, stored: EmbeddedChunk, limit: int) -> list[Neighbour[Chunk]]:
        """Find chunks close in meaning, nearest first, with at most one of the same source.

        Costs one round trip, and `2 * limit + 1` reads: others of the same source are left out.
        """
        if stored.vector is None:
            return []
        query = (
            Query(COLLECTION)
            .select([*READ_FIELDS, COMPACT])
            .find_nearest("embedding", (stored.english or stored.vector).values, 2 * limit + 1)
        )
        neighbours = [
            _compare(stored, stored.vector, chunk, snapshot.fields[COMPACT])
            for snapshot in await self._database.find(query)
            if (chunk := _to_present_chunk(snapshot.id, snapshot.fields))
            and chunk.id != stored.chunk.id
        ]
        related: list[Neighbour[Chunk]] = []
        has_own_source = False
        for neighbour in sorted(filter(None, neighbours), key=_make_similarity_key):
            is_own_source = neighbour.document.source_id == stored.chunk.source_id
            if not (is_own_source and has_own_source):
                related.append(neighbour)
            has_own_source |= is_own_source
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


def _compare(
    stored: EmbeddedChunk, vector: WeightedVector, chunk: Chunk, compact: bytes
) -> Neighbour[Chunk] | None:
    """Compare two chunks by this vector, or as English ones. Return None below the floor."""
    floor = MIN_SIMILARITY
    if stored.english and not is_foreign(chunk.content):
        vector, floor = stored.english, MIN_ENGLISH_SIMILARITY
    neighbour = compare(chunk, vector, from_compact(compact))
    return neighbour if neighbour.similarity >= floor or not stored.has_floor else None


def _make_similarity_key(neighbour: Neighbour[Chunk]) -> tuple[float, str]:
    return -neighbour.similarity, neighbour.document.id


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
