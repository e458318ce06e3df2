"""Read a cluster: its summary, its passages, and the clusters near it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field, TypeAdapter

from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.index.facets import Facet, Kind
from shared.index.vector_index import make_date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.copies import find_page_end, fold
from shared.knowledge.views import ClusterSummary, Passage, format_passage, to_copies, to_passage
from shared.runtime.pagination import (
    CursorMoment,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import DocumentId, Result
from shared.runtime.tool import Effect, ResourceTemplate, Tool
from shared.text.snippets import make_snippet

if TYPE_CHECKING:
    from shared.index.vector_index import DateCursor
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.cluster_repository import ClusterNeighbour, ClusterWithCentroid
    from shared.runtime.context import Context

MEMBER_LENGTH: Final = 160
"""The maximum number of characters shown of each passage. It is low, as there are many passages."""
_POSITION: Final = TypeAdapter(tuple[CursorMoment, DocumentId])
"""The shape of a cursor: the date and the id of a page's last passage."""


class In(PagedArguments):
    """A cluster, a page of its passages, and the number of related clusters."""

    cluster_id: DocumentId = Field(
        description="From list_clusters.",
        validation_alias=AliasChoices("cluster_id", "id"),
    )
    include_members: bool = Field(default=True, description="Whether to list its passages.")
    member_limit: int = Field(
        default=20,
        ge=1,
        le=50,
        description="Maximum number of passages.",
        validation_alias=AliasChoices("member_limit", "limit"),
    )
    include_related: bool = Field(
        default=True,
        description="Whether to return clusters close in meaning, on the first page.",
    )
    related_limit: int = Field(default=5, ge=1, le=20, description="Maximum number of them.")


class RelatedCluster(Result):
    """A cluster close in meaning."""

    cluster_id: str = Field(description="Its id, for get_cluster.")
    name: str = Field(description="Its name, a few words.")
    size: int = Field(description="How many passages it had when clusters were last counted.")
    similarity: float = Field(
        description="Cosine similarity of the clusters' centroids: 1 the same, 0 unrelated.",
        ge=0,
        le=1,
    )


class Out(ClusterSummary):
    """A cluster with a page of its passages."""

    related_clusters: list[RelatedCluster] = Field(
        description="Clusters close in meaning, best first."
    )
    members: list[Passage] = Field(description="Its passages, newest first.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")


async def get_cluster(args: In, ctx: Context) -> Out:
    """Read a cluster.

    Costs two round trips, or one without related clusters.

    It reads 1 + (member_limit + 1) + (related_limit + 1) documents.
    """
    # A cursor is valid for its cluster, even if the other arguments change.
    cursor_args = In(cluster_id=args.cluster_id)
    after = decode_cursor(cursor_args, args.cursor, _POSITION)
    stored, chunks = await asyncio.gather(
        Clusters(ctx.database).get(args.cluster_id), _load_members(args, after, ctx)
    )
    if stored is None:
        raise NotFound(
            f"There is no cluster {args.cluster_id}. Clusters are replaced from time to time. Find"
            " the current ones with list_clusters.",
            details={"cluster_id": args.cluster_id},
        )
    related_clusters = [
        RelatedCluster.of(neighbour.cluster, similarity=round(neighbour.similarity, 2))
        for neighbour in await _search_neighbours(stored, args, ctx)
    ]
    copies = fold(chunk for chunk in chunks[: args.member_limit] if not chunk.is_kept_out)
    listed = [chunk for chunk in chunks if chunk.id in copies]
    members = fit_page(
        [
            to_passage(
                Passage,
                chunk,
                ctx.zone,
                also_in=to_copies(copies[chunk.id]),
                snippet=make_snippet(chunk.content, MEMBER_LENGTH),
            )
            for chunk in listed
        ],
        args.max_tokens,
        other_parts=[ClusterSummary.of(stored.cluster), *related_clusters],
    )
    last = find_page_end(chunks, listed, len(members), args.member_limit)
    return Out.of(
        stored.cluster,
        members=members,
        next_cursor=encode_cursor(cursor_args, make_date_cursor(last)) if last else None,
        related_clusters=related_clusters,
    )


async def _load_members(args: In, after: DateCursor | None, ctx: Context) -> list[Chunk]:
    """Load the chunks of a page, and one more that shows whether there is a next page."""
    if not args.include_members:
        return []
    facets = [Facet(Kind.CLUSTER, args.cluster_id).id]
    return await Chunks(ctx.database).load_newest(args.member_limit + 1, facets, after=after)


async def _search_neighbours(
    stored: ClusterWithCentroid, args: In, ctx: Context
) -> list[ClusterNeighbour]:
    """Find the nearest clusters. One more is read, because the cluster finds itself."""
    if not args.include_related or args.cursor:
        return []
    neighbours = await Clusters(ctx.database).find_nearest(stored.centroid, args.related_limit + 1)
    others = [hit for hit in neighbours if hit.cluster.cluster_id != args.cluster_id]
    return others[: args.related_limit]


def format_result(out: Out) -> str:
    """Return the cluster as text."""
    lines = [
        f"{out.name} (ID: {out.cluster_id}, {_format_sizes(out)})",
        " ".join((out.description or "").split()),
        *map(_format_related, out.related_clusters),
    ]
    paragraphs = ["\n".join(filter(None, lines))]
    paragraphs += [f"- {format_passage(member, [member.snippet])}" for member in out.members]
    if out.next_cursor:
        paragraphs.append(f"There are more: call again with cursor {out.next_cursor}")
    return "\n\n".join(paragraphs)


def _format_sizes(cluster: ClusterSummary) -> str:
    kinds = [f"{name} {count}" for name, count in (cluster.kinds or {}).items()]
    return ", ".join([f"passages: {cluster.size}", *kinds])


def _format_related(cluster: RelatedCluster) -> str:
    facts = f"ID: {cluster.cluster_id}, passages: {cluster.size}, similarity: {cluster.similarity}"
    return f"Related: {cluster.name} ({facts})"


TOOL = Tool(
    name="get_cluster",
    title="Get a cluster",
    description=(
        "Read a cluster: its passages, newest first, and the clusters near it. To search within"
        " it use search_kb with the filter cluster_id."
    ),
    input=In,
    output=Out,
    run=get_cluster,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    resource=ResourceTemplate(
        uri="carrel://cluster/{cluster_id}",
        name="cluster",
        title="Cluster",
        description="A cluster with its latest passages and the clusters near it.",
    ),
)
