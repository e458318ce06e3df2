"""List the tags of traces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints, TypeAdapter

from shared.core.caller import Tier
from shared.index.facets import Kind
from shared.index.postings import TRACES, InvertedIndex
from shared.runtime.pagination import CursorText, decode_cursor, encode_cursor
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool
from shared.traces.tags import LONGEST, normal_tag

if TYPE_CHECKING:
    from shared.runtime.context import Context

POSITION: Final = TypeAdapter(tuple[Annotated[str, StringConstraints(max_length=LONGEST)]])
"""The last tag that was shown."""


class In(Arguments):
    """Which tags."""

    prefix: str = Field(
        default="", max_length=LONGEST, description="How the tags begin; all by default."
    )
    limit: int = Field(default=100, ge=1, le=300, description="How many at most.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, for the next one."
    )


class Tag(Result):
    """A tag."""

    name: str = Field(description="The tag, for search_traces.")
    count: int = Field(description="How many traces bear it.")


class Out(Result):
    """A page of tags, in alphabetical order."""

    tags: list[Tag] = Field(description="The tags.")
    total: int = Field(description="How many tags there are in all, whatever their beginning.")
    next_cursor: str | None = Field(description="For the next page; missing on the last one.")


async def list_tags(args: In, ctx: Context) -> Out:
    """Read the tags of a page, and count all beside them: one round trip."""
    position = decode_cursor(args, args.cursor, POSITION)
    prefix = normal_tag(args.prefix)
    lists = InvertedIndex(ctx.database, TRACES)
    found, total = await asyncio.gather(
        lists.names_from(Kind.TAG, prefix, args.limit + 1, *(position or ())),
        lists.count(Kind.TAG),
    )
    page = found[: args.limit]
    more = len(found) > args.limit
    return Out(
        tags=[Tag(name=each.name, count=each.count) for each in page],
        total=total,
        next_cursor=encode_cursor(args, [page[-1].facet.key]) if more else None,
    )


def in_words(out: Out) -> str:
    """List them in one line."""
    if not out.total:
        return "Available tags (0 total): no trace bears any yet."
    if not out.tags:
        total = f"Available tags ({out.total} total): leave prefix out to list them."
        return f"No tag begins like this. {total}"
    listed = ", ".join(f"{each.name} ({each.count})" for each in out.tags)
    more = f"\n(more with cursor {out.next_cursor})" if out.next_cursor else ""
    return f"Available tags ({out.total} total):\n{listed}{more}"


TOOL = Tool(
    name="list_tags",
    title="List the tags of solved problems",
    description=(
        "List the tags of coding traces, with how many traces bear each: to see what there is, or"
        " to find the right tag for search_traces and contribute_trace. For tags of the knowledge"
        " base use get_stats."
    ),
    input=In,
    output=Out,
    run=list_tags,
    text=in_words,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
