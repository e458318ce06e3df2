"""Assigns new chunks to the nearest cluster, between two runs that cluster all chunks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from functions.jobs.cluster.drawing import MapPlacement
from functions.jobs.cluster.planning import to_matrix
from shared.clustering.clusters import find_nearest_clusters
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import PAGE_SIZE, ClusterAssignment, Clusterings
from shared.knowledge.map_repository import Maps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shared.knowledge.cluster_repository import ClusterWithCentroid
    from shared.knowledge.clustering_repository import AssignedChunk, Clustering
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def assign_pending(
    clustering: Clustering | None, dimension: int, ctx: Context, budget: Budget, report: Report
) -> bool:
    """Assign the pending chunks to the current clusters, page by page.

    Args:
        clustering: The current clustering, or None if the chunks cannot be compared with its
            clusters. They then stay in the clusters that they are in.
        report: Counts the assigned chunks as `placed`.

    Returns:
        Whether the map had room for all assigned chunks.
    """
    clusters = await Clusters(ctx.database).load_all() if clustering else []
    placement = await _load_placement(clustering, clusters, ctx)
    has_room = True
    capacity = placement.current_map.remaining_capacity if placement else 0
    while page := await Clusterings(ctx.database).load_pending(PAGE_SIZE, dimension):
        if budget.spent:
            report.finished = False
            return has_room
        if placement and capacity < len(page):
            has_room, placement = False, None
            await Clusterings(ctx.database).set_mapped(is_mapped=False)
        assignments = _assign_page(page, clustering, clusters, placement)
        report.counts["placed"] += await Clusterings(ctx.database).assign(
            assignments,
            ctx.clock(),
            count_as_changed=clustering is not None,
            current_map=placement.current_map if placement else None,
        )
        capacity -= len(page)
        budget.progress(len(page))
    return has_room


async def _load_placement(
    clustering: Clustering | None, clusters: Sequence[ClusterWithCentroid], ctx: Context
) -> MapPlacement | None:
    """Load what places chunks on the map. Return None if no map shows the clustering."""
    if clustering is None or not clustering.mapped:
        return None
    current_map = await Maps(ctx.database).load()
    return MapPlacement(current_map, clusters) if current_map else None


def _assign_page(
    page: Sequence[AssignedChunk],
    clustering: Clustering | None,
    clusters: Sequence[ClusterWithCentroid],
    placement: MapPlacement | None,
) -> list[ClusterAssignment]:
    """Return the assignments of a page.

    Chunks that were embedded with another model keep their clusters and their points on the map.
    """
    if clustering is None:
        return [ClusterAssignment(chunk, chunk.cluster_ids) for chunk in page]
    current_clusters = [entry for entry in clusters if entry.cluster.run_id == clustering.run_id]
    comparable_chunks = [
        chunk for chunk in page if chunk.vector and chunk.model == clustering.model
    ]
    if not comparable_chunks:
        return [ClusterAssignment(chunk, chunk.cluster_ids) for chunk in page]
    vectors = to_matrix([chunk.vector for chunk in comparable_chunks], clustering.model)
    nearest_ids = _find_cluster_ids(vectors, current_clusters)
    points = placement.place(vectors, nearest_ids) if placement else [None] * len(vectors)
    assignments = {
        chunk.chunk_id: ClusterAssignment(chunk, ids, point)
        for chunk, ids, point in zip(comparable_chunks, nearest_ids, points, strict=True)
    }
    return [
        assignments.get(chunk.chunk_id, ClusterAssignment(chunk, chunk.cluster_ids))
        for chunk in page
    ]


def _find_cluster_ids(
    vectors: NDArray[np.float32], clusters: Sequence[ClusterWithCentroid]
) -> list[tuple[str, ...]]:
    """Return the id of the cluster nearest to each vector, or no id if none is near enough."""
    centroids = np.array([entry.centroid for entry in clusters], np.float32)
    min_similarities = np.array([entry.min_similarity for entry in clusters])
    rows = find_nearest_clusters(vectors, centroids, min_similarities)
    return [(clusters[row].cluster.cluster_id,) if row >= 0 else () for row in rows]
