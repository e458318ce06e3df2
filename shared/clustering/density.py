"""Dense regions of a map, and the noise between them: HDBSCAN.

Campello, Moulavi and Sander, "Density-Based Clustering Based on Hierarchical Density Estimates",
2013, by scikit-learn. It is given the distances of near points alone: that is nearly linear in
time, and finds what all distances find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOISE: Final = -1
NEAR: Final = 30
"""How many near points each is compared with."""
MIN_SAMPLES: Final = 5
"""How many points make a place dense, the point itself among them."""
_FAR: Final = 4.0
"""Farther apart than any two points of a unit sphere."""
_CLOSE: Final = 1e-12
"""What stands for a distance of 0, which a sparse matrix would not hold."""


def dense_regions(points: NDArray[np.float64], smallest: int) -> NDArray[np.intp]:
    """The number of each point's region, or `NOISE`.

    Args:
        points: Points of a unit sphere.
        smallest: How many points make a region.
    """
    from sklearn.cluster import HDBSCAN

    found = HDBSCAN(
        min_cluster_size=smallest,
        min_samples=min(MIN_SAMPLES, smallest) - 1,  # of given distances, none is its own
        metric="precomputed",
        copy=True,
    ).fit(_distances(points))
    labels: NDArray[np.intp] = found.labels_.astype(np.intp)
    return labels


def _distances(points: NDArray[np.float64]) -> Any:
    """The distances of near points, and a long way from each part of the graph to the next."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import KDTree

    size, count = len(points), min(NEAR, len(points) - 1)
    distances, rows = KDTree(points).query(points, count + 1)
    starts = np.arange(0, size * count + 1, count)
    near = np.maximum(distances[:, 1:], _CLOSE).ravel()
    graph = csr_matrix((near, rows[:, 1:].ravel(), starts), shape=(size, size))
    graph = graph.maximum(graph.T)
    firsts = np.unique(connected_components(graph, directed=False)[1], return_index=True)[1]
    way = np.full(len(firsts) - 1, _FAR)
    ways = csr_matrix((way, (firsts[:-1], firsts[1:])), shape=(size, size))
    return (graph + ways + ways.T).tocsr()
