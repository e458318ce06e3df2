"""The nearest neighbours of every vector, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOM: Final = 1 << 24
"""Similarities that are held at once: 64 MiB of them, and twice that for their order."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For each vector its nearest others, the nearest first.

    Attributes:
        rows: Their row numbers, `(n, count)`.
        similarities: Their cosine similarities, `(n, count)`.
    """

    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]


def nearest(vectors: NDArray[np.float32], count: int) -> Neighbours:
    """Compare all with all, block by block: quadratic in time, never in memory.

    Args:
        vectors: Unit vectors, `(n, dimension)`.
        count: How many neighbours, less than n.
    """
    size = len(vectors)
    rows = np.empty((size, count), np.int32)
    similarities = np.empty((size, count), np.float32)
    step = max(1, ROOM // size)
    for start in range(0, size, step):
        block = vectors[start : start + step] @ vectors.T
        own = np.arange(len(block))
        block[own, start + own] = -np.inf
        found = np.argpartition(-block, count - 1, axis=1)[:, :count]
        near = np.take_along_axis(block, found, axis=1)
        order = np.argsort(-near, axis=1, kind="stable")
        rows[start : start + step] = np.take_along_axis(found, order, axis=1)
        similarities[start : start + step] = np.take_along_axis(near, order, axis=1)
    return Neighbours(rows, similarities)
