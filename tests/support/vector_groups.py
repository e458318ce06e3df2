"""Random vectors for tests of clustering: in separate groups, and outliers that belong to none."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

DIMENSION: Final = 32
"""The dimension of the vectors."""
_DEVIATION: Final = 0.08
"""The standard deviation of each number of a vector from the centre of its group."""
GROUP_SIZE: Final = 15
"""The number of vectors in a group."""


def normalize(vectors: NDArray[np.float64]) -> Matrix:
    """Scale vectors to length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def make_groups(count: int, seed: int = 0, size: int = GROUP_SIZE) -> Matrix:
    """Return unit vectors in `count` separate groups of `size`, one group after the other."""
    generator = np.random.default_rng(seed)
    centres = normalize(generator.standard_normal((count, DIMENSION)))
    deviations = generator.standard_normal((count * size, DIMENSION)) * _DEVIATION
    return normalize(np.repeat(centres, size, axis=0) + deviations)


def make_outliers(count: int, seed: int = 1) -> Matrix:
    """Return random unit vectors, which are far from each other."""
    return normalize(np.random.default_rng(seed).standard_normal((count, DIMENSION)))
