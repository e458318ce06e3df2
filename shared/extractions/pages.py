"""Pages of extractions (the decisions, patterns, warnings and methodologies found in chunks).

Without a query, a page is sorted by confidence; with one, by similarity. A cursor is the position
of a page's last extraction in that order.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, TypeAdapter

from shared.extractions.repository import MAX_NEAREST, Extractions, page_key
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.pagination import decode_cursor
from shared.runtime.schemas import DocumentId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.extractions.model import Extraction, ExtractionType
    from shared.extractions.repository import ExtractionNeighbour
    from shared.extractions.views import ExtractionArguments
    from shared.runtime.context import Context

    Position = tuple[int | str, ...]

_DISTANCE_SCALE: Final = 10**9
"""Positions contain cosine distances multiplied by this factor and rounded to whole numbers."""
_CONFIDENCE_POSITION: Final = TypeAdapter(tuple[Annotated[int, Field(ge=0, le=1_000)], DocumentId])
"""A position in the order of confidence: an extraction's confidence, in thousandths, and its id."""
_SIMILARITY_POSITION: Final = TypeAdapter(
    tuple[
        # A cosine distance is between 0 and 2. The margins allow for rounding.
        Annotated[int, Field(ge=-_DISTANCE_SCALE, le=3 * _DISTANCE_SCALE)],
        DocumentId,
        Annotated[int, Field(ge=1, le=MAX_NEAREST)],
    ]
)
"""A position in the order of similarity: an extraction's distance, its id, and how many extractions
were read up to it."""
_START: Final = (-_DISTANCE_SCALE, "", 0)
"""The position before the nearest extraction, where the first page starts."""


@dataclass(frozen=True, slots=True)
class ExtractionFilter:
    """Which extractions to look up.

    Attributes:
        type: The type of the extractions.
        topic: The canonical name of a topic, or None for all topics.
        source_id: The id of a source, or None for all sources.
    """

    type: ExtractionType
    topic: str | None
    source_id: str | None


@dataclass(frozen=True, slots=True)
class PageItem:
    """An extraction on a page.

    Attributes:
        extraction: The extraction.
        position: The extraction's position, from which the next page can continue.
        similarity: The cosine similarity with the query, or None without a query.
    """

    extraction: Extraction
    position: Position
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class ExtractionPage:
    """A page of extractions.

    Attributes:
        items: The extractions.
        next_position: The position from which the next page continues, or None on the last page.
        is_at_limit: Whether this is the last page only because Firestore returns no more than
            `MAX_NEAREST` neighbours, so that more extractions may match.
    """

    items: Sequence[PageItem]
    next_position: Position | None = None
    is_at_limit: bool = False


async def load_page(
    filters: ExtractionFilter, args: ExtractionArguments, ctx: Context
) -> ExtractionPage:
    """Load a page of extractions. Costs one round trip, or two with a query.

    Raises:
        InvalidInput: The cursor belongs to another call.
        Unavailable: The embedding provider or the database is down.
        Conflict: The stored vectors come from another embedding model.
    """
    if args.query is None:
        return await _load_by_confidence(filters, args, ctx)
    return await _load_by_similarity(args.query, filters, args, ctx)


async def _load_by_confidence(
    filters: ExtractionFilter, args: ExtractionArguments, ctx: Context
) -> ExtractionPage:
    after = decode_cursor(args, args.cursor, _CONFIDENCE_POSITION)
    extractions = await Extractions(ctx.database).list_by_confidence(
        filters.type, filters.topic, filters.source_id, args.limit + 1, after
    )
    items = [PageItem(extraction, page_key(extraction)) for extraction in extractions]
    return _cut_page(items, args.limit)


async def _load_by_similarity(
    query: str, filters: ExtractionFilter, args: ExtractionArguments, ctx: Context
) -> ExtractionPage:
    """Load the next nearest extractions.

    Vector queries have no cursor, so this query also reads the extractions of the previous pages.
    """
    position = decode_cursor(args, args.cursor, _SIMILARITY_POSITION) or _START
    distance, last_id, read_count = position
    vector, has_vectors = await asyncio.gather(
        ctx.query_vector(query), EmbeddingSpace(ctx.database).expect(ctx.embedder)
    )
    if not has_vectors:
        return ExtractionPage([])
    size = min(read_count + args.limit + 1, MAX_NEAREST)
    neighbours = await Extractions(ctx.database).find_nearest(
        vector, filters.type, filters.topic, filters.source_id, size
    )
    items = [item for item in _rank(neighbours) if item.position[:2] > (distance, last_id)]
    has_read_all = len(neighbours) < size
    if len(items) > args.limit or has_read_all:
        return _cut_page(items, args.limit)
    if size == MAX_NEAREST:
        return ExtractionPage(items, is_at_limit=True)
    # Extractions that were added since the previous page rank among those already shown, and took
    # the place of some of this page's. The next page must read beyond `size` neighbours.
    last = items[-1].position[:2] if items else (distance, last_id)
    return ExtractionPage(items, (*last, size))


def _rank(neighbours: Sequence[ExtractionNeighbour]) -> list[PageItem]:
    return [
        PageItem(neighbour.extraction, (*_distance_key(neighbour), rank), neighbour.similarity)
        for rank, neighbour in enumerate(sorted(neighbours, key=_distance_key), 1)
    ]


def _distance_key(neighbour: ExtractionNeighbour) -> tuple[int, str]:
    return round(neighbour.distance * _DISTANCE_SCALE), neighbour.extraction.extraction_id


def _cut_page(items: Sequence[PageItem], limit: int) -> ExtractionPage:
    next_position = items[limit - 1].position if len(items) > limit else None
    return ExtractionPage(items[:limit], next_position)
