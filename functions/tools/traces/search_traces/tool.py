"""Search traces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints

from functions.tools.traces.search_traces.pages import (
    DATE_POSITION,
    NearTrace,
    TraceHit,
    format_hit,
    load_page_by_date,
    load_page_by_relevance,
)
from shared.core.caller import Tier
from shared.core.dates import to_microseconds
from shared.core.errors import InvalidInput, Unauthorized
from shared.runtime.capabilities import Capability
from shared.runtime.pagination import PagedArguments, decode_cursor, encode_cursor, fit_page
from shared.runtime.schemas import FOR_APPS, Result
from shared.runtime.tool import Effect, Tool
from shared.search.listing import RANK_POSITION
from shared.search.query import Mode, SearchQuery
from shared.text.counts import format_count
from shared.traces.corpus import select_by_tags
from shared.traces.repository import Traces
from shared.traces.tags import MAX_TAGS, TagInput, normalize_tags

if TYPE_CHECKING:
    from functions.tools.traces.search_traces.pages import TracePage
    from shared.runtime.context import Context
    from shared.search.filter_plan import Dates

MAX_OWN: Final = 500
"""The maximum number of own traces that `mine` can search. Each costs a read."""
NO_MATCHES: Final = "No traces found matching your query."


class In(PagedArguments):
    """A query, tags or both. They are optional with `mine`."""

    query: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1_000)] = Field(
        default="", description="The problem in plain words, or its error message."
    )
    tags: list[TagInput] = Field(
        default=[],
        max_length=MAX_TAGS,
        description="All of which it must have.",
    )
    limit: int = Field(default=10, ge=1, le=50, description="Maximum number of traces.")
    include_flagged: bool = Field(
        default=False, description="Include those that voters warn against."
    )
    mine: bool = Field(default=False, description="Only your own, flagged or not.")


class Out(Result):
    """A page of traces."""

    message: str | None = Field(description="What limited the search, or that nothing matches.")
    matches: bool = Field(description="Whether any of them fits, as far as the scores can tell.")
    results: list[TraceHit | NearTrace] = Field(
        description="The traces, best first; without a query, latest first."
    )
    next_cursor: str | None = Field(description="For the next page; missing on the last one.")
    query: str = Field(description="The query.", json_schema_extra=FOR_APPS)


async def search_traces(args: In, ctx: Context) -> Out:
    """Search the traces with these tags by meaning and words.

    Costs up to three round trips. `mine` costs one more, to read the caller's traces.

    Raises:
        InvalidInput: A query, tags or `mine` is required, or the caller has too many traces.
        Unauthorized: `mine` is set, but the caller has not signed in.
    """
    if not (args.query or args.tags or args.mine):
        message = "Please provide a query, tags, or both to search."
        raise InvalidInput(message, details={"query": "required unless tags are given"})
    selection = select_by_tags(
        normalize_tags(args.tags),
        include_flagged=args.include_flagged or args.mine,
        only=await _load_own(ctx) if args.mine else None,
    )
    fit_to_page = partial(fit_page, max_tokens=args.max_tokens, cursor=args.cursor)
    if args.query:
        previous = decode_cursor(args, args.cursor, RANK_POSITION)
        query = SearchQuery(args.query, Mode.HYBRID, selection)
        page = await load_page_by_relevance(query, previous, args.limit, fit_to_page, ctx)
    else:
        position = decode_cursor(args, args.cursor, DATE_POSITION)
        page = await load_page_by_date(selection, position, args.limit, fit_to_page, ctx)
    return _build_out(args, page)


async def _load_own(ctx: Context) -> Dates:
    """Load the dates of the caller's traces, by id."""
    if ctx.caller.user_id is None:
        raise Unauthorized("Sign in to search your own traces.")
    own = await Traces(ctx.database).list_by_contributor(ctx.caller.user_id, MAX_OWN + 1, None)
    if len(own) > MAX_OWN:
        message = f"You have more than {MAX_OWN:,} traces: search without mine. Yours are marked."
        raise InvalidInput(message, details={"mine": "too many"})
    return {trace.trace_id: to_microseconds(trace.dated_at) for trace in own if trace.is_listed}


def _build_out(args: In, page: TracePage) -> Out:
    notes = [] if page.matches else [NO_MATCHES]
    return Out(
        query=args.query,
        results=page.hits,
        matches=page.matches,
        message=" ".join([*notes, *page.notes]) or None,
        next_cursor=encode_cursor(args, page.position) if page.position else None,
    )


def format_result(out: Out) -> str:
    """Return the hits as text."""
    paragraphs = [out.message] if out.message else []
    if out.results:
        paragraphs.append(_format_heading(out))
    paragraphs += map(format_hit, out.results)
    if out.next_cursor:
        paragraphs.append(f"There are more: call again with cursor {out.next_cursor}")
    return "\n\n".join(paragraphs)


def _format_heading(out: Out) -> str:
    count = sum(isinstance(hit, TraceHit) for hit in out.results)
    if not count:
        return "The nearest:"
    heading = f"{'Found' if out.matches else 'Perhaps'} {format_count(count, 'result')}"
    return f'{heading} for "{out.query}":' if out.query else f"{heading}:"


TOOL = Tool(
    name="search_traces",
    title="Search solved problems",
    description=(
        "Search coding problems that agents and people solved: errors, setups, decisions. Search"
        " here before you solve one; read a hit with get_trace, and vote with vote_trace once you"
        " tried it. For the owner's notes use search_kb."
    ),
    input=In,
    output=Out,
    run=search_traces,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    capabilities=frozenset({Capability.EMBEDDING}),
)
