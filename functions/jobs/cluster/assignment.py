"""Assigning new passages to the nearest cluster, between two runs that cluster again."""

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
    """Assign the pending passages to the present clusters, page by page.

    Args:
        clustering: The present clustering; None if there is none to compare passages with. They
            then stay where they are.
        ctx: The context of the run.
        budget: The time of the run.
        report: Counts the passages that were `placed`.
    """
    clusters = await Clusters(ctx.database).every() if clustering else []
    while page := await Clusterings(ctx.database).pending(PAGE):
        if budget.spent:
            report.finished = False
            return
        assignments = _assignments(page, clustering, clusters)
        report.counts["placed"] += await Clusterings(ctx.database).assign(
            assignments, ctx.clock(), since=clustering is not None
        )
        budget.progress(len(page))


def _assignments(
    page: Sequence[AssignedChunk],
    clustering: Clustering | None,
    clusters: Sequence[ClusterWithCentroid],
) -> list[ClusterAssignment]:
    """The assignments of a page; passages embedded with another model stay where they are."""
    if clustering is None:
        return [ClusterAssignment(chunk, chunk.cluster_ids) for chunk in page]
    present = [entry for entry in clusters if entry.cluster.run_id == clustering.run_id]
    comparable = [chunk for chunk in page if chunk.model == clustering.model]
    nearest = _nearest(np.array([chunk.vector for chunk in comparable], np.float32), present)
    cluster_ids = {chunk.chunk_id: ids for chunk, ids in zip(comparable, nearest, strict=True)}
    return [
        ClusterAssignment(chunk, cluster_ids.get(chunk.chunk_id, chunk.cluster_ids))
        for chunk in page
    ]


def _nearest(
    vectors: NDArray[np.float32], clusters: Sequence[ClusterWithCentroid]
) -> list[tuple[str, ...]]:
    """The nearest cluster of each vector, if that is near enough."""
    centroids = np.array([entry.centroid for entry in clusters], np.float32)
    reaches = np.array([entry.reach for entry in clusters])
    rows = nearest_clusters(vectors, centroids, reaches)
    return [(clusters[row].cluster.cluster_id,) if row >= 0 else () for row in rows]
