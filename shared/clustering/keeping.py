"""Topics that people made, among those that are found: they keep what they hold.

Topics are found in all passages, for density shows in contrast alone: of a dozen passages about one
thing none would be found. Then the topics that people made take what they hold and what is within
their reach, and what is left of each other topic stays one if it is no fringe of theirs.

To take part of it first, and the rest later, comes to the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.clustering.density import NOISE
from shared.clustering.topics import (
    Topic,
    centroid_of,
    from_the_centre,
    nearest_topics,
    reach_of,
    smallest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shared.clustering.topics import Matrix

FRINGE: Final = 1 / 3
"""Up to which share the rest of a topic is the fringe of one that people made: of passages about
the same, a quarter is out of its reach."""


def kept_among(
    found: Sequence[Topic], kept: Sequence[Topic], vectors: Matrix
) -> tuple[list[Topic], list[Topic]]:
    """Let topics that are to be kept take what is theirs.

    Args:
        found: The topics of all passages, as `find_topics` finds them.
        kept: Those that people made. They may have passages in common.
        vectors: The passages' vectors.

    Returns:
        What is left of the found ones, and the kept ones with what joins them.
    """
    held = _any_of(kept, len(vectors))
    joining = np.where(held, NOISE, _nearest(vectors, kept))
    # What is within reach counts whoever holds it: so it makes no difference what was taken before.
    own = [left for topic in found if (left := _rest(topic, held | (joining != NOISE), vectors))]
    spoken_for = held | (joining != NOISE) | _any_of(own, len(vectors))
    left_over = np.where(spoken_for, NOISE, _nearest(vectors, own))
    return _with(own, left_over, vectors), _with(kept, joining, vectors)


def _rest(topic: Topic, taken: NDArray[np.bool_], vectors: Matrix) -> Topic | None:
    """What others leave of a topic; None: too little to be one."""
    rows = topic.members[~taken[topic.members]]
    if len(rows) == len(topic.members):
        return topic
    if len(rows) < smallest(len(vectors)) or len(rows) <= FRINGE * len(topic.members):
        return None
    rest = vectors[rows]
    return Topic(centroid_of(rest), reach_of(rest), rows)


def _with(topics: Sequence[Topic], joining: NDArray[np.intp], vectors: Matrix) -> list[Topic]:
    """Topics with what joins them by its number."""
    wider: list[Topic] = []
    for number, topic in enumerate(topics):
        belongs = joining == number
        belongs[topic.members] = True
        wider.append(replace(topic, members=from_the_centre(vectors, topic.centroid, belongs)))
    return wider


def _nearest(vectors: Matrix, topics: Sequence[Topic]) -> NDArray[np.intp]:
    centroids = np.array([topic.centroid for topic in topics], np.float32)
    return nearest_topics(vectors, centroids, np.array([topic.reach for topic in topics]))


def _any_of(topics: Sequence[Topic], size: int) -> NDArray[np.bool_]:
    """Which rows belong to any."""
    found = np.zeros(size, np.bool_)
    for topic in topics:
        found[topic.members] = True
    return found
