"""Pages of extractions: by how sure they are, or by how near they come to a query."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, TypeAdapter

from shared.extractions.repository import MOST_NEAR, Extractions, place
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.pagination import decode_cursor
from shared.runtime.schemas import DocumentId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.extractions.model import Extraction, ExtractionType
    from shared.extractions.repository import Near
    from shared.extractions.views import ExtractionArguments
    from shared.runtime.context import Context

    Position = tuple[int | str, ...]

_STEPS: Final = 10**9
"""How finely distances are told apart."""
_LISTED: Final = TypeAdapter(tuple[Annotated[int, Field(ge=0, le=1_000)], DocumentId])
"""Confidence in thousandths and id of the last one that was shown."""
_RANKED: Final = TypeAdapter(
    tuple[
        Annotated[int, Field(ge=-_STEPS, le=3 * _STEPS)],
        DocumentId,
        Annotated[int, Field(ge=1, le=MOST_NEAR)],
    ]
)
"""Distance and id of the last one that was shown, and its number among the nearest."""
_FIRST: Final = (-_STEPS, "", 0)
"""Before the nearest of all."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What extractions must be.

    Attributes:
        kind: Their type.
        topic: What they are about, as `normal_topic` writes it; None: anything.
        source_id: The source they come from; None: any.
    """

    kind: ExtractionType
    topic: str | None
    source_id: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """An extraction in its place.

    Attributes:
        extraction: The extraction.
        position: What a cursor holds that goes on after it.
        similarity: The cosine of it and the query, if there is one.
    """

    extraction: Extraction
    position: Position
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        found: What is on it.
        end: What a cursor holds that goes on after it; None where nothing comes.
        exhausted: Whether nothing comes because nobody counts further.
    """

    found: Sequence[Found]
    end: Position | None = None
    exhausted: bool = False


async def page_of(wanted: Wanted, args: ExtractionArguments, ctx: Context) -> Page:
    """A page of extractions: one round trip, two with a query.

    Raises:
        InvalidInput: The cursor belongs to another call.
        Unavailable: The embedding provider is down, or the database.
        Conflict: The database is embedded with another model.
    """
    if args.query is None:
        return await _listed(wanted, args, ctx)
    return await _ranked(args.query, wanted, args, ctx)


async def _listed(wanted: Wanted, args: ExtractionArguments, ctx: Context) -> Page:
    after = decode_cursor(args, args.cursor, _LISTED)
    extractions = await Extractions(ctx.database).page(
        wanted.kind, wanted.topic, wanted.source_id, args.limit + 1, after
    )
    found = [Found(each, place(each)) for each in extractions]
    return _cut(found, args.limit)


async def _ranked(query: str, wanted: Wanted, args: ExtractionArguments, ctx: Context) -> Page:
    """The nearest that come after what was shown, which is found again with them."""
    step, name, seen = decode_cursor(args, args.cursor, _RANKED) or _FIRST
    vector, embedded = await asyncio.gather(
        ctx.query_vector(query), EmbeddingSpace(ctx.database).expect(ctx.embedder)
    )
    if not embedded:
        return Page([])
    size = min(seen + args.limit + 1, MOST_NEAR)
    near = await Extractions(ctx.database).nearest(
        vector, wanted.kind, wanted.topic, wanted.source_id, size
    )
    found = [each for each in _in_order(near) if each.position[:2] > (step, name)]
    if len(found) > args.limit or len(near) < size:
        return _cut(found, args.limit)
    if size == MOST_NEAR:
        return Page(found, exhausted=True)
    # Others came before what was shown, since then: the next page looks further.
    last = found[-1].position[:2] if found else (step, name)
    return Page(found, (*last, size))


def _in_order(near: Sequence[Near]) -> list[Found]:
    ranked = sorted(near, key=_rank)
    return [
        Found(each.extraction, (*_rank(each), number), each.similarity)
        for number, each in enumerate(ranked, 1)
    ]


def _rank(near: Near) -> tuple[int, str]:
    return round(near.distance * _STEPS), near.extraction.extraction_id


def _cut(found: Sequence[Found], limit: int) -> Page:
    return Page(found[:limit], found[limit - 1].position if len(found) > limit else None)
