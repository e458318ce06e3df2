"""Clusters: groups of passages whose vectors are close together.

A cluster has a core, which is a dense region of the map of all passages without its outliers, and a
centroid. Passages that are noise on the map but near enough to the centroid join the cluster, and
so do new passages. How near is learned from the core: three quarters of its passages are at least
as near to the centroid of the core's other passages. All remaining passages are noise and have no
cluster.

Measured with the local embedder on descriptions of Debian's packages, whose 23 sections are the
labels. Each number is the mean of five to twelve draws of `n` passages. Noise is the share without
a cluster. ARI (adjusted Rand index) and NMI (normalised mutual information) measure how well the
rest agrees with the labels. "ARI all" counts each noise passage as a cluster of its own.

| n = 400 | clusters | noise | ARI | NMI | ARI all |
|---|---|---|---|---|---|
| 384 dimensions, HDBSCAN | 5 | 0.66 | 0.34 | 0.57 | 0.10 |
| PCA to 15 dimensions, HDBSCAN | 10 | 0.51 | 0.63 | 0.76 | 0.29 |
| KMeans with the true number | 15 | 0.00 | 0.35 | 0.54 | 0.35 |
| spectral map, HDBSCAN | 16 | 0.28 | 0.60 | 0.73 | 0.41 |
| spectral map, HDBSCAN, merged, no outliers, near passages | 16 | 0.23 | 0.56 | 0.71 | 0.41 |

| n = 2,500 | clusters | noise | ARI | NMI | ARI all |
|---|---|---|---|---|---|
| 384 dimensions, HDBSCAN | 2 | 0.44 | 0.00 | 0.02 | 0.01 |
| PCA to 15 dimensions, HDBSCAN | 16 | 0.66 | 0.77 | 0.81 | 0.24 |
| KMeans with the true number | 23 | 0.00 | 0.34 | 0.51 | 0.34 |
| spectral map, HDBSCAN | 28 | 0.42 | 0.66 | 0.76 | 0.36 |
| spectral map, HDBSCAN, merged, no outliers, near passages | 28 | 0.35 | 0.62 | 0.73 | 0.38 |
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.clustering.density import NOISE, find_dense_regions
from shared.clustering.merging import merge_regions
from shared.clustering.neighbours import find_nearest_neighbours
from shared.clustering.spectral import compute_spectral_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

MIN_PASSAGES: Final = 20
"""The minimum number of different passages to cluster. A list of fewer is just as clear."""
MAX_NEIGHBOURS: Final = 15
"""The maximum number of a passage's neighbours in the graph. Small knowledge bases have fewer."""
MIN_CORE: Final = 3
"""The minimum number of passages in a core. It grows with the knowledge base: to 12 for 2,500
passages, and to 91 for 200,000."""
OUTER_SHARE: Final = 0.25
"""A passage joins a cluster if it is nearer to the centroid than this share of the core."""
FENCE_WIDTH: Final = 2.0
"""An outlier is more than this many interquartile ranges below the lower quartile. With 1.5,
members are lost; with 3, unrelated passages stay."""
_BLOCK: Final = 4096
"""The number of vectors that are compared with the centroids at a time, to save memory."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorCluster:
    """A cluster of vectors.

    Attributes:
        centroid: The normalised mean of its core.
        min_similarity: The minimum similarity to the centroid with which a passage joins it.
        members: The row numbers of its passages, the most central first.
    """

    centroid: Matrix
    min_similarity: float
    members: NDArray[np.intp]


def find_clusters(vectors: Matrix) -> list[VectorCluster]:
    """Cluster passages. The clusters do not depend on the order of the passages.

    Args:
        vectors: Unit vectors, `(n, dimension)`.
    """
    first_rows, copy_indexes = _find_distinct_rows(vectors)
    size = len(first_rows)
    if size < MIN_PASSAGES:
        return []
    distinct = vectors[first_rows]
    neighbours = find_nearest_neighbours(distinct, min(MAX_NEIGHBOURS, 8 + size // 30))
    regions = find_dense_regions(compute_spectral_map(neighbours), compute_min_core_size(size))
    labels = merge_regions(regions, distinct)
    _remove_outliers(labels, distinct)
    cores = [distinct[labels == number] for number in range(labels.max() + 1)]
    if not cores:
        return []
    centroids = np.stack([compute_centroid(core) for core in cores])
    min_similarities = np.array([compute_min_similarity(core) for core in cores])
    nearest = find_nearest_clusters(vectors, centroids, min_similarities)
    core_labels = labels[copy_indexes]
    final = np.where(core_labels == NOISE, nearest, core_labels)
    return [
        VectorCluster(
            centroid,
            float(min_similarity),
            sort_by_centrality(vectors, centroid, final == number),
        )
        for number, (centroid, min_similarity) in enumerate(
            zip(centroids, min_similarities, strict=True)
        )
    ]


def compute_min_core_size(size: int) -> int:
    """Return the smallest size of a core among this many passages."""
    return max(MIN_CORE, int(2 + sqrt(size) / 5))


def find_nearest_clusters(
    vectors: Matrix, centroids: Matrix, min_similarities: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Return the number of the cluster nearest to each vector, or `NOISE` if none is near enough.

    Args:
        vectors: Unit vectors, `(n, dimension)`.
        centroids: Unit vectors, `(clusters, dimension)`.
    """
    labels = np.full(len(vectors), NOISE, np.intp)
    if not len(centroids):
        return labels
    for start in range(0, len(vectors), _BLOCK):
        similarities = vectors[start : start + _BLOCK] @ centroids.T
        best = similarities.argmax(axis=1)
        is_near = similarities[np.arange(len(best)), best] >= min_similarities[best]
        labels[start : start + _BLOCK] = np.where(is_near, best, NOISE)
    return labels


def compute_centroid(vectors: Matrix) -> Matrix:
    """Return the normalised mean."""
    total = vectors.sum(axis=0, dtype=np.float64)
    centroid: Matrix = (total / np.linalg.norm(total)).astype(np.float32)
    return centroid


def compute_min_similarity(vectors: Matrix) -> float:
    """Return how similar to the centroid of a core a vector must be to join the cluster."""
    return float(np.quantile(_compute_cohesion(vectors), OUTER_SHARE)) if len(vectors) > 1 else 1.0


def _compute_cohesion(vectors: Matrix) -> NDArray[np.float64]:
    """Return the similarity of each vector to the centroid of the others.

    The vector itself is left out: it would pull the centroid towards itself, and look nearer than a
    vector that joins later.
    """
    others = vectors.sum(axis=0, dtype=np.float64) - vectors
    lengths = np.maximum(np.linalg.norm(others, axis=1), np.finfo(float).tiny)
    similarities: NDArray[np.float64] = (vectors * others).sum(axis=1) / lengths
    return similarities


def _remove_outliers(labels: NDArray[np.intp], vectors: Matrix) -> None:
    """Label vectors as noise that are in a region only because no other region is nearer.

    The map preserves neighbourhoods, but not distances. A vector is therefore removed if it is
    beyond the lower fence of a box plot of the region's similarities (Tukey, "Exploratory Data
    Analysis", 1977), and also below the middle between the lower quartile and the similarity of the
    region's centroid to the centroid of all vectors.
    """
    overall = compute_centroid(vectors)
    for number in range(labels.max() + 1):
        rows = np.flatnonzero(labels == number)
        similarities = _compute_cohesion(vectors[rows])
        low, high = np.quantile(similarities, (0.25, 0.75))
        fence = low - FENCE_WIDTH * (high - low)
        middle = (low + float(compute_centroid(vectors[rows]) @ overall)) / 2
        labels[rows[similarities < min(fence, middle)]] = NOISE


def _find_distinct_rows(vectors: Matrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find the distinct vectors, because copies of one vector would be a dense region of their own.

    Returns:
        The first row of each distinct vector, sorted by a hash of the vector; and for each row, the
        index of its vector in that list.
    """
    digests = [int.from_bytes(blake2b(row.tobytes(), digest_size=8).digest()) for row in vectors]
    _, first_rows, copy_indexes = np.unique(
        np.array(digests, np.uint64), return_index=True, return_inverse=True
    )
    return first_rows, copy_indexes


def sort_by_centrality(
    vectors: Matrix, centroid: Matrix, is_member: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return the rows of the members of a cluster, the most central first."""
    rows = np.flatnonzero(is_member)
    order = np.argsort(-(vectors[rows] @ centroid), kind="stable")
    return rows[order]
