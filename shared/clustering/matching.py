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
        similarity: The Jaccard index: how many passages both have, divided by how many either has.
    """

    cluster_id: str
    similarity: float


def match_clusters(
    new_clusters: Sequence[Collection[str]], previous_clusters: Mapping[str, Collection[str]]
) -> list[ClusterMatch | None]:
    """Pair new clusters with previous ones so that the sum of the pairs' similarities is largest.

    Args:
        previous_clusters: The passages of each previous cluster, by its id.

    Returns:
        For each new cluster its match, or None if there is none.
    """
    from scipy.optimize import linear_sum_assignment

    previous_ids = sorted(previous_clusters)
    similarity = _compute_jaccard_indexes(
        new_clusters, [previous_clusters[cluster_id] for cluster_id in previous_ids]
    )
    matches: list[ClusterMatch | None] = [None] * len(new_clusters)
    for row, column in zip(*linear_sum_assignment(similarity, maximize=True), strict=True):
        if similarity[row, column] >= MIN_SIMILARITY:
            matches[row] = ClusterMatch(previous_ids[column], float(similarity[row, column]))
    return matches


def _compute_jaccard_indexes(
    row_clusters: Sequence[Collection[str]], column_clusters: Sequence[Collection[str]]
) -> NDArray[np.float64]:
    """Return the Jaccard index of every row's cluster with every column's."""
    columns_of_member: defaultdict[str, list[int]] = defaultdict(list)
    for column, members in enumerate(column_clusters):
        for member in set(members):
            columns_of_member[member].append(column)
    intersections = np.zeros((len(row_clusters), len(column_clusters)))
    for row, members in enumerate(row_clusters):
        for member in set(members):
            intersections[row, columns_of_member.get(member, [])] += 1
    row_sizes = np.array([len(set(members)) for members in row_clusters])[:, None]
    column_sizes = np.array([len(set(members)) for members in column_clusters])[None, :]
    unions = np.maximum(row_sizes + column_sizes - intersections, 1)
    indexes: NDArray[np.float64] = intersections / unions
    return indexes
