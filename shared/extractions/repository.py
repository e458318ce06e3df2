"""Extractions in Firestore: `extractions/{extraction_id}`.

The field `facets` of an extraction lists all combinations of filters (type, topic, source) that
match it. So one index serves all lists, and one vector index serves all searches, whatever the
filters. Of several extractions that make the same statement, only one has facets, see
`shared.extractions.groups`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.extractions.groups import COLLECTION as EXTRACTIONS
from shared.extractions.groups import ExtractionGroups
from shared.extractions.model import (
    CONTENTS,
    MAX_QUOTE,
    SCHEMA_VERSION,
    Content,
    Extraction,
    ExtractionType,
    build_facet,
)
from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.index.stored_vector import build_vector_fields
from shared.knowledge.queue import StepResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.ai.vector_halves import WeightedVector
    from shared.firestore.database import Database
    from shared.firestore.writes import Write
    from shared.knowledge.queue import PendingChunk

    PageKey = tuple[int, str]
    """A position in the order of confidence: an extraction's confidence, in thousandths, and id."""

MAX_NEAREST: Final = 1_000
"""Firestore returns at most this many neighbours."""
_CODEC: Final = Codec(Extraction, "extraction_id")
READ_FIELDS: Final = ("type", *_CODEC.stored_names)
"""Queries read these fields: all fields of an extraction except its vector and its facets."""
_DISTANCE: Final = "distance"
"""The database adds the distance from the query vector to a result, under this name."""
_CONFIDENCE_SCALE: Final = 1_000
"""A `PageKey` contains a confidence multiplied by this, in thousandths. Confidences are rounded to
thousandths when they are stored."""


@dataclass(frozen=True, slots=True)
class ExtractionNeighbour:
    """An extraction with its distance from a query vector.

    Attributes:
        distance: The cosine distance, from 0 to 2.
        similarity: From 0 to 1.
    """

    extraction: Extraction
    distance: float
    similarity: float


class Extractions:
    """Reads extractions, and replaces those of chunks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_by_confidence(
        self,
        extraction_type: ExtractionType,
        topic: str | None,
        source_id: str | None,
        limit: int,
        after: PageKey | None = None,
    ) -> list[Extraction]:
        """Load extractions of a type, in descending order of confidence.

        Costs one Firestore round trip.
        """
        query = page_query(build_facet(extraction_type, topic, source_id), limit, after)
        return [_to_extraction(snapshot) for snapshot in await self._database.find(query)]

    async def count(
        self,
        extraction_type: ExtractionType,
        topic: str | None = None,
        source_id: str | None = None,
    ) -> int:
        """Count the visible extractions of a type. Costs one Firestore round trip."""
        facet = build_facet(extraction_type, topic, source_id)
        query = Query(EXTRACTIONS).where("facets", "array_contains", facet)
        return await self._database.count(query)

    async def find_nearest(
        self,
        vector: WeightedVector,
        extraction_type: ExtractionType,
        topic: str | None,
        source_id: str | None,
        limit: int,
    ) -> list[ExtractionNeighbour]:
        """Load the extractions of a type with the nearest vectors, nearest first.

        Costs one Firestore round trip.

        Args:
            limit: The maximum number of extractions, up to `MAX_NEAREST`.
        """
        query = nearest_query(build_facet(extraction_type, topic, source_id), vector, limit)
        return [_to_neighbour(snapshot, vector) for snapshot in await self._database.find(query)]

    async def find_similar(
        self,
        vector: WeightedVector,
        extraction_type: ExtractionType,
        limit: int,
        min_similarity: float,
    ) -> list[ExtractionNeighbour]:
        """Load extractions of a type with at least a minimum similarity, nearest first.

        Costs one Firestore round trip, and one read for each extraction. The result may contain
        extractions of the chunk that is being processed.

        Args:
            limit: The maximum number of extractions, up to `MAX_NEAREST`.
            min_similarity: The minimum similarity.
        """
        max_distance = vector.to_distance(min_similarity)
        query = nearest_query(build_facet(extraction_type), vector, limit, max_distance)
        return [_to_neighbour(snapshot, vector) for snapshot in await self._database.find(query)]

    async def load_by_chunk(self, chunk: PendingChunk) -> list[Extraction]:
        """Load the extractions of a chunk, including hidden ones.

        Costs one Firestore round trip, or none if the chunk has no extractions.
        """
        references = [Reference(EXTRACTIONS, name) for name in chunk.extracted]
        snapshots = await self._database.get_all(references, READ_FIELDS)
        return [_to_extraction(snapshot) for snapshot in snapshots]

    async def build_replacement_writes(self, results: Sequence[StepResult]) -> list[Write]:
        """Build the writes that replace the extractions of chunks. Costs at most three round trips.

        Unchanged extractions are not written again.
        """
        groups = ExtractionGroups(self._database)
        stored = await groups.load(name for result in results for name in result.chunk.extracted)
        new = [fields for result in results for fields in result.extractions.items()]
        return await groups.build_writes(stored, dict(new))


def build_replacement(
    chunk: PendingChunk, new: Sequence[tuple[Extraction, Vector]], embedding_model: str
) -> StepResult:
    """Build the step result that replaces a chunk's extractions."""
    extracted = {extraction.extraction_id: extraction.group for extraction, _ in new}
    return StepResult(
        chunk,
        {"extracted": extracted, "extraction_schema": SCHEMA_VERSION},
        {
            extraction.extraction_id: to_fields(extraction, vector, embedding_model)
            for extraction, vector in new
        },
    )


async def count_extractions(database: Database) -> dict[ExtractionType, int]:
    """Count the visible extractions of each type. Costs one Firestore round trip."""
    counts = await asyncio.gather(*map(Extractions(database).count, ExtractionType))
    return dict(zip(ExtractionType, counts, strict=True))


def to_content(data: dict[str, Any]) -> Content:
    """Read the content of an extraction from its fields `type` and `content`."""
    return CONTENTS[ExtractionType(data["type"])].model_validate(data["content"])


def to_fields(extraction: Extraction, vector: Vector, embedding_model: str) -> dict[str, Any]:
    """Return the stored fields of an extraction with its vector, except its facets.

    The confidence is rounded to thousandths, the unit in which cursors contain it.
    """
    return (
        _CODEC.write(extraction)
        | build_vector_fields(vector, embedding_model)
        | {
            "type": extraction.type.value,
            "content": extraction.content.model_dump(mode="json", exclude_none=True),
            "quote": extraction.quote[:MAX_QUOTE],
            "confidence": round(float(extraction.confidence), 3),
            "schema_version": SCHEMA_VERSION,
        }
    )


def make_page_key(extraction: Extraction) -> PageKey:
    """Return an extraction's position in the order of confidence."""
    return round(extraction.confidence * _CONFIDENCE_SCALE), extraction.extraction_id


def page_query(facet_value: str, limit: int, after: PageKey | None) -> Query:
    """Build the query for extractions that have a facet, in descending order of confidence."""
    query = (
        Query(EXTRACTIONS)
        .where("facets", "array_contains", facet_value)
        .order_by("confidence", descending=True)
        .order_by("__name__", descending=True)
    )
    if after:
        thousandths, extraction_id = after
        query = query.start_after(
            {
                "confidence": thousandths / _CONFIDENCE_SCALE,
                "__name__": Reference(EXTRACTIONS, extraction_id),
            }
        )
    return query.select(READ_FIELDS).limit(limit)


def nearest_query(
    facet_value: str,
    vector: WeightedVector,
    limit: int,
    max_distance: float | None = None,
) -> Query:
    """Build the query for the extractions with a facet nearest to a vector, without vectors."""
    return (
        Query(EXTRACTIONS)
        .select([*READ_FIELDS, _DISTANCE])
        .where("facets", "array_contains", facet_value)
        .find_nearest(
            "embedding",
            vector.values,
            limit,
            distance_field=_DISTANCE,
            max_distance=max_distance,
        )
    )


def _to_extraction(snapshot: Document) -> Extraction:
    data = snapshot.fields
    return _CODEC.read(snapshot.id, data | {"content": to_content(data)})


def _to_neighbour(snapshot: Document, vector: WeightedVector) -> ExtractionNeighbour:
    distance = float(snapshot.get(_DISTANCE))
    return ExtractionNeighbour(_to_extraction(snapshot), distance, vector.to_similarity(distance))
