"""Complete a name from its beginning."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints

from shared.core.caller import Tier
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex
from shared.knowledge.common_names import MAX_NAMES, CommonNames, drop_kept_out
from shared.knowledge.source_repository import Sources
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

KINDS_WITH_IDS: Final = (Kind.SOURCE, Kind.CLUSTER)
"""The kinds whose names belong to something that has an id."""


class In(Arguments):
    """The beginning of a name."""

    kind: Literal["tag", "author", "category", "source", "cluster"] = Field(
        description="The kind of name."
    )
    prefix: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="",
        description="The beginning of the name, of a word in it, or of the id. Names match in any"
        " case.",
    )
    limit: int = Field(default=100, ge=1, le=100, description="Maximum number of names.")


class CompletedName(Result):
    """A name, and how often it is used."""

    name: str = Field(description="The name.")
    id: str | None = Field(description="The id of the source or cluster; missing for other kinds.")
    count: int = Field(description="Number of passages with this name.")


class Out(Result):
    """Names with the given beginning."""

    names: list[CompletedName] = Field(description="The names, those with the most passages first.")
    total: int = Field(description="Number of names found; there may be more.")


async def complete_name(args: In, ctx: Context) -> Out:
    """Complete a name.

    Costs one round trip and at most 300 documents, or none if the names of this kind were read
    within the last minute.

    If there are 300 names or more, a call with a prefix costs another round trip, and up to
    2 x (limit + 1) more documents. Names that are not among the 300 most common ones are found only
    by their own beginning, not by that of a later word.

    Names of sources cost another round trip, and a document for each, to leave out what is kept
    out.
    """
    common = await CommonNames(ctx.database).load(Kind(args.kind))
    matching = [value for value in common if _begins_with(value, args.prefix)]
    if len(common) >= MAX_NAMES and args.prefix.strip():
        matching += await _load_rare_names(args, ctx)
    by_facet = {value.facet: value for value in matching}
    ordered = sorted(by_facet.values(), key=lambda value: (-value.count, value.name))
    if args.kind == "source":
        ordered = await drop_kept_out(ordered, ctx.database)
    return Out(names=[_to_result(value) for value in ordered[: args.limit]], total=len(ordered))


def _begins_with(value: FacetValue, prefix: str) -> bool:
    """Return whether a name, a word in it, or a source's or cluster's id begins with a prefix."""
    kind = value.facet.kind
    # The key of a facet normalizes its name: case, character width and white space.
    name = make_named_facet(kind, value.name).key
    pattern = rf"(?<!\w){re.escape(make_named_facet(kind, prefix).key)}"
    return bool(re.search(pattern, name)) or (
        kind in KINDS_WITH_IDS and value.facet.key.startswith(prefix.strip())
    )


async def _load_rare_names(args: In, ctx: Context) -> list[FacetValue]:
    """Load names that begin with the prefix and are too rare for the cache.

    Each query loads one name more than is returned, so that the total shows whether there are more.
    Clusters are searched in the cache only.
    """
    limit = args.limit + 1
    index = InvertedIndex(ctx.database, KNOWLEDGE)
    match args.kind:
        case "cluster":
            return []
        case "source":
            by_title, by_id = await asyncio.gather(
                Sources(ctx.database).list_by_title_prefix(args.prefix, limit),
                index.list_by_prefix(Kind.SOURCE, args.prefix.strip(), limit),
            )
            return [*map(_to_source_name, by_title), *by_id]
        case kind:
            key = make_named_facet(Kind(kind), args.prefix).key
            return await index.list_by_prefix(Kind(kind), key, limit)


def _to_source_name(source: StoredSource) -> FacetValue:
    return FacetValue(Facet(Kind.SOURCE, source.source_id), source.title, source.chunk_count)


def _to_result(value: FacetValue) -> CompletedName:
    key = value.facet.key if value.facet.kind in KINDS_WITH_IDS else None
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
