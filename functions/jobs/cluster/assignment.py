"""Between two runs that make topics: new passages find the topic that they are near enough to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shared.clustering.clusters import nearest_clusters
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import PAGE, ClusterAssignment, Clusterings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shared.knowledge.cluster_repository import ClusterWithCentroid
    from shared.knowledge.clustering_repository import AssignedChunk, Clustering
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def assign_pending(
    clustering: Clustering | None, ctx: Context, budget: Budget, report: Report
) -> None:
    """Put the passages that wait for it among the present topics, page by page.

    Args:
        clustering: How these came about; None: there are none that passages can be put among, and
            they stay where they are.
        ctx: What the run may use.
        budget: How long it may take.
        report: Counts those that were `placed`.
    """
    clusters = await Clusters(ctx.database).every() if clustering else []
    while page := await Clusterings(ctx.database).waiting(PAGE):
        if budget.spent:
            report.finished = False
            return
        moves = _moves(page, clustering, clusters)
        report.counts["placed"] += await Clusterings(ctx.database).move(
            moves, ctx.clock(), since=clustering is not None
        )
        budget.progress(len(page))


def _moves(
    page: Sequence[AssignedChunk],
    clustering: Clustering | None,
    clusters: Sequence[ClusterWithCentroid],
) -> list[ClusterAssignment]:
    """Where the passages of a page are to be; those of another model stay where they are."""
    if clustering is None:
        return [ClusterAssignment(chunk, chunk.cluster_ids) for chunk in page]
    present = [each for each in clusters if each.cluster.run_id == clustering.run_id]
    comparable = [chunk for chunk in page if chunk.model == clustering.model]
    nearest = _nearest(np.array([chunk.vector for chunk in comparable], np.float32), present)
    topics = {chunk.chunk_id: topic for chunk, topic in zip(comparable, nearest, strict=True)}
    return [
        ClusterAssignment(chunk, topics.get(chunk.chunk_id, chunk.cluster_ids)) for chunk in page
    ]


def _nearest(
    vectors: NDArray[np.float32], topics: Sequence[ClusterWithCentroid]
) -> list[tuple[str, ...]]:
    """The topic that each vector is near enough to, if it is to one."""
    centroids = np.array([each.centroid for each in topics], np.float32)
    numbers = nearest_clusters(vectors, centroids, np.array([each.reach for each in topics]))
    return [(topics[number].cluster.cluster_id,) if number >= 0 else () for number in numbers]
