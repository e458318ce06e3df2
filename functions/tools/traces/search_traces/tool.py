"""Find how others solved a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints

from functions.tools.traces.search_traces.listed import POSITION, listed
from functions.tools.traces.search_traces.ranked import ranked
from functions.tools.traces.search_traces.results import Hit
from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.capabilities import Capability
from shared.runtime.pagination import CursorText, decode_cursor, encode_cursor
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool
from shared.search.listing import FINGERPRINTS
from shared.search.query import Mode, SearchQuery
from shared.traces.corpus import bearing
from shared.traces.tags import MOST, SentTag, normal_tags
from shared.traces.views import votes_in_words

if TYPE_CHECKING:
    from functions.tools.traces.search_traces.results import Page
    from shared.runtime.context import Context

NOTHING: Final = "No traces found matching your query."


class In(Arguments):
    """What is looked for."""

    query: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1_000)] = Field(
        default="", description="The problem in plain words, or its error message."
    )
    tags: list[SentTag] = Field(
        default=[], max_length=MOST, description="Tags, all of which a trace must bear."
    )
    limit: int = Field(default=10, ge=1, le=50, description="How many at most.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, for the next one."
    )
    include_flagged: bool = Field(
        default=False, description="Whether to show traces too of which voters warn."
    )


class Out(Result):
    """What was found."""

    query: str = Field(description="What was asked.")
    results: list[Hit] = Field(description="The traces, best first; by tags alone, latest first.")
    matches: bool = Field(description="Whether any of them fits, as far as the scores can tell.")
    message: str | None = Field(description="What went otherwise than one may think.")
    next_cursor: str | None = Field(description="For the next page; missing on the last one.")


async def search_traces(args: In, ctx: Context) -> Out:
    """Search by meaning and words among the traces with these tags: three round trips at most.

    Raises:
        InvalidInput: There is neither a query nor a tag.
    """
    if not (args.query or args.tags):
        message = "Please provide a query, tags, or both to search."
        raise InvalidInput(message, details={"query": "missing, and tags too"})
    selection = bearing(normal_tags(args.tags), flagged=args.include_flagged)
    if args.query:
        shown = decode_cursor(args, args.cursor, FINGERPRINTS) or []
        question = SearchQuery(args.query, Mode.HYBRID, selection)
        page = await ranked(question, shown, args.limit, ctx)
    else:
        position = decode_cursor(args, args.cursor, POSITION)
        page = await listed(selection, position, args.limit, ctx)
    return _out(args, page)


def _out(args: In, page: Page) -> Out:
    notes = [] if page.matches else [NOTHING]
    return Out(
        query=args.query,
        results=page.hits,
        matches=page.matches,
        message=" ".join([*notes, *page.notes]) or None,
        next_cursor=encode_cursor(args, page.position) if page.position else None,
    )


def in_words(out: Out) -> str:
    """Write the list to be read."""
    parts = [out.message] if out.message else []
    if out.results:
        parts.append(_heading(out))
    parts += map(_entry, out.results)
    if out.next_cursor:
        parts.append(f"There are more: call again with cursor {out.next_cursor}")
    return "\n\n".join(parts)


def _heading(out: Out) -> str:
    count = len(out.results)
    if not out.matches:
        return f"The {count} nearest:" if count > 1 else "The nearest:"
    found = f"Found {count} result{'s' if count > 1 else ''}"
    return f'{found} for "{out.query}":' if out.query else f"{found}:"


def _entry(hit: Hit) -> str:
    scores = [f"score: {hit.score:.2f}"] if hit.score is not None else []
    scores += [f"trust: {hit.trust:.2f}", votes_in_words(hit)]
    scores += [hit.status] if hit.status != "pending" else []
    return (
        f"{hit.rank}. {hit.title} ({', '.join(scores)})\n"
        f"   Tags: {', '.join(hit.tags) or 'none'}\n"
        f"   Context: {hit.context}\n"
        f"   Solution: {hit.solution}\n"
        f"   ID: {hit.trace_id}"
    )


TOOL = Tool(
    name="search_traces",
    title="Search solved problems",
    description=(
        "Search what other agents and people shared of problems they solved: errors, set-ups,"
        " decisions in code. Use it before you work on a coding problem, with the error message or"
        " the task in plain words, and tags such as a language or a framework; read a promising"
        " one whole with get_trace, and vote on it with vote_trace once you tried it. For the"
        " owner's reading highlights and notes use search_kb."
    ),
    input=In,
    output=Out,
    run=search_traces,
    text=in_words,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    capabilities=frozenset({Capability.EMBEDDING}),
)
