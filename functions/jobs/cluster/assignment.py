"""Assign new chunks to the nearest cluster, between two runs that cluster all chunks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from functions.jobs.cluster.drawing import MapPlacement
from functions.jobs.cluster.planning import to_matrix
from shared.clustering.clusters import nearest_clusters
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
        clustering: The current clustering, or None if there is none to compare the chunks with.
            The chunks then stay in their clusters.
        dimension: The length of the vectors to compare.
        ctx: The context of the run.
        budget: The time of the run.
        report: Counts the chunks that were `placed`.

    Returns:
        Whether the map had room for all of them.
    """
    clusters = await Clusters(ctx.database).load_all() if clustering else []
    placement = await _load_placement(clustering, clusters, ctx)
    has_room, room = True, placement.drawn.remaining_capacity if placement else 0
    while page := await Clusterings(ctx.database).pending(PAGE_SIZE, dimension):
        if budget.spent:
            report.finished = False
            return has_room
        if placement and room < len(page):
            has_room, placement = False, None
            await Clusterings(ctx.database).set_mapped(is_mapped=False)
        assignments = _assign_page(page, clustering, clusters, placement)
        report.counts["placed"] += await Clusterings(ctx.database).assign(
            assignments,
            ctx.clock(),
            since=clustering is not None,
            drawn=placement.drawn if placement else None,
        )
        room -= len(page)
        budget.progress(len(page))
    return has_room


async def _load_placement(
    clustering: Clustering | None, clusters: Sequence[ClusterWithCentroid], ctx: Context
) -> MapPlacement | None:
    """Return the placement on the map; None if no map shows the clustering."""
    if clustering is None or not clustering.mapped:
        return None
    drawn = await Maps(ctx.database).load()
    return MapPlacement(drawn, clusters) if drawn else None


def _assign_page(
    page: Sequence[AssignedChunk],
    clustering: Clustering | None,
    clusters: Sequence[ClusterWithCentroid],
    placement: MapPlacement | None,
) -> list[ClusterAssignment]:
    """Return the assignments of a page.

    Chunks that were embedded with another model stay in their clusters, and where they are on the
    map.
    """
    if clustering is None:
        return [ClusterAssignment(chunk, chunk.cluster_ids) for chunk in page]
    current_clusters = [entry for entry in clusters if entry.cluster.run_id == clustering.run_id]
    comparable_chunks = [
        chunk for chunk in page if chunk.vector and chunk.model == clustering.model
    ]
    if not comparable_chunks:
        return [ClusterAssignment(chunk, chunk.cluster_ids) for chunk in page]
    vectors = to_matrix(comparable_chunks)
    nearest_ids = _find_nearest(vectors, current_clusters)
    points = placement.place(vectors, nearest_ids) if placement else [None] * len(vectors)
    assignments = {
        chunk.chunk_id: ClusterAssignment(chunk, ids, point)
        for chunk, ids, point in zip(comparable_chunks, nearest_ids, points, strict=True)
    }
    return [
        assignments.get(chunk.chunk_id, ClusterAssignment(chunk, chunk.cluster_ids))
        for chunk in page
    ]


def _find_nearest(
    vectors: NDArray[np.float32], clusters: Sequence[ClusterWithCentroid]
) -> list[tuple[str, ...]]:
    """Return the nearest cluster of each vector, or nothing for a vector that is too far away."""
    centroids = np.array([entry.centroid for entry in clusters], np.float32)
    reaches = np.array([entry.reach for entry in clusters])
    rows = nearest_clusters(vectors, centroids, reaches)
    return [(clusters[row].cluster.cluster_id,) if row >= 0 else () for row in rows]
