"""Pages of extractions, sorted by confidence or by similarity to a query.

The position of an extraction is its place in that order. A cursor, with which a caller asks for the
next page, is the encoded position of the last extraction of a page.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, TypeAdapter

from shared.extractions.repository import MAX_NEAREST, Extractions, make_page_key
from shared.index.embedding_space import EmbeddedLanguages, EmbeddingSpace
from shared.index.query_purpose import choose_query_purpose
from shared.runtime.pagination import decode_cursor
from shared.runtime.schemas import DocumentId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.extractions.model import Extraction, ExtractionType
    from shared.extractions.repository import ExtractionNeighbour
    from shared.extractions.views import ExtractionArguments
    from shared.runtime.context import Context

    Position = tuple[int | str, ...]
    """The fields of `_FILTERED_POSITION` or `_SEMANTIC_POSITION`."""

_DISTANCE_SCALE: Final = 10**9
"""Positions contain distances multiplied by this factor and rounded to whole numbers, which compare
exactly."""
_FILTERED_POSITION: Final = TypeAdapter(tuple[Annotated[int, Field(ge=0, le=1_000)], DocumentId])
"""A position in the order of confidence: the confidence in thousandths, and the id."""
_SEMANTIC_POSITION: Final = TypeAdapter(
    tuple[
        Annotated[int, Field(ge=-_DISTANCE_SCALE, le=3 * _DISTANCE_SCALE)],
        DocumentId,
        Annotated[int, Field(ge=1, le=MAX_NEAREST)],
    ]
)
"""A position in the order of similarity: the distance, the id and the rank, from 1."""
_START: Final = (-_DISTANCE_SCALE, "", 0)
"""The first page starts after this position, which is before that of the nearest extraction."""


@dataclass(frozen=True, slots=True)
class ExtractionFilter:
    """Which extractions to look up."""

    type: ExtractionType
    topic: str | None
    source_id: str | None


@dataclass(frozen=True, slots=True)
class PageItem:
    """An extraction on a page."""

    extraction: Extraction
    position: Position
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class ExtractionPage:
    """A page of extractions.

    Attributes:
        next_position: The position after which the next page begins, or None if there is no next
            page.
        exhausted: Whether this is the last page only because Firestore returns no more than
            `MAX_NEAREST` neighbours.
    """

    items: Sequence[PageItem]
    next_position: Position | None = None
    exhausted: bool = False


async def load_page(
    filters: ExtractionFilter, args: ExtractionArguments, ctx: Context
) -> ExtractionPage:
    """Load a page of extractions. Costs one round trip, or two with a query.

    Raises:
        InvalidInput: The cursor belongs to another call.
        Unavailable: The embedding provider or the database is down.
        Conflict: The database is embedded with another model.
    """
    if args.query is None:
        return await _load_by_confidence(filters, args, ctx)
    return await _load_by_similarity(args.query, filters, args, ctx)


async def _load_by_confidence(
    filters: ExtractionFilter, args: ExtractionArguments, ctx: Context
) -> ExtractionPage:
    """Load the next extractions in descending order of confidence."""
    after = decode_cursor(args, args.cursor, _FILTERED_POSITION)
    # One more than the page contains shows whether there is a next page.
    extractions = await Extractions(ctx.database).list_by_confidence(
        filters.type, filters.topic, filters.source_id, args.limit + 1, after
    )
    items = [PageItem(extraction, make_page_key(extraction)) for extraction in extractions]
    return _cut_page(args.limit, items)


async def _load_by_similarity(
    query: str, filters: ExtractionFilter, args: ExtractionArguments, ctx: Context
) -> ExtractionPage:
    """Load the next nearest extractions.

    Vector queries have no cursor, so this query also reads the extractions of the previous pages.
    """
    distance, last_id, rank = decode_cursor(args, args.cursor, _SEMANTIC_POSITION) or _START
    check = asyncio.ensure_future(EmbeddingSpace(ctx.database).expect(ctx.embedder))
    purpose = await choose_query_purpose(query, ctx.embedder.model, check)
    vector, languages = await asyncio.gather(ctx.embed_query(query, purpose), check)
    if languages is EmbeddedLanguages.NONE:  # there are no vectors to compare with yet
        return ExtractionPage([])
    size = min(rank + args.limit + 1, MAX_NEAREST)
    neighbours = await Extractions(ctx.database).find_nearest(
        vector, filters.type, filters.topic, filters.source_id, size
    )
    items = [
        PageItem(neighbour.extraction, (*_make_distance_key(neighbour), rank), neighbour.similarity)
        for rank, neighbour in enumerate(sorted(neighbours, key=_make_distance_key), 1)
    ]
    items = [item for item in items if item.position[:2] > (distance, last_id)]
    if len(items) > args.limit or len(neighbours) < size:
        return _cut_page(args.limit, items)
    if size == MAX_NEAREST:
        return ExtractionPage(items, exhausted=True)
    # Extractions that were added since the previous pages rank among theirs and fill the result, so
    # this page is short. The next page must search further.
    last = items[-1].position[:2] if items else (distance, last_id)
    return ExtractionPage(items, (*last, size))


def _make_distance_key(neighbour: ExtractionNeighbour) -> tuple[int, str]:
    """Return the position of an extraction without the rank, by which extractions are sorted."""
    return round(neighbour.distance * _DISTANCE_SCALE), neighbour.extraction.extraction_id


def _cut_page(limit: int, items: Sequence[PageItem]) -> ExtractionPage:
    """Return the first `limit` extractions as a page. There is a next page if there are more."""
    next_position = items[limit - 1].position if len(items) > limit else None
    return ExtractionPage(items[:limit], next_position)
