"""Merging similar regions, because density alone also splits groups that belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from shared.clustering.density import NOISE

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_SIMILARITY: Final = 0.7
"""Regions of at least this similarity are merged. Of 35 sets of five artificial clusters each, 18
had a split cluster without merging, and 3 with it. In texts by people, hardly any regions are
merged."""
_TINY: Final = 1e-9
"""The minimum divisor, against division by zero."""


def merge_regions(labels: NDArray[np.intp], vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """Merge the two most similar regions, again and again, until no two are similar enough.

    The similarity of two regions is b / sqrt(w1 * w2): b is the mean similarity of a vector of one
    region and a vector of the other, and w1 and w2 are the mean similarities of two vectors of the
    same region. The mean similarity of all vectors is subtracted from each of the three.

    Args:
        labels: The number of each vector's region, from 0, or `NOISE`.
        vectors: Unit vectors, `(n, dimension)`.
    """
    merged = labels.copy()
    numbers = list(range(labels.max() + 1))
    sums = np.array([vectors[labels == n].sum(axis=0, dtype=np.float64) for n in numbers])
    sizes = np.bincount(labels[labels != NOISE], minlength=len(numbers)).astype(np.float64)
    baseline = _compute_mean_similarity(vectors)
    while len(numbers) > 1:
        similarity = _compute_similarity(sums, sizes, baseline)
        pair = np.unravel_index(similarity.argmax(), similarity.shape)
        if similarity[pair] < MIN_SIMILARITY:
            break
        first, second = sorted(map(int, pair))
        merged[merged == numbers.pop(second)] = numbers[first]
        sums[first] += sums[second]
        sizes[first] += sizes[second]
        sums = np.delete(sums, second, axis=0)
        sizes = np.delete(sizes, second)
    return _renumber(merged)


def _compute_mean_similarity(vectors: NDArray[np.float32]) -> float:
    size = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    return float((total @ total - size) / (size * (size - 1)))


def _compute_similarity(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], baseline: float
) -> NDArray[np.float64]:
    """Return the similarity of every two regions, given their sums of vectors and their sizes."""
    products = sums @ sums.T
    within = (np.diag(products) - sizes) / (sizes * (sizes - 1)) - baseline
    between = products / np.outer(sizes, sizes) - baseline
    within = np.maximum(within, _TINY)
    similarity: NDArray[np.float64] = between / np.sqrt(np.outer(within, within))
    np.fill_diagonal(similarity, -np.inf)
    return similarity


def _renumber(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    numbers = np.full(labels.max() + 2, NOISE)
    present = np.unique(labels[labels != NOISE])
    numbers[present] = np.arange(len(present))
    renumbered: NDArray[np.intp] = numbers[labels]
    return renumbered
