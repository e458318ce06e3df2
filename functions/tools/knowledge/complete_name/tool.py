"""Complete a name from its beginning."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints

from shared.core.caller import Tier
from shared.index.facets import Facet, Kind, named_facet
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex
from shared.knowledge.common_names import MAX_NAMES, CommonNames
from shared.knowledge.source_repository import Sources
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

WITH_IDS: Final = (Kind.SOURCE, Kind.CLUSTER)
"""The kinds of names that have an id."""


class In(Arguments):
    """The beginning of a name."""

    kind: Literal["tag", "author", "category", "source", "cluster"] = Field(
        description="The kind of name."
    )
    prefix: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="", description="How the name, a word in it, or the id begins, in any case."
    )
    limit: int = Field(default=100, ge=1, le=100, description="Maximum number of names.")


class CompletedName(Result):
    """A name that exists."""

    name: str = Field(description="The name.")
    id: str | None = Field(description="The id of a source or cluster.")
    count: int = Field(description="How many passages have it.")


class Out(Result):
    """Names with the given beginning."""

    names: list[CompletedName] = Field(description="The names, those of most passages first.")
    total: int = Field(description="How many names there are, at least.")


async def complete_name(args: In, ctx: Context) -> Out:
    """Complete a name.

    Costs one round trip and at most 300 documents, or none within a minute of the previous call.

    If there are more than 300 names, it costs two more round trips and at most 2 x (limit + 1)
    more documents.
    """
    common = await CommonNames(ctx.database).load(Kind(args.kind))
    matching = [value for value in common if _begins_with(value, args.prefix)]
    if len(common) >= MAX_NAMES and args.prefix.strip():
        matching += await _load_rare_names(args, ctx)
    by_facet = {value.facet: value for value in matching}
    ordered = sorted(by_facet.values(), key=lambda value: (-value.count, value.name))
    return Out(names=[_to_result(value) for value in ordered[: args.limit]], total=len(ordered))


def _begins_with(value: FacetValue, prefix: str) -> bool:
    """Return whether a name, a word in it, or a source's or cluster's id begins with a prefix."""
    kind, name = value.facet.kind, named_facet(value.facet.kind, value.name).key
    pattern = rf"(?<!\w){re.escape(named_facet(kind, prefix).key)}"
    return bool(re.search(pattern, name)) or (
        kind in WITH_IDS and value.facet.key.startswith(prefix.strip())
    )


async def _load_rare_names(args: In, ctx: Context) -> list[FacetValue]:
    """Load names with the prefix that are too rare for the cache. Clusters are all cached.

    Loads one name of each sort more than is returned, so that the total shows whether there are
    more.
    """
    limit = args.limit + 1
    index = InvertedIndex(ctx.database, KNOWLEDGE)
    match args.kind:
        case "cluster":
            return []
        case "source":
            by_title, by_id = await asyncio.gather(
                Sources(ctx.database).titled(args.prefix, limit),
                index.list_by_prefix(Kind.SOURCE, args.prefix.strip(), limit),
            )
            return [*map(_to_source_name, by_title), *by_id]
        case kind:
            key = named_facet(Kind(kind), args.prefix).key
            return await index.list_by_prefix(Kind(kind), key, limit)


def _to_source_name(source: StoredSource) -> FacetValue:
    return FacetValue(Facet(Kind.SOURCE, source.source_id), source.title, source.chunk_count)


def _to_result(value: FacetValue) -> CompletedName:
    key = value.facet.key if value.facet.kind in WITH_IDS else None
    return CompletedName(name=value.name, id=key, count=value.count)


TOOL = Tool(
    name="complete_name",
    title="Complete a name",
    description=(
        "Complete the name of a tag, author, category, source or cluster. The gateway uses it to"
        " answer the protocol's completion requests; models do not call it."
    ),
    input=In,
    output=Out,
    run=complete_name,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    internal=True,
    completes=("tag", "author", "category", "source", "cluster"),
)
