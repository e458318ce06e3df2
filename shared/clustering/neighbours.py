"""Exact nearest neighbours of every vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SIMILARITIES: Final = 1 << 22
"""The approximate number of similarities in memory: 16 MiB, and three times that for the selection.
Four times as many need 290 MiB more at 20,000 vectors, and a quarter more time."""
MIN_BLOCK: Final = 64
"""The minimum number of vectors that are compared at once. With a third of it, comparing takes 1.5
times as long."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest neighbours of each vector, the nearest first.

    Attributes:
        rows: Their row numbers, `(n, count)`.
        similarities: Their cosine similarities, `(n, count)`.
    """

    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]


def nearest(vectors: NDArray[np.float32], count: int) -> Neighbours:
    """Compare all vectors with each other, block by block: quadratic in time, linear in memory.

    Args:
        vectors: Unit vectors, `(n, dimension)`.
        count: The number of neighbours, less than n.
    """
    size = len(vectors)
    rows = np.empty((size, count), np.int32)
    similarities = np.empty((size, count), np.float32)
    step = max(MIN_BLOCK, MAX_SIMILARITIES // size)
    for start in range(0, size, step):
        block = vectors[start : start + step] @ vectors.T
        block_rows = np.arange(len(block))
        block[block_rows, start + block_rows] = -np.inf
        columns = np.argpartition(-block, count - 1, axis=1)[:, :count]
        near = np.take_along_axis(block, columns, axis=1)
        order = np.argsort(-near, axis=1, kind="stable")
        rows[start : start + step] = np.take_along_axis(columns, order, axis=1)
        similarities[start : start + step] = np.take_along_axis(near, order, axis=1)
    return Neighbours(rows, similarities)
