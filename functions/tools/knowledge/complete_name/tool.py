"""Complete a name that somebody began to type."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, StringConstraints

from shared.core.caller import Tier
from shared.index.facets import Facet, Kind, named_facet
from shared.index.postings import KNOWLEDGE, FacetValue, InvertedIndex
from shared.knowledge.common_names import MOST, CommonNames
from shared.knowledge.source_repository import Sources
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.knowledge.source_repository import StoredSource
    from shared.runtime.context import Context

WITH_IDS: Final = (Kind.SOURCE, Kind.CLUSTER)


class In(Arguments):
    """What was typed, and what it is to become."""

    kind: Literal["tag", "author", "category", "source", "cluster"] = Field(
        description="What the name is of."
    )
    prefix: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="", description="How the name, a word in it, or the id begins, in any case."
    )
    limit: int = Field(default=100, ge=1, le=100, description="How many names at most.")


class Name(Result):
    """A name that exists."""

    name: str = Field(description="How it is written.")
    id: str | None = Field(description="The id of a source or cluster.")
    count: int = Field(description="How many passages bear it.")


class Out(Result):
    """Names that go on as was typed."""

    names: list[Name] = Field(description="Those of most passages first.")
    total: int = Field(description="How many were found, at least.")


async def complete_name(args: In, ctx: Context) -> Out:
    """Complete a name: one round trip and at most 300 documents, none within a minute of the last.

    Where there are more names than these, two round trips and at most 2 x (limit + 1) documents.
    """
    common = await CommonNames(ctx.database).of(Kind(args.kind))
    found = [each for each in common if _begins(each, args.prefix)]
    if len(common) >= MOST and args.prefix.strip():
        found += await _rare(args, ctx)
    names = {each.facet: each for each in found}
    ordered = sorted(names.values(), key=lambda each: (-each.count, each.name))
    return Out(names=[_name(each) for each in ordered[: args.limit]], total=len(ordered))


def _begins(each: FacetValue, prefix: str) -> bool:
    """Whether a name, a word in it, or the id of a source or cluster begins so."""
    kind, name = each.facet.kind, named_facet(each.facet.kind, each.name).key
    begun = rf"(?<!\w){re.escape(named_facet(kind, prefix).key)}"
    return bool(re.search(begun, name)) or (
        kind in WITH_IDS and each.facet.key.startswith(prefix.strip())
    )


async def _rare(args: In, ctx: Context) -> list[FacetValue]:
    """Names that begin so, however few passages bear them. Of clusters, all are common.

    One more than are shown of each sort, so that the total tells whether there are more.
    """
    most = args.limit + 1
    match args.kind:
        case "cluster":
            return []
        case "source":
            titled, by_id = await asyncio.gather(
                Sources(ctx.database).titled(args.prefix, most),
                InvertedIndex(ctx.database, KNOWLEDGE).names_from(
                    Kind.SOURCE, args.prefix.strip(), most
                ),
            )
            return [*map(_source_name, titled), *by_id]
        case kind:
            key = named_facet(Kind(kind), args.prefix).key
            return await InvertedIndex(ctx.database, KNOWLEDGE).names_from(Kind(kind), key, most)


def _source_name(source: StoredSource) -> FacetValue:
    return FacetValue(Facet(Kind.SOURCE, source.source_id), source.title, source.chunk_count)


def _name(each: FacetValue) -> Name:
    key = each.facet.key if each.facet.kind in WITH_IDS else None
    return Name(name=each.name, id=key, count=each.count)


TOOL = Tool(
    name="complete_name",
    title="Complete a name",
    description=(
        "Complete the name of a tag, author, category, source or topic that somebody began to"
        " type: the gateway answers the protocol's completion requests by it. No model calls it."
    ),
    input=In,
    output=Out,
    run=complete_name,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    internal=True,
    completes=("tag", "author", "category", "source", "cluster"),
)
