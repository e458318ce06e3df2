"""List the clusters of the knowledge base."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field, TypeAdapter

from shared.core.caller import Tier
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.views import ClusterSummary
from shared.runtime.pagination import (
    CursorCount,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import DocumentId, Result
from shared.runtime.tool import Effect, ResourceListing, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context

EMPTY_MESSAGE: Final = "There are no clusters yet: they come with more passages."
_POSITION: Final = TypeAdapter(tuple[CursorCount, DocumentId])
"""The shape of a cursor: the size and the id of a page's last cluster."""


class In(PagedArguments):
    """A page of clusters."""

    limit: int = Field(default=20, ge=1, le=50, description="Maximum number of clusters.")


class Out(Result):
    """A page of clusters."""

    total: int | None = Field(description="How many there are; on the first page only.")
    unclustered: int | None = Field(description="How many passages are in none; first page only.")
    clusters: list[ClusterSummary] = Field(description="The clusters, largest first.")
    next_cursor: str | None = Field(description="For the next page; missing on the last.")
    message: str | None = Field(description="Why the list is empty, and what to do next.")


async def list_clusters(args: In, ctx: Context) -> Out:
    """List clusters.

    Costs one round trip, which reads limit + 2 documents. The first page also costs a count.
    """
    after = decode_cursor(args, args.cursor, _POSITION)
    stored, total, clustering = await asyncio.gather(
        Clusters(ctx.database).list_largest(args.limit + 1, after),
        _count(args, ctx),
        Clusterings(ctx.database).load(),
    )
    page = fit_page(
        [ClusterSummary.of(cluster) for cluster in stored[: args.limit]], args.max_tokens
    )
    last = stored[len(page) - 1] if len(page) < len(stored) else None
    return Out(
        total=total,
        unclustered=clustering.unclustered if clustering and not args.cursor else None,
        clusters=page,
        next_cursor=encode_cursor(args, [last.size, last.cluster_id]) if last else None,
        message=None if stored or args.cursor else EMPTY_MESSAGE,
    )


async def _count(args: In, ctx: Context) -> int | None:
    return None if args.cursor else await Clusters(ctx.database).count()


TOOL = Tool(
    name="list_clusters",
    title="List clusters",
    description=(
        "List the themes of the knowledge base: clusters of passages, largest first. Open one"
        " with get_cluster."
    ),
    input=In,
    output=Out,
    run=list_clusters,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    listing=ResourceListing(
        items_field="clusters",
        uri_template="carrel://cluster/{cluster_id}",
        name_field="name",
    ),
    app="map",
)
