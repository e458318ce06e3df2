"""List the tags of traces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints, TypeAdapter

from shared.core.caller import Tier
from shared.index.facets import Kind
from shared.index.postings import TRACES, InvertedIndex
from shared.runtime.pagination import PagedArguments, decode_cursor, encode_cursor, fit_page
from shared.runtime.schemas import Result
from shared.runtime.tool import Effect, Tool
from shared.traces.tags import MAX_TAG_LENGTH, normalize_tag

if TYPE_CHECKING:
    from shared.runtime.context import Context

_CURSOR: Final = TypeAdapter(tuple[Annotated[str, StringConstraints(max_length=MAX_TAG_LENGTH)]])
"""The cursor contains the previous page's last tag."""


class In(PagedArguments):
    """Which tags to list."""

    prefix: str = Field(
        default="",
        max_length=MAX_TAG_LENGTH,
        description="How the tags begin.",
    )
    limit: int = Field(default=100, ge=1, le=300, description="Maximum number of tags.")


class TagCount(Result):
    """A tag, and how often it is used."""

    name: str = Field(description="The tag, for search_traces.")
    count: int = Field(description="How many traces have it.")


class Out(Result):
    """A page of tags, in alphabetical order."""

    tags: dict[str, int] = Field(description="How many traces have each tag.")
    total: int = Field(description="How many tags there are in all, whatever the prefix.")
    next_cursor: str | None = Field(description="For the next page; missing on the last one.")


async def list_tags(args: In, ctx: Context) -> Out:
    """Read a page of tags, and count all tags. Costs one round trip."""
    position = decode_cursor(args, args.cursor, _CURSOR)
    prefix = normalize_tag(args.prefix)
    index = InvertedIndex(ctx.database, TRACES)
    tags, total = await asyncio.gather(
        index.list_by_prefix(Kind.TAG, prefix, args.limit + 1, *(position or ())),
        index.count_values(Kind.TAG),
    )
    counts = [TagCount(name=tag.name, count=tag.count) for tag in tags[: args.limit]]
    page = fit_page(counts, args.max_tokens)
    has_more = len(page) < len(tags)
    return Out(
        tags={tag.name: tag.count for tag in page},
        total=total,
        next_cursor=encode_cursor(args, [tags[len(page) - 1].facet.key]) if has_more else None,
    )


def format_result(out: Out) -> str:
    """Return the tags on one line."""
    if not out.total:
        return "Available tags (0 total): no trace has any yet."
    if not out.tags:
        total = f"Available tags ({out.total} total): leave prefix out to list them."
        return f"No tag begins like this. {total}"
    tags = ", ".join(f"{name} ({count})" for name, count in out.tags.items())
    continuation = f"\n(more with cursor {out.next_cursor})" if out.next_cursor else ""
    return f"Available tags ({out.total} total):\n{tags}{continuation}"


TOOL = Tool(
    name="list_tags",
    title="List the tags of solved problems",
    description=(
        "List the tags of coding traces with their numbers, to choose tags for search_traces or"
        " contribute_trace. For tags of the knowledge base use get_stats."
    ),
    input=In,
    output=Out,
    run=list_tags,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
