"""Extractions in Firestore.

`extractions/{extraction_id}`: what passages decide, show, warn of and teach.

An extraction lists each combination of filters that it passes in `facets`: one index orders every
list, and one compares vectors, whatever the filters. One that says what another one says has no
facets, and so is not shown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.extractions.extracted_chunks import COLLECTION, deletions, extracted, topic_writes
from shared.extractions.model import (
    CONTENTS,
    LONGEST_QUOTE,
    SCHEMA_VERSION,
    Content,
    Extraction,
    ExtractionType,
    facet,
)
from shared.knowledge.queue import StepResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database, Write
    from shared.knowledge.queue import PendingChunk

    Place = tuple[int, str]
    """Where an extraction stands in a list: its confidence in thousandths, and its id."""


async def count_extractions(database: Database) -> dict[ExtractionType, int]:
    """How many there are of each type. One round trip."""
    queries = [shown_query(database.client, kind) for kind in ExtractionType]
    counts = await asyncio.gather(*map(database.count, queries))
    return dict(zip(ExtractionType, counts, strict=True))


def shown_query(client: AsyncClient, kind: ExtractionType) -> AsyncQuery:
    """The extractions of a type, but for those that repeat another."""
    return client.collection(COLLECTION).where(
        filter=FieldFilter("facets", "array_contains", facet(kind))
    )


def _extraction_counts_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield shown_query(client, ExtractionType.DECISION)


READ_FIELDS: Final = (
    "type",
    "content",
    "topics",
    "quote",
    "source_id",
    "chunk_id",
    "confidence",
    "model",
    "extracted_at",
    "duplicate_of",
)
"""All of an extraction but its vector and its facets."""


def to_extraction(extraction_id: str, data: dict[str, Any]) -> Extraction:
    """Read an extraction from its document."""
    return Extraction(
        extraction_id=extraction_id,
        content=to_content(data),
        topics=tuple(data["topics"]),
        quote=data["quote"],
        source_id=data["source_id"],
        chunk_id=data["chunk_id"],
        confidence=data["confidence"],
        model=data["model"],
        extracted_at=data["extracted_at"],
        duplicate_of=data.get("duplicate_of"),
    )


def to_content(data: dict[str, Any]) -> Content:
    """Read what an extraction says from its `type` and its `content`."""
    return CONTENTS[ExtractionType(data["type"])].model_validate(data["content"])


def document(extraction: Extraction, vector: Vector, embedding_model: str) -> dict[str, Any]:
    """An extraction with its vector. A confidence is told in thousandths: lists go by it."""
    return {
        "type": extraction.type.value,
        "content": extraction.content.model_dump(mode="json", exclude_none=True),
        "topics": list(extraction.topics),
        "facets": extraction.facets,
        "quote": extraction.quote[:LONGEST_QUOTE],
        "embedding": FirestoreVector(list(vector)),
        "embedding_model": embedding_model,
        "source_id": extraction.source_id,
        "chunk_id": extraction.chunk_id,
        "confidence": round(float(extraction.confidence), 3),
        "model": extraction.model,
        "schema_version": SCHEMA_VERSION,
        "extracted_at": extraction.extracted_at,
        "duplicate_of": extraction.duplicate_of,
    }


MOST_NEAR: Final = 1_000
"""How many neighbours Firestore gives at most."""
_DISTANCE: Final = "distance"
_DOWN: Final = BaseQuery.DESCENDING
_THOUSAND: Final = 1_000


@dataclass(frozen=True, slots=True)
class Near:
    """An extraction found by its vector.

    Attributes:
        extraction: The extraction.
        distance: 1 - cosine, from 0 to 2, by which neighbours are ordered.
    """

    extraction: Extraction
    distance: float

    @property
    def similarity(self) -> float:
        """The cosine, from 0 to 1: opposite directions count as unrelated."""
        return min(1.0, max(0.0, 1.0 - self.distance))


class Extractions:
    """Reads extractions, and replaces those of a chunk."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def page(
        self,
        kind: ExtractionType,
        topic: str | None,
        source_id: str | None,
        limit: int,
        after: Place | None = None,
    ) -> list[Extraction]:
        """Extractions of a type, the surest first. One round trip.

        Args:
            kind: Which type.
            topic: What they are about, as `normal_topic` writes it; None: anything.
            source_id: The source they come from; None: any.
            limit: How many.
            after: Where the last one that was seen stands.
        """
        query = page_query(self._database.client, facet(kind, topic, source_id), limit, after)
        return [_extraction(snapshot) for snapshot in await self._database.find(query)]

    async def nearest(
        self,
        vector: Vector,
        kind: ExtractionType,
        topic: str | None,
        source_id: str | None,
        limit: int,
    ) -> list[Near]:
        """Extractions of a type whose vectors are closest, best first. One round trip.

        Args:
            vector: A unit vector.
            kind: Which type.
            topic: What they are about; None: anything.
            source_id: The source they come from; None: any.
            limit: How many, up to `MOST_NEAR`.
        """
        query = near_query(self._database.client, facet(kind, topic, source_id), vector, limit)
        return [_near(snapshot) for snapshot in await self._database.find(query)]

    async def nearest_alike(
        self, vector: Vector, kind: ExtractionType, limit: int, least: float
    ) -> list[Near]:
        """The extractions of a type that are shown and at least so close, best first.

        Those of the chunk that is being read are among them. One round trip, and one read for each.

        Args:
            vector: A unit vector.
            kind: Which type.
            limit: How many, up to `MOST_NEAR`.
            least: The least cosine.
        """
        query = near_query(self._database.client, facet(kind), vector, limit, 1.0 - least)
        return [_near(snapshot) for snapshot in await self._database.find(query)]

    async def known(self, chunk: PendingChunk) -> list[Extraction]:
        """The extractions that hang on a chunk. One round trip, or none."""
        references = [self._database.document(COLLECTION, name) for name in chunk.extracted]
        snapshots = await self._database.get_all(references, READ_FIELDS)
        return [_extraction(snapshot) for snapshot in snapshots]

    def replacing(
        self,
        chunk: PendingChunk,
        new: Sequence[tuple[Extraction, Vector]],
        embedding_model: str,
    ) -> StepResult:
        """What makes these the chunk's only extractions, in one commit with the counts of topics.

        Those that it has already, with the same topics, are not written again. A duplicate is only
        stored while what it repeats is there.

        Args:
            chunk: The chunk as it was read.
            new: Its extractions, no two with the same id, with their vectors.
            embedding_model: Whose vectors these are.
        """
        after = extracted([each for each, _ in new])
        gone = {name: known for name, known in chunk.extracted.items() if name not in after}
        writes = [
            write
            for each, vector in new
            if chunk.extracted.get(each.extraction_id) != after[each.extraction_id]
            for write in self._writes(each, vector, embedding_model)
        ]
        writes += deletions(self._database, gone)
        writes += topic_writes(self._database, chunk.extracted, after)
        change = {"extracted": after, "extraction_schema": SCHEMA_VERSION}
        return StepResult(chunk, change, tuple(writes))

    def _writes(self, each: Extraction, vector: Vector, embedding_model: str) -> Iterator[Write]:
        reference = self._database.document(COLLECTION, each.extraction_id)
        data = document(each, vector, embedding_model)
        yield lambda batch: batch.set(reference, data)
        if each.duplicate_of:
            # An update is refused where there is nothing: no duplicate outlives what it repeats.
            original = self._database.document(COLLECTION, each.duplicate_of)
            yield lambda batch: batch.update(original, {"repeated": True})


def place(extraction: Extraction) -> Place:
    """Where an extraction that was listed stands."""
    return round(extraction.confidence * _THOUSAND), extraction.extraction_id


def page_query(client: AsyncClient, wanted: str, limit: int, after: Place | None) -> AsyncQuery:
    """Extractions that bear a facet, the surest first."""
    collection = client.collection(COLLECTION)
    query = (
        collection.where(filter=FieldFilter("facets", "array_contains", wanted))
        .order_by("confidence", direction=_DOWN)
        .order_by("__name__", direction=_DOWN)
    )
    if after:
        confidence, name = after[0] / _THOUSAND, collection.document(after[1])
        query = query.start_after({"confidence": confidence, "__name__": name})
    return query.select(READ_FIELDS).limit(limit)


def near_query(
    client: AsyncClient, wanted: str, vector: Vector, limit: int, furthest: float | None = None
) -> AsyncVectorQuery:
    """Neighbours of a vector that bear a facet, without their vectors."""
    return (
        client.collection(COLLECTION)
        .select([*READ_FIELDS, _DISTANCE])
        .where(filter=FieldFilter("facets", "array_contains", wanted))
        .find_nearest(
            "embedding",
            FirestoreVector(list(vector)),
            limit=limit,
            distance_measure=DistanceMeasure.COSINE,
            distance_result_field=_DISTANCE,
            distance_threshold=furthest,
        )
    )


def _extractions_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield page_query(client, "decision", 1, None)
    yield page_query(client, "decision", 1, (1, "a"))
    yield near_query(client, "decision", (1.0,), 1)
    yield near_query(client, "decision", (1.0,), 1, 0.1)


def _extraction(snapshot: DocumentSnapshot[Any]) -> Extraction:
    return to_extraction(snapshot.id, snapshot.to_dict() or {})


def _near(snapshot: DocumentSnapshot[Any]) -> Near:
    return Near(_extraction(snapshot), float(snapshot.get(_DISTANCE)))


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery | AsyncVectorQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield from _extraction_counts_shapes(client)
    yield from _extractions_shapes(client)
