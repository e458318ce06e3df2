"""Vectors in separate groups, and outliers between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

DIMENSION: Final = 32
GROUP: Final = 15
"""Vectors of a group."""


def unit(vectors: NDArray[np.float64]) -> Matrix:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def groups(count: int, seed: int = 0, size: int = GROUP) -> Matrix:
    """Groups that lie apart, one after the other."""
    chance = np.random.default_rng(seed)
    centres = unit(chance.standard_normal((count, DIMENSION)))
    spread = chance.standard_normal((count * size, DIMENSION)) * 0.08
    return unit(np.repeat(centres, size, axis=0) + spread)


def strays(count: int, seed: int = 1) -> Matrix:
    return unit(np.random.default_rng(seed).standard_normal((count, DIMENSION)))
