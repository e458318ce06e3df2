"""Matching the clusters of two runs by the passages that they share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

MIN_SIMILARITY: Final = 0.25
"""Two clusters match if their Jaccard index is at least this."""


@dataclass(frozen=True, slots=True)
class ClusterMatch:
    """A previous cluster that a new one matches.

    Attributes:
        cluster_id: The id of the previous cluster.
        similarity: The Jaccard index of the passages of both.
    """

    cluster_id: str
    similarity: float


def match_clusters(
    new: Sequence[Collection[str]], previous: Mapping[str, Collection[str]]
) -> list[ClusterMatch | None]:
    """Pair new clusters with previous ones so that the sum of their similarities is largest.

    Args:
        new: The passages of each new cluster.
        previous: The passages of each previous cluster, by its id.

    Returns:
        For each new cluster its match, or None if there is none.
    """
    from scipy.optimize import linear_sum_assignment

    previous_ids = sorted(previous)
    similarity = _jaccard(new, [previous[cluster_id] for cluster_id in previous_ids])
    matches: list[ClusterMatch | None] = [None] * len(new)
    for row, column in zip(*linear_sum_assignment(similarity, maximize=True), strict=True):
        if similarity[row, column] >= MIN_SIMILARITY:
            matches[row] = ClusterMatch(previous_ids[column], float(similarity[row, column]))
    return matches


def _jaccard(
    new: Sequence[Collection[str]], previous: Sequence[Collection[str]]
) -> NDArray[np.float64]:
    """Return the Jaccard index of every pair."""
    columns: defaultdict[str, list[int]] = defaultdict(list)
    for column, members in enumerate(previous):
        for member in set(members):
            columns[member].append(column)
    shared = np.zeros((len(new), len(previous)))
    for row, members in enumerate(new):
        for member in set(members):
            shared[row, columns.get(member, [])] += 1
    new_sizes = np.array([len(set(members)) for members in new])[:, None]
    previous_sizes = np.array([len(set(members)) for members in previous])[None, :]
    index: NDArray[np.float64] = shared / np.maximum(new_sizes + previous_sizes - shared, 1)
    return index
