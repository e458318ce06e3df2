"""List the sources of the knowledge base."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AliasChoices, Field, StringConstraints, TypeAdapter

from shared.core.caller import Tier
from shared.index.facets import Facet, Kind, named_facet
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.common_names import CommonNames
from shared.knowledge.source_repository import Order, Sources
from shared.knowledge.views import SourceSummary
from shared.runtime.pagination import (
    CursorMoment,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Links, Tool
from shared.text.suggestions import unknown_name_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.source_repository import SourceCursor, StoredSource
    from shared.runtime.context import Context

EMPTY: Final = "There are no sources yet. The owner puts texts in with `carrel ingest PATH`."
BLOCK: Final = 100
"""How many sources are read at once where several filters must hold."""
MOST_READ: Final = 300
"""How many are read in one call, at most."""
_PLACES: Final[dict[Order, TypeAdapter[Any]]] = {
    Order.RECENT: TypeAdapter(tuple[CursorMoment, DocumentId]),
    Order.TITLE: TypeAdapter(tuple[str, DocumentId]),
}
"""By what the last source that was shown is ordered, and its id."""

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class In(Arguments):
    """Which sources, and in which order."""

    author: Name | None = Field(default=None, description="Only those of this author.")
    category: Name | None = Field(
        default=None, description="Only those of this kind, such as books or articles."
    )
    tag: Name | None = Field(
        default=None, description="Only those that bear this tag, or of which a passage does."
    )
    order: Order = Field(
        default=Order.RECENT,
        description="`recent`: those that changed last come first; `title`: by title.",
        validation_alias=AliasChoices("order", "sort"),
    )
    limit: int = Field(default=20, ge=1, le=50, description="How many sources at most.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, with the same filters and order."
    )


class Out(Result):
    """A page of sources."""

    sources: list[SourceSummary] = Field(description="The sources, in the order asked for.")
    next_cursor: str | None = Field(
        description="Where the list goes on; missing at its end. A short page may not be the last."
    )
    message: str | None = Field(description="What to know when none is listed.")


async def list_sources(args: In, ctx: Context) -> Out:
    """List sources: one round trip and limit + 1 documents, with no filter or with one.

    The database applies one filter; the others are looked up on at most 300 documents, in up to
    three round trips. Where a filtered list is empty, one more finds out why.
    """
    filters = _filters(args)
    after = decode_cursor(args, args.cursor, _PLACES[args.order])
    found, end = await _walk(args, list(filters), after, ctx)
    sources = fit_page([SourceSummary.of(source, source=source.origin) for source in found])
    if len(sources) < len(found):
        end = found[len(sources) - 1].place(args.order)
    return Out(
        sources=sources,
        next_cursor=encode_cursor(args, end) if end else None,
        message=None if sources or args.cursor else await _why(filters, end, ctx),
    )


def _filters(args: In) -> dict[Facet, str]:
    """What a source must bear, as people wrote it; first what the fewest are likely to bear."""
    given = {Kind.AUTHOR: args.author, Kind.TAG: args.tag, Kind.CATEGORY: args.category}
    return {named_facet(kind, name): name for kind, name in given.items() if name}


async def _walk(
    args: In, wanted: Sequence[Facet], after: SourceCursor | None, ctx: Context
) -> tuple[list[StoredSource], SourceCursor | None]:
    """The sources of a page, and where the next one begins, if there may be more."""
    facet, others = (wanted[0] if wanted else None), {each.id for each in wanted[1:]}
    size = BLOCK if others else args.limit + 1
    found: list[StoredSource] = []
    for _ in range(0, MOST_READ, size):
        block = await Sources(ctx.database).page(args.order, size, facet, after)
        found += [each for each in block if others <= each.facets]
        if len(found) > args.limit:
            return found[: args.limit], found[args.limit - 1].place(args.order)
        if len(block) < size:
            return found, None
        after = block[-1].place(args.order)
    return found, after


async def _why(filters: dict[Facet, str], end: SourceCursor | None, ctx: Context) -> str:
    if end:
        return f"None among the first {MOST_READ} that were looked at. Go on with next_cursor."
    hints = await asyncio.gather(*(_hint(facet, name, ctx) for facet, name in filters.items()))
    if any(hints):
        return " ".join(filter(None, hints))
    named = " and ".join(f"{facet.kind} {name!r}" for facet, name in filters.items())
    match len(filters):
        case 0:
            return EMPTY
        case 1:
            return f"No source has {named} any more. List without a filter to see what there is."
        case _:
            return f"No source has {named} together. Leave one of them out."


async def _hint(facet: Facet, name: str, ctx: Context) -> str | None:
    """What to use instead of a name that nothing bears."""
    common, same = await asyncio.gather(
        CommonNames(ctx.database).of(facet.kind),
        InvertedIndex(ctx.database, KNOWLEDGE).names_from(facet.kind, facet.key, 1),
    )
    if any(each.facet == facet for each in (*common, *same)):
        return None
    return unknown_name_message(facet.kind, name, [each.name for each in common])


TOOL = Tool(
    name="list_sources",
    title="List sources",
    description=(
        "List the books, articles and documents of the knowledge base, by author, category or tag"
        " (all that are given must hold), last changed first or by title. Use it to see what is"
        " there, or to find a source's id by its author. To find out what texts say, use"
        " search_kb; to read a source, get_source with its source_id; for what was read lately,"
        " get_recent."
    ),
    input=In,
    output=Out,
    run=list_sources,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    links=Links(
        items="sources",
        uri="carrel://source/{source_id}",
        name="title",
        listed=True,
        walk={"order": "title"},
    ),
)
