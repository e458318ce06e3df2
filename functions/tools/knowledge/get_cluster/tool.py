"""Read one topic: what it is about, its passages, and the topics near it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field, TypeAdapter

from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.index.facets import Facet, Kind
from shared.index.vector_index import date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.views import ClusterSummary, Passage, passage
from shared.runtime.pagination import (
    CursorMoment,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId
from shared.runtime.tool import Effect, Links, ResourceTemplate, Tool

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.cluster_repository import ClusterWithCentroid, RelatedCluster
    from shared.runtime.context import Context

_PLACE: Final = TypeAdapter(tuple[CursorMoment, DocumentId])
"""The date and the id of the last passage that was shown."""


class In(Arguments):
    """Which topic, and how much of it."""

    cluster_id: DocumentId = Field(
        description="The topic's id, as list_clusters and search_kb return it.",
        validation_alias=AliasChoices("cluster_id", "id"),
    )
    include_members: bool = Field(default=True, description="Whether to list its passages.")
    member_limit: int = Field(
        default=20,
        ge=1,
        le=50,
        description="How many passages at most.",
        validation_alias=AliasChoices("member_limit", "limit"),
    )
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, for more of its passages."
    )
    include_related: bool = Field(
        default=True,
        description="Whether to look for topics close in meaning. They come with the first page.",
    )
    related_limit: int = Field(
        default=5, ge=1, le=20, description="How many related topics at most."
    )


class Related(ClusterSummary):
    """A topic close in meaning."""

    similarity: float = Field(
        description="Cosine similarity of the topics' centres: 1 the same, 0 unrelated.", ge=0, le=1
    )


class Out(ClusterSummary):
    """A topic with a page of its passages."""

    members: list[Passage] = Field(description="Its passages, those of the latest date first.")
    next_cursor: str | None = Field(description="Where the passages go on; missing at their end.")
    related_clusters: list[Related] = Field(description="Topics close in meaning, best first.")


async def get_cluster(args: In, ctx: Context) -> Out:
    """Read a cluster: two round trips, one without related clusters.

    It reads 1 + (member_limit + 1) + (related_limit + 1) documents.
    """
    walk = In(cluster_id=args.cluster_id)  # what a cursor belongs to, whatever else is asked for
    after = decode_cursor(walk, args.cursor, _PLACE)
    stored, chunks = await asyncio.gather(
        Clusters(ctx.database).get(args.cluster_id), _members(args, after, ctx)
    )
    if stored is None:
        raise NotFound(
            f"There is no cluster {args.cluster_id}. Clusters are made anew from time to time: find"
            " the present ones with list_clusters.",
            details={"cluster_id": args.cluster_id},
        )
    members = fit_page([passage(Passage, chunk) for chunk in chunks[: args.member_limit]])
    more = len(members) < len(chunks)
    return Out.of(
        stored.cluster,
        members=members,
        next_cursor=encode_cursor(walk, date_cursor(chunks[len(members) - 1])) if more else None,
        related_clusters=[_related(each) for each in await _neighbours(stored, args, ctx)],
    )


async def _members(args: In, after: tuple[int, str] | None, ctx: Context) -> list[Chunk]:
    """The passages of a page, and one more if there is one."""
    if not args.include_members:
        return []
    facets = [Facet(Kind.CLUSTER, args.cluster_id).id]
    return await Chunks(ctx.database).newest(args.member_limit + 1, facets, after=after)


async def _neighbours(stored: ClusterWithCentroid, args: In, ctx: Context) -> list[RelatedCluster]:
    """Neighbours of the cluster, without itself, which is asked for since it comes first."""
    if not args.include_related or args.cursor:
        return []
    found = await Clusters(ctx.database).nearest(stored.centroid, args.related_limit + 1)
    others = [each for each in found if each.cluster.cluster_id != args.cluster_id]
    return others[: args.related_limit]


def _related(neighbour: RelatedCluster) -> Related:
    return Related.of(neighbour.cluster, similarity=round(neighbour.similarity, 4))


TOOL = Tool(
    name="get_cluster",
    title="Get a topic",
    description=(
        "Read one topic of the knowledge base: what it is about, its keywords, its passages, latest"
        " first, and the topics close to it. Use it to explore what the owner has read on a topic,"
        " and to walk from one topic to the next. It needs a cluster_id, from list_clusters or"
        " from a hit of search_kb. To search within a topic, use search_kb with the filter"
        " cluster_id."
    ),
    input=In,
    output=Out,
    run=get_cluster,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    resource=ResourceTemplate(
        uri="carrel://cluster/{cluster_id}",
        name="cluster",
        title="Topic",
        description="A topic with its latest passages and the topics close to it.",
    ),
    links=Links(items="members", uri="carrel://chunk/{chunk_id}", name="title"),
)
