"""Find passages by what they mean and by their words, or list them by date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, Field, StringConstraints

from functions.tools.knowledge.search_kb.filters import Filters, selection
from functions.tools.knowledge.search_kb.listed import POSITION, listed
from functions.tools.knowledge.search_kb.ranked import ranked
from functions.tools.knowledge.search_kb.results import Detail, Hit, View
from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.capabilities import Capability
from shared.runtime.pagination import CursorText, read_cursor, write_cursor
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Links, Tool
from shared.search.candidates import Mode, SearchQuery
from shared.search.listing import FINGERPRINTS

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(Arguments):
    """What to look for."""

    query: (
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
        | None
    ) = Field(
        default=None,
        description="What the passages should be about, in plain words: a question or a topic."
        " Without it, the passages that pass the filters are listed, the newest first.",
        validation_alias=AliasChoices("query", "q"),
    )
    filters: Filters | None = Field(
        default=None, description="What passages must satisfy, all of it at once."
    )
    mode: Mode = Field(
        default=Mode.HYBRID,
        description="hybrid: by meaning and by words, the best of both. semantic: by meaning"
        " alone. lexical: by words alone, for names, codes and quotations.",
    )
    search_cards_only: bool = Field(
        default=False,
        description="Whether to look only at passages that have a knowledge card; hits then carry"
        " its takeaways.",
    )
    limit: int = Field(default=10, ge=1, le=50, description="How many passages at most.")
    cursor: CursorText | None = Field(
        default=None, description="The next_cursor of the page before, for the next page."
    )
    detail: Detail = Field(
        default=Detail.LEAN,
        description="lean: an excerpt around the match. full: the whole content and the takeaways"
        " of every hit, for fewer calls of get_chunk.",
    )


class Out(Result):
    """The passages, best first."""

    query: str | None = Field(description="The query as it was searched for.")
    matches: bool = Field(
        description="Whether anything here is likely to answer. If not, say so rather than answer"
        " from these hits, which are only the nearest."
    )
    results: list[Hit] = Field(description="The passages, best first; without a query by date.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")
    message: str | None = Field(
        description="What to know of the results: what was not found, and what to relax."
    )


async def search_kb(args: In, ctx: Context) -> Out:
    """Search, or list by date: three round trips deep.

    One more where what is nearest does not pass several filters, or to name filters that do not
    exist.

    Raises:
        InvalidInput: There is neither a query nor a filter, or a filter or cursor makes no sense.
        Unavailable: The embedding provider is down, and only meaning was asked for.
    """
    wanted = selection(args.filters, ctx.clock(), cards_only=args.search_cards_only)
    view = View(args.limit, args.detail is Detail.FULL, args.search_cards_only)
    if args.query is not None:
        shown = read_cursor(args, args.cursor, FINGERPRINTS) or []
        page = await ranked(SearchQuery(args.query, args.mode, wanted), shown, view, ctx)
    elif wanted.everything:
        raise InvalidInput(
            "search_kb takes a query, filters or both. Give one and call search_kb again, or call"
            " get_recent for what is new.",
            details={"query": "required where there are no filters"},
        )
    else:
        position = read_cursor(args, args.cursor, POSITION)
        page = await listed(wanted, position, view, ctx)
    return Out(
        query=args.query,
        matches=page.matches,
        results=page.hits,
        next_cursor=write_cursor(args, page.position) if page.position else None,
        message=page.message,
    )


TOOL = Tool(
    name="search_kb",
    title="Search the knowledge base",
    description=(
        "Search the reading highlights and notes in this knowledge base by meaning and by words."
        " Use it first whenever a question may be answered by what the owner has read or written."
        " It returns short hits, best first, and says when nothing here is likely to answer"
        " (matches: false). Narrow it with filters (tags, author, source, category, topic, dates);"
        " with filters and no query it lists by date. Read a promising hit in full with get_chunk."
        " To browse rather than search: list_clusters for topics, list_sources for books and"
        " articles, get_recent for what is new."
    ),
    input=In,
    output=Out,
    run=search_kb,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    links=Links(items="results", uri="carrel://chunk/{chunk_id}", name="title"),
    capabilities=frozenset({Capability.EMBEDDING}),
)
