"""Stores chunks in `chunks/{chunk_id}`, and reads them by id, by vector, by date and by source.

The document of a deleted chunk stays until the index job has removed the chunk from the postings.
Until then it has no date, no source and no facets, so it is neither listed nor counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from shared.ai.vector_halves import MULTILINGUAL, weigh
from shared.core.blocks import split
from shared.core.dates import ALL_DATES, from_microseconds
from shared.firestore.codec import Codec
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.index.stored_vector import COMPACT, from_compact
from shared.index.vector_index import Documents, dated_query
from shared.knowledge.chunk import Chunk, Kept
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import DateMeaning

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
    """A stored chunk."""

    chunk: Chunk
    vector: WeightedVector | None


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
            return EmbeddedChunk(chunk, None)
        vector = weigh(from_compact(data[COMPACT]), data["embedding_model"], MULTILINGUAL)
        return EmbeddedChunk(chunk, vector)

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
