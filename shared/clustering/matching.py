"""Which topics of a run are those of the run before, told by the passages that they share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

SAME: Final = 0.25
"""How much two topics have in common that are one and the same."""


@dataclass(frozen=True, slots=True)
class ClusterMatch:
    """A topic that is known.

    Attributes:
        cluster_id: What it is known as.
        likeness: The share of its passages, then and now, that are in it then and now: Jaccard's
            index.
    """

    cluster_id: str
    likeness: float


def matches(
    topics: Sequence[Collection[str]], known: Mapping[str, Collection[str]]
) -> list[ClusterMatch | None]:
    """Pair topics with known ones, so that all pairs together have the most in common.

    Args:
        topics: The passages of each topic.
        known: The passages of each known one, by its id.

    Returns:
        For each topic its match, or None: it is new.
    """
    from scipy.optimize import linear_sum_assignment

    names = sorted(known)
    likeness = _likeness(topics, [known[name] for name in names])
    found: list[ClusterMatch | None] = [None] * len(topics)
    for topic, name in zip(*linear_sum_assignment(likeness, maximize=True), strict=True):
        if likeness[topic, name] >= SAME:
            found[topic] = ClusterMatch(names[name], float(likeness[topic, name]))
    return found


def _likeness(
    topics: Sequence[Collection[str]], known: Sequence[Collection[str]]
) -> NDArray[np.float64]:
    """Jaccard's index of each with each."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, members in enumerate(known):
        for member in set(members):
            places[member].append(number)
    shared = np.zeros((len(topics), len(known)))
    for number, members in enumerate(topics):
        for member in set(members):
            shared[number, places.get(member, [])] += 1
    sizes = np.array([len(set(members)) for members in topics])[:, None]
    known_sizes = np.array([len(set(members)) for members in known])[None, :]
    likeness: NDArray[np.float64] = shared / np.maximum(sizes + known_sizes - shared, 1)
    return likeness
