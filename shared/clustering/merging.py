"""Regions that are one: density alone also splits what is alike throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from shared.clustering.density import NOISE

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIKE: Final = 0.7
"""From which likeness on two regions are one. Of made-up topics, five in each of 35 sets, 18 sets
had some split without merging, 3 do with it; of texts that people wrote it merges next to none."""
_TINY: Final = 1e-9


def merged(labels: NDArray[np.intp], vectors: NDArray[np.float32]) -> NDArray[np.intp]:
    """Merge the two regions that are most alike for as long as any are alike.

    The likeness of two regions is the mean similarity between them over the mean similarity within
    them, both above what any two vectors have.

    Args:
        labels: The number of each vector's region, from 0, or `NOISE`.
        vectors: Unit vectors, `(n, dimension)`.
    """
    found = labels.copy()
    numbers = list(range(labels.max() + 1))
    sums = np.array([vectors[labels == n].sum(axis=0, dtype=np.float64) for n in numbers])
    sizes = np.bincount(labels[labels != NOISE], minlength=len(numbers)).astype(np.float64)
    common = _common(vectors)
    while len(numbers) > 1:
        likeness = _likeness(sums, sizes, common)
        one, other = (int(place) for place in np.unravel_index(likeness.argmax(), likeness.shape))
        if likeness[one, other] < ALIKE:
            break
        found[found == numbers.pop(max(one, other))] = numbers[min(one, other)]
        sums[min(one, other)] += sums[max(one, other)]
        sizes[min(one, other)] += sizes[max(one, other)]
        sums = np.delete(sums, max(one, other), axis=0)
        sizes = np.delete(sizes, max(one, other))
    return _renumbered(found)


def _common(vectors: NDArray[np.float32]) -> float:
    """The mean similarity of any two vectors."""
    size, total = len(vectors), vectors.sum(axis=0, dtype=np.float64)
    return float((total @ total - size) / (size * (size - 1)))


def _likeness(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], common: float
) -> NDArray[np.float64]:
    """How alike each two regions are, from their sums of vectors and their sizes."""
    products = sums @ sums.T
    within = (np.diag(products) - sizes) / (sizes * (sizes - 1)) - common
    between = products / np.outer(sizes, sizes) - common
    within = np.maximum(within, _TINY)
    likeness: NDArray[np.float64] = between / np.sqrt(np.outer(within, within))
    np.fill_diagonal(likeness, -np.inf)
    return likeness


def _renumbered(labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """The same regions, numbered without gaps."""
    numbers = np.full(labels.max() + 2, NOISE)
    present = np.unique(labels[labels != NOISE])
    numbers[present] = np.arange(len(present))
    renumbered: NDArray[np.intp] = numbers[labels]
    return renumbered
