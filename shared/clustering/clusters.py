"""Topics: groups of passages whose vectors lie close together.

A topic has a core, a dense region of the map of all passages but for strays, and a centre. What is
noise on the map but near enough to a topic's centre belongs to it as well, which is also how
passages that come later find their topic. What is near enough is learned from the core: as near as
three quarters of its own passages are to the centre of the others. All else is noise, and has no
topic.

Measured with the local embedder on descriptions of Debian's packages, whose 23 sections are the
labels; `n` passages, mean of five to twelve draws. Noise is the share that has no topic; ARI and
NMI are the agreement of the rest with the labels, and "ARI all" takes each passage of the noise for
a topic of its own.

| n = 400 | topics | noise | ARI | NMI | ARI all |
|---|---|---|---|---|---|
| 384 dimensions, HDBSCAN | 5 | 0.66 | 0.34 | 0.57 | 0.10 |
| PCA to 15 dimensions, HDBSCAN | 10 | 0.51 | 0.63 | 0.76 | 0.29 |
| KMeans that is told how many | 15 | 0.00 | 0.35 | 0.54 | 0.35 |
| spectral map, HDBSCAN | 16 | 0.28 | 0.60 | 0.73 | 0.41 |
| spectral map, HDBSCAN, merged, less strays, with what is near | 16 | 0.23 | 0.56 | 0.71 | 0.41 |

| n = 2,500 | topics | noise | ARI | NMI | ARI all |
|---|---|---|---|---|---|
| 384 dimensions, HDBSCAN | 2 | 0.44 | 0.00 | 0.02 | 0.01 |
| PCA to 15 dimensions, HDBSCAN | 16 | 0.66 | 0.77 | 0.81 | 0.24 |
| KMeans that is told how many | 23 | 0.00 | 0.34 | 0.51 | 0.34 |
| spectral map, HDBSCAN | 28 | 0.42 | 0.66 | 0.76 | 0.36 |
| spectral map, HDBSCAN, merged, less strays, with what is near | 28 | 0.35 | 0.62 | 0.73 | 0.38 |
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.clustering.density import NOISE, dense_regions
from shared.clustering.merging import merged
from shared.clustering.neighbours import nearest
from shared.clustering.spectral import spectral_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

FEWEST: Final = 20
"""Of fewer different passages no topics are made: they would say nothing that a list does not."""
MOST_NEIGHBOURS: Final = 15
"""Neighbours of a passage in the graph; small bases take fewer, or all would be neighbours."""
SMALLEST: Final = 3
"""Passages of a core, at least: 3 of 64, 12 of 2,500, 91 of 200,000."""
NEAR_ENOUGH: Final = 0.25
"""The share of a core that lies farther out than what joins later."""
FENCE: Final = 2.0
"""How many interquartile ranges away the fence stands: with 1.5 it costs members, with 3 it lets
strays in."""
_BLOCK: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class VectorCluster:
    """A topic.

    Attributes:
        centroid: The normalised mean of its core.
        reach: The least similarity to the centroid of what joins it.
        members: The row numbers of its passages, the most central first.
    """

    centroid: Matrix
    reach: float
    members: NDArray[np.intp]


def find_clusters(vectors: Matrix) -> list[VectorCluster]:
    """Find the topics of passages.

    The same vectors give the same topics, in whatever order they come.

    Args:
        vectors: Unit vectors, `(n, dimension)`.
    """
    firsts, copies = _distinct(vectors)
    size = len(firsts)
    if size < FEWEST:
        return []
    distinct = vectors[firsts]
    near = nearest(distinct, min(MOST_NEIGHBOURS, 8 + size // 30))
    regions = dense_regions(spectral_map(near), smallest(size))
    labels = merged(regions, distinct)
    _let_go_of_strays(labels, distinct)
    cores = [distinct[labels == number] for number in range(labels.max() + 1)]
    if not cores:
        return []
    centroids = np.stack([centroid_of(core) for core in cores])
    reaches = np.array([reach_of(core) for core in cores])
    joined = nearest_clusters(vectors, centroids, reaches)
    places = np.where(labels[copies] == NOISE, joined, labels[copies])
    return [
        VectorCluster(centroid, float(reach), from_the_centre(vectors, centroid, places == number))
        for number, (centroid, reach) in enumerate(zip(centroids, reaches, strict=True))
    ]


def smallest(size: int) -> int:
    """How many of so many passages make a core."""
    return max(SMALLEST, int(2 + sqrt(size) / 5))


def nearest_clusters(
    vectors: Matrix, centroids: Matrix, reaches: NDArray[np.float64]
) -> NDArray[np.intp]:
    """The number of the topic whose centroid is nearest to each vector, or `NOISE`: none is near.

    Args:
        vectors: Unit vectors, `(n, dimension)`.
        centroids: Unit vectors, `(topics, dimension)`.
        reaches: The least similarity of what joins each topic.
    """
    found = np.full(len(vectors), NOISE, np.intp)
    if not len(centroids):
        return found
    for start in range(0, len(vectors), _BLOCK):
        similarities = vectors[start : start + _BLOCK] @ centroids.T
        best = similarities.argmax(axis=1)
        near = similarities[np.arange(len(best)), best] >= reaches[best]
        found[start : start + _BLOCK] = np.where(near, best, NOISE)
    return found


def centroid_of(vectors: Matrix) -> Matrix:
    """The normalised mean."""
    total = vectors.sum(axis=0, dtype=np.float64)
    centroid: Matrix = (total / np.linalg.norm(total)).astype(np.float32)
    return centroid


def reach_of(vectors: Matrix) -> float:
    """How near to the centroid of some vectors another one must be to be one of them."""
    return float(np.quantile(_togetherness(vectors), NEAR_ENOUGH)) if len(vectors) > 1 else 1.0


def _togetherness(vectors: Matrix) -> NDArray[np.float64]:
    """The similarity of each vector to the centroid of the others.

    Its own part in a centroid would make it look nearer than one that comes later.
    """
    others = vectors.sum(axis=0, dtype=np.float64) - vectors
    lengths = np.maximum(np.linalg.norm(others, axis=1), np.finfo(float).tiny)
    similarities: NDArray[np.float64] = (vectors * others).sum(axis=1) / lengths
    return similarities


def _let_go_of_strays(labels: NDArray[np.intp], vectors: Matrix) -> None:
    """Make noise of what a region holds for want of anything nearer.

    The map knows who is next to whom, and not how far away. So what lies beyond the fence of a box
    plot (Tukey, "Exploratory Data Analysis", 1977) is taken out of the core, if it is also more
    like the rest of the world than like the core.
    """
    world = centroid_of(vectors)
    for number in range(labels.max() + 1):
        rows = np.flatnonzero(labels == number)
        similarities = _togetherness(vectors[rows])
        low, high = np.quantile(similarities, (0.25, 0.75))
        middle = (low + float(centroid_of(vectors[rows]) @ world)) / 2
        labels[rows[similarities < min(low - FENCE * (high - low), middle)]] = NOISE


def _distinct(vectors: Matrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows of different vectors in an order of their own, and each row's place among them.

    Copies of one vector would be its own dense region.
    """
    digests = [int.from_bytes(blake2b(row.tobytes(), digest_size=8).digest()) for row in vectors]
    _, firsts, copies = np.unique(
        np.array(digests, np.uint64), return_index=True, return_inverse=True
    )
    return firsts, copies


def from_the_centre(
    vectors: Matrix, centroid: Matrix, belongs: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """The rows of a topic's passages, the most central first."""
    rows = np.flatnonzero(belongs)
    order = np.argsort(-(vectors[rows] @ centroid), kind="stable")
    return rows[order]
