"""Get the map of the knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.core.installation import carrel
from shared.knowledge.map_repository import Maps, unpack_points
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.knowledge.map_repository import KnowledgeMap
    from shared.runtime.context import Context


def explain_no_points() -> str:
    """Say how an empty map is filled."""
    return (
        "The map is empty: its passages were deleted, or there were no clusters to draw. Add more"
        f" with `{carrel('ingest PATH')}`; the job `cluster` then draws it again."
    )


def explain_no_map() -> str:
    """Say when a map is drawn."""
    return (
        "There is no map yet. The job `cluster` draws one when there are clusters, which takes at"
        f" least 20 passages. It runs every hour, and with `{carrel('ingest PATH')}` and"
        f" `{carrel('jobs run cluster')}`."
    )


class In(Arguments):
    """How much of the map to get."""

    limit: int = Field(
        default=20_000,
        ge=1,
        le=50_000,
        description="Maximum number of points. Of a larger map, they are a random sample.",
    )


class MappedCluster(Result):
    """A cluster on the map."""

    cluster_id: str = Field(description="Its id, for get_cluster.")
    name: str = Field(description="Its name.")
    size: int = Field(description="The number of its passages.")
    x: int = Field(description="The horizontal coordinate of its centre, 0 to 10,000.")
    y: int = Field(description="The vertical coordinate of its centre, 0 to 10,000.")


class Out(Result):
    """The map: clusters, and a point for each passage. Lists of points have one order."""

    clusters: list[MappedCluster] = Field(description="The clusters.")
    chunk_ids: list[str] = Field(description="The passages.")
    x: list[int] = Field(description="Their horizontal coordinates, 0 to 10,000.")
    y: list[int] = Field(description="Their vertical coordinates, in the same scale.")
    cluster: list[int] = Field(description="The index of each one's cluster in clusters, or -1.")
    total: int = Field(
        description="Points of the whole map; estimated from the sample if it is larger."
    )
    made_at: str | None = Field(description="When the map was drawn, in UTC.")
    message: str | None = Field(description="Why the map is empty, and what to do next.")


async def get_map(args: In, ctx: Context) -> Out:
    """Get the map.

    Costs two round trips, and reads one document, and another for each thousand points.
    """
    loaded = await Maps(ctx.database).load_sample(args.limit)
    if loaded is None:
        return Out(
            clusters=[],
            chunk_ids=[],
            x=[],
            y=[],
            cluster=[],
            total=0,
            made_at=None,
            message=explain_no_map(),
        )
    drawn, sample = loaded
    indexes = _index_clusters(drawn)
    x, y, numbers = unpack_points(sample.points.values())
    return Out(
        clusters=[
            MappedCluster(
                cluster_id=cluster.cluster_id,
                name=cluster.name,
                size=cluster.size,
                x=round(cluster.x),
                y=round(cluster.y),
            )
            for cluster in drawn.clusters
            if cluster.size
        ],
        chunk_ids=list(sample.points),
        x=x,
        y=y,
        cluster=[indexes.get(number, -1) for number in numbers],
        total=sample.total,
        made_at=drawn.made_at.isoformat(),
        message=None if sample.points else explain_no_points(),
    )


def _index_clusters(drawn: KnowledgeMap) -> dict[int, int]:
    """Return the index in the result of each cluster, by its number on the map.

    Clusters without passages are not in the result.
    """
    numbers = [number for number, cluster in enumerate(drawn.clusters) if cluster.size]
    return {number: index for index, number in enumerate(numbers)}


TOOL = Tool(
    name="get_map",
    title="Get the map",
    description=(
        "Get a map of the knowledge base: a point for each passage, and the clusters. The console"
        " and the app of list_clusters draw it; models do not call it."
    ),
    input=In,
    output=Out,
    run=get_map,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    app="map",
    internal=True,
)
