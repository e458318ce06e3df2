"""Draws the map of all chunks, and places later chunks on it."""

from __future__ import annotations

import asyncio
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from functions.jobs.cluster.planning import to_matrix
from shared.clustering.density import NOISE
from shared.clustering.map_layout import Discs, ProjectedPassages, fit_axes, lay_out, project
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.map_repository import (
    POINTS_PER_PAGE,
    KnowledgeMap,
    MapCluster,
    MapPoint,
    Maps,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shared.knowledge.cluster_repository import ClusterWithCentroid
    from shared.knowledge.clustering_repository import Clustering
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    Matrix = NDArray[np.float32]

BLOCK: Final = 4096
"""The number of passages that are projected at a time, to save memory."""


class MapDrawing:
    """A map that is being drawn. Only two coordinates of each vector stay in memory."""

    def __init__(self, clusters: Sequence[ClusterWithCentroid]) -> None:
        """Fit the axes to these clusters. Their order does not matter."""
        clusters = sorted(clusters, key=lambda entry: entry.cluster.cluster_id)
        self._clusters = clusters
        self._centroids = np.array([entry.centroid for entry in clusters], np.float32)
        self._axes = fit_axes(self._centroids) if clusters else np.zeros((2, 0), np.float32)
        self._numbers = {entry.cluster.cluster_id: row for row, entry in enumerate(clusters)}
        self._chunk_ids: list[str] = []
        self._parts: list[ProjectedPassages] = []

    def add(
        self, chunk_ids: Sequence[str], vectors: Matrix, cluster_ids: Sequence[Sequence[str]]
    ) -> None:
        """Add passages, with their vectors and their clusters. Only the first cluster counts."""
        if not self._clusters:
            return
        numbers = _number_clusters(cluster_ids, self._numbers)
        for start in range(0, len(chunk_ids), BLOCK):
            rows = slice(start, start + BLOCK)
            self._parts.append(project(vectors[rows], numbers[rows], self._centroids, self._axes))
        self._chunk_ids += chunk_ids

    async def store(self, clustering: Clustering, ctx: Context) -> None:
        """Lay out the map, and replace the current map with it.

        Reads the ids of all embedded chunks again, because some may have been deleted meanwhile.
        """
        clusters, points = await asyncio.to_thread(self._lay_out)
        maps, clusterings = Maps(ctx.database), Clusterings(ctx.database)
        current = await maps.load()
        new_map = KnowledgeMap(
            version=current.version + 1 if current else 1,
            page_count=max(1, ceil(len(points) / POINTS_PER_PAGE)),
            run_id=clustering.run_id,
            model=clustering.model,
            made_at=ctx.clock(),
            axes=self._axes.astype("<f4").tobytes(),
            clusters=tuple(clusters),
            drawn_count=len(points),
        )
        await maps.replace(
            new_map, points, partial(clusterings.load_embedded_ids, clustering.model)
        )

    def _lay_out(self) -> tuple[list[MapCluster], dict[str, MapPoint]]:
        if not self._parts:
            return [], {}
        passages = ProjectedPassages.concatenate(self._parts)
        discs = lay_out(self._centroids, self._axes, passages)
        clusters = [
            MapCluster(
                cluster_id=entry.cluster.cluster_id,
                name=entry.cluster.name,
                size=entry.cluster.size,
                x=float(discs.centres[row, 0]),
                y=float(discs.centres[row, 1]),
                radius=float(discs.radii[row]),
                mean_x=float(discs.means[row, 0]),
                mean_y=float(discs.means[row, 1]),
                scale=float(discs.scales[row]),
            )
            for row, entry in enumerate(self._clusters)
        ]
        return clusters, dict(zip(self._chunk_ids, _to_points(discs, passages), strict=True))


class MapPlacement:
    """Places new passages on the current map."""

    def __init__(self, current_map: KnowledgeMap, clusters: Sequence[ClusterWithCentroid]) -> None:
        """Read the map. No passage is placed by a cluster that was deleted since it was drawn."""
        centroids = {entry.cluster.cluster_id: entry.centroid for entry in clusters}
        remaining = [cluster for cluster in current_map.clusters if cluster.cluster_id in centroids]
        self.current_map = current_map
        # Rows count the remaining clusters; numbers count all clusters of the map, as points do.
        self._rows = {cluster.cluster_id: row for row, cluster in enumerate(remaining)}
        numbers = {
            cluster.cluster_id: number for number, cluster in enumerate(current_map.clusters)
        }
        self._numbers = [numbers[cluster.cluster_id] for cluster in remaining]
        self._axes = np.frombuffer(current_map.axes, "<f4").reshape(2, -1)
        self._centroids = np.array([centroids[name] for name in self._rows], np.float32)
        self._discs = Discs(
            centres=np.array([(cluster.x, cluster.y) for cluster in remaining]),
            radii=np.array([cluster.radius for cluster in remaining]),
            means=np.array([(cluster.mean_x, cluster.mean_y) for cluster in remaining]),
            scales=np.array([cluster.scale for cluster in remaining]),
        )

    def place(self, vectors: Matrix, cluster_ids: Sequence[Sequence[str]]) -> list[MapPoint | None]:
        """Return the points of passages. They are None if the map has no clusters."""
        if not self._rows:
            return [None] * len(vectors)
        rows = _number_clusters(cluster_ids, self._rows)
        passages = project(vectors, rows, self._centroids, self._axes)
        return [
            MapPoint(point.x, point.y, self._numbers[row] if row != NOISE else NOISE)
            for point, row in zip(_to_points(self._discs, passages), rows, strict=True)
        ]


async def draw_stored_clusters(
    clustering: Clustering, dimension: int, ctx: Context, budget: Budget, report: Report
) -> None:
    """Draw a map of the stored clusters, if they have none, or one without room for more points.

    Reads every embedded chunk, and then their ids again. If the time runs out, the next run begins
    again.
    """
    clusterings = Clusterings(ctx.database)
    clusters = [
        entry
        for entry in await Clusters(ctx.database).load_all()
        if entry.cluster.run_id == clustering.run_id
    ]
    drawing = MapDrawing(clusters)
    if clusters:
        async for page in clusterings.iterate_embedded(clustering.model, dimension):
            if budget.spent:
                report.finished = False
                return
            chunk_ids = [chunk.chunk_id for chunk in page]
            vectors = to_matrix([chunk.vector for chunk in page], clustering.model)
            drawing.add(chunk_ids, vectors, [chunk.cluster_ids for chunk in page])
    await drawing.store(clustering, ctx)
    await clusterings.set_mapped(is_mapped=True)


def _number_clusters(
    cluster_ids: Sequence[Sequence[str]], numbers: dict[str, int]
) -> NDArray[np.intp]:
    """Return the number of each passage's first cluster that is on the map, or `NOISE`."""
    return np.array(
        [
            next((numbers[name] for name in names if name in numbers), NOISE)
            for names in cluster_ids
        ],
        np.intp,
    )


def _to_points(discs: Discs, passages: ProjectedPassages) -> list[MapPoint]:
    positions = discs.place(passages).tolist()
    return [
        MapPoint(x, y, number)
        for (x, y), number in zip(positions, passages.clusters.tolist(), strict=True)
    ]
