"""List the topics of the knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field, TypeAdapter

from shared.core.caller import Tier
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.views import ClusterSummary
from shared.runtime.pagination import (
    CursorCount,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Links, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context

EMPTY: Final = "There are no topics yet: a job makes them of the passages that are there."
_PLACE: Final = TypeAdapter(tuple[CursorCount, DocumentId])
"""Size and id of the last topic that was shown."""


class In(Arguments):
    """How many topics, and from where on."""

    limit: int = Field(default=20, ge=1, le=50, description="How many topics at most.")
    cursor: CursorText | None = Field(default=None, description="next_cursor of the page before.")


class Out(Result):
    """A page of topics."""

    clusters: list[ClusterSummary] = Field(description="The topics, those of most passages first.")
    next_cursor: str | None = Field(description="Where the list goes on; missing at its end.")
    message: str | None = Field(description="What to know when none is listed.")


async def list_clusters(args: In, ctx: Context) -> Out:
    """List clusters: one round trip, limit + 1 documents."""
    after = decode_cursor(args, args.cursor, _PLACE)
    found = await Clusters(ctx.database).largest(args.limit + 1, after)
    clusters = fit_page([ClusterSummary.of(cluster) for cluster in found[: args.limit]])
    end = found[len(clusters) - 1] if len(clusters) < len(found) else None
    return Out(
        clusters=clusters,
        next_cursor=encode_cursor(args, [end.size, end.cluster_id]) if end else None,
        message=None if found or args.cursor else EMPTY,
    )


TOOL = Tool(
    name="list_clusters",
    title="List topics",
    description=(
        "List the topics that the passages of the knowledge base fall into, the largest first, each"
        " with its keywords. Use it for an overview of what the owner reads about. To open a topic"
        " use get_cluster with its cluster_id; for passages about a subject of your own, or"
        " within a topic, use search_kb."
    ),
    input=In,
    output=Out,
    run=list_clusters,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    links=Links(items="clusters", uri="carrel://cluster/{cluster_id}", name="name", listed=True),
)
