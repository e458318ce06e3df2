"""Topics that people made, or named: runs leave them what they are."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from shared.clustering.topics import Topic, centroid_of, reach_of
from shared.knowledge.cluster_repository import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from functions.jobs.cluster.reading import Base
    from shared.knowledge.cluster_repository import CentredCluster
    from shared.knowledge.clustering_repository import Placed


def ids_by_hand(clusters: Sequence[CentredCluster]) -> frozenset[str]:
    """Which topics are people's."""
    return frozenset(each.cluster.cluster_id for each in clusters if each.named_by == BY_HAND)


def held_by(people: Collection[str], chunk: Placed) -> tuple[str, ...]:
    """The topics of people that a passage belongs to: it stays there, and in no other."""
    return tuple(name for name in chunk.cluster_ids if name in people)


def topics_by_hand(
    base: Base, clusters: Sequence[CentredCluster], *, comparable: bool
) -> dict[str, Topic]:
    """The topics of people that have passages, by their ids.

    Args:
        base: All passages, with the topics that they belong to.
        clusters: What is stored of topics.
        comparable: Whether their centroids were made of vectors like these. They stay then, so that
            what joined does not lead on to what is less and less alike.
    """
    people = ids_by_hand(clusters)
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, chunk in enumerate(base.chunks):
        for name in held_by(people, chunk):
            rows[name].append(row)
    return {
        each.cluster.cluster_id: _topic(each, found, base, comparable=comparable)
        for each in clusters
        if (found := rows.get(each.cluster.cluster_id))
    }


def _topic(each: CentredCluster, rows: Sequence[int], base: Base, *, comparable: bool) -> Topic:
    members = np.array(rows, np.intp)
    if comparable:
        return Topic(np.array(each.centroid, np.float32), each.reach, members)
    vectors = base.vectors[members]
    return Topic(centroid_of(vectors), reach_of(vectors), members)
