"""List the sources of the knowledge base."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AliasChoices, Field, StringConstraints, TypeAdapter

from shared.core.caller import Tier
from shared.core.dates import format_day
from shared.core.installation import carrel
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.on_request import KEEP_OUT_LEVEL, find_asked_level
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.common_names import CommonNames
from shared.knowledge.source_repository import SourceOrder, Sources
from shared.knowledge.views import SourceSummary
from shared.runtime.pagination import (
    CursorMoment,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import DocumentId, Result
from shared.runtime.tool import Effect, ResourceListing, Tool
from shared.text.suggestions import unknown_name_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.source_repository import SourceCursor, StoredSource
    from shared.runtime.context import Context

BLOCK_SIZE: Final = 100
"""The number of sources that a query reads if there are several filters."""
MAX_READ: Final = 300
"""The maximum number of sources that a call with several filters reads."""
_POSITIONS: Final[dict[SourceOrder, TypeAdapter[Any]]] = {
    SourceOrder.RECENT: TypeAdapter(tuple[CursorMoment, DocumentId]),
    SourceOrder.TITLE: TypeAdapter(tuple[str, DocumentId]),
}
"""The type of a cursor's position, by order: the sort key and the id of a page's last source."""

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


def explain_empty() -> str:
    """Say how texts get into an empty knowledge base."""
    return f"There are no sources yet. The owner adds texts with `{carrel('ingest PATH')}`."


class In(PagedArguments):
    """Filters and the order of the sources."""

    author: Name | None = Field(default=None, description="Full name.")
    category: Name | None = Field(default=None, description="books, articles ...")
    tag: Name | None = Field(default=None, description="Also a passage's.")
    language: Name | None = Field(default=None, description="Of any passage: en, de ...")
    order: SourceOrder = Field(
        default=SourceOrder.RECENT,
        description="recent: newest first.",
        validation_alias=AliasChoices("order", "sort"),
    )
    limit: int = Field(default=20, ge=1, le=50, description="Maximum number of sources.")


class Out(Result):
    """A page of sources."""

    total: int | None = Field(
        description="How many there are with at most one filter; on the first page only."
    )
    sources: list[SourceSummary] = Field(description="The sources, in the requested order.")
    next_cursor: str | None = Field(
        description="For the next page; only the last has none. Even a short page may have one."
    )
    message: str | None = Field(description="Why the list is empty, and what to do next.")


async def list_sources(args: In, ctx: Context) -> Out:
    """List sources.

    Costs one round trip and limit + 1 documents if there is at most one filter, and on the first
    page a count.

    The database applies one filter. Other filters are checked on at most 300 documents, in up to
    three round trips. An empty list with filters costs one more, to explain why it is empty.
    """
    filters = _build_filters(args)
    after = decode_cursor(args, args.cursor, _POSITIONS[args.order])
    (matching, next_position), total = await asyncio.gather(
        _load_page(args, list(filters), after, ctx), _count(args, list(filters), ctx)
    )
    page = fit_page(
        [
            SourceSummary.of(
                source,
                source=source.origin,
                updated=format_day(source.updated_at, ctx.zone),
            )
            for source in matching
        ],
        args.max_tokens,
    )
    if len(page) < len(matching):  # `page` is not empty: `fit_page` returns at least one source.
        next_position = matching[len(page) - 1].cursor(args.order)
    return Out(
        total=total,
        sources=page,
        next_cursor=encode_cursor(args, next_position) if next_position else None,
        message=None if page or args.cursor else await _explain_empty(filters, next_position, ctx),
    )


def _build_filters(args: In) -> dict[Facet, str]:
    """Return the names to filter by, by facet. The facet that is likely the rarest comes first."""
    kinds = (Kind.AUTHOR, Kind.TAG, Kind.CATEGORY, Kind.LANGUAGE)
    return {make_named_facet(kind, name): name for kind in kinds if (name := getattr(args, kind))}


async def _count(args: In, facets: Sequence[Facet], ctx: Context) -> int | None:
    if args.cursor or len(facets) > 1:
        return None
    return await Sources(ctx.database).count(facets[0] if facets else None)


async def _load_page(
    args: In, facets: Sequence[Facet], after: SourceCursor | None, ctx: Context
) -> tuple[list[StoredSource], SourceCursor | None]:
    """Load the sources of a page, and the cursor of the next page if there may be one."""
    facet = facets[0] if facets else None
    others = {other.id for other in facets[1:]}
    asked_level = find_asked_level(facets)
    size = BLOCK_SIZE if others else args.limit + 1
    matching: list[StoredSource] = []
    for _ in range(0, MAX_READ, size):
        block = await Sources(ctx.database).load_page(args.order, size, facet, after)
        matching += [
            source
            for source in block
            if others <= source.facets and (asked_level == KEEP_OUT_LEVEL or not source.is_kept_out)
        ]
        if len(matching) > args.limit:
            return matching[: args.limit], matching[args.limit - 1].cursor(args.order)
        if len(block) < size:
            return matching, None
        after = block[-1].cursor(args.order)
    return matching, after


async def _explain_empty(
    filters: dict[Facet, str], next_position: SourceCursor | None, ctx: Context
) -> str:
    if next_position:  # There are several filters, of which the database applied the first one.
        facet, name = next(iter(filters.items()))
        return (
            f"None of the first {MAX_READ} sources with {facet.kind} {name!r} matches the other"
            " filters. Continue with next_cursor."
        )
    hints = await asyncio.gather(
        *(_suggest_names(facet, name, ctx) for facet, name in filters.items())
    )
    if any(hints):
        return " ".join(filter(None, hints))
    names = " and ".join(f"{facet.kind} {name!r}" for facet, name in filters.items())
    match len(filters):
        case 0:
            return explain_empty()
        case 1:
            return f"No source with {names} is left. List sources without a filter instead."
        case _:
            return f"No source has {names} together. Leave one of the filters out."


async def _suggest_names(facet: Facet, name: str, ctx: Context) -> str | None:
    """Suggest similar names if no source and no passage has this one."""
    # The common names do not include rare ones, so the index is asked for this name, too.
    common, same = await asyncio.gather(
        CommonNames(ctx.database).load(facet.kind),
        InvertedIndex(ctx.database, KNOWLEDGE).list_by_prefix(facet.kind, facet.key, 1),
    )
    if any(existing.facet == facet for existing in (*common, *same)):
        return None
    return unknown_name_message(facet.kind, name, [existing.name for existing in common])


TOOL = Tool(
    name="list_sources",
    title="List sources",
    description=(
        "List the sources (books, articles, notes ...) that match all filters. To search their text"
        " use search_kb."
    ),
    input=In,
    output=Out,
    run=list_sources,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    listing=ResourceListing(
        items_field="sources",
        uri_template="carrel://source/{source_id}",
        name_field="title",
        paging_arguments={"order": "title"},
    ),
)
