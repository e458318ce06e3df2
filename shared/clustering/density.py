"""HDBSCAN: dense regions of a map, and the noise between them.

Campello, Moulavi and Sander, "Density-Based Clustering Based on Hierarchical Density Estimates",
2013, as implemented by scikit-learn. It receives only the distances of near points. That takes
nearly linear time, and gives the same regions as all distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOISE: Final = -1
"""The label of points, and of passages, that belong to no region or cluster."""
NEIGHBOUR_COUNT: Final = 30
"""The number of nearest points whose distances HDBSCAN receives for each point."""
MIN_SAMPLES: Final = 5
"""The density at a point is measured by the distance within which there are this many points,
including the point itself."""
_MAX_DISTANCE: Final = 4.0
"""The length of edges between components. It is larger than the distance of any two points on the
unit sphere, which is at most 2."""
_MIN_DISTANCE: Final = 1e-12
"""Replaces a distance of 0, because a sparse matrix does not store zeros."""


def find_dense_regions(points: NDArray[np.float64], min_size: int) -> NDArray[np.intp]:
    """Label each point with the number of its region, or `NOISE`.

    Args:
        points: Points on the unit sphere.
    """
    from sklearn.cluster import HDBSCAN

    model = HDBSCAN(
        min_cluster_size=min_size,
        # Precomputed distances do not include that of the point to itself.
        min_samples=min(MIN_SAMPLES, min_size) - 1,
        # Without a limit, a small group far from all others makes these one region: 5,218 of 5,301
        # passages. On 20,000 descriptions of packages, a half and a sixth give the same regions.
        max_cluster_size=len(points) // 2,
        metric="precomputed",
        copy=True,
    ).fit(_build_distance_graph(points))
    labels: NDArray[np.intp] = model.labels_.astype(np.intp)
    return labels


def _build_distance_graph(points: NDArray[np.float64]) -> Any:
    """Return a connected graph: the distances of near points, and long edges between components."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import KDTree

    size = len(points)
    count = min(NEIGHBOUR_COUNT, size - 1)
    distances, rows = KDTree(points).query(points, count + 1)
    starts = np.arange(0, size * count + 1, count)
    near_distances = np.maximum(distances[:, 1:], _MIN_DISTANCE).ravel()
    graph = csr_matrix((near_distances, rows[:, 1:].ravel(), starts), shape=(size, size))
    graph = graph.maximum(graph.T)
    # One point of each component is connected with one of the next component.
    _, components = connected_components(graph, directed=False)
    _, firsts = np.unique(components, return_index=True)
    lengths = np.full(len(firsts) - 1, _MAX_DISTANCE)
    bridges = csr_matrix((lengths, (firsts[:-1], firsts[1:])), shape=(size, size))
    return (graph + bridges + bridges.T).tocsr()
