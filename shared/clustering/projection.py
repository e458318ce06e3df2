"""Positions of clusters on a two-dimensional map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

DECIMALS: Final = 4
"""The number of decimals of coordinates. Rounding hides the differences between two machines."""


def project(centroids: Sequence[ArrayLike]) -> list[tuple[float, float]]:
    """Project centroids on their first two principal components.

    Along each component, the point farthest from the middle has a positive coordinate, so that the
    same centroids always give the same map.
    """
    if not len(centroids):
        return []
    points = np.array(centroids, np.float64)
    points -= points.mean(axis=0)
    axes = np.linalg.svd(points, full_matrices=False)[2][:2]
    plane: NDArray[np.float64] = np.zeros((len(points), 2))
    plane[:, : len(axes)] = points @ axes.T
    farthest = np.abs(plane).argmax(axis=0)
    plane *= np.sign(plane[farthest, [0, 1]])
    return [(float(x), float(y)) for x, y in plane.round(DECIMALS) + 0.0]
