"""Between two runs that make topics: new passages find the topic that they are near enough to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from functions.jobs.cluster.by_hand import held_by, ids_by_hand
from shared.clustering.topics import nearest_topics
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import PAGE, Clusterings, Move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shared.knowledge.cluster_repository import CentredCluster
    from shared.knowledge.clustering_repository import Clustering, Placed
    from shared.runtime.context import Deps
    from shared.runtime.job import Budget, Report


async def place_waiting(
    clustering: Clustering | None, deps: Deps, budget: Budget, report: Report
) -> None:
    """Put the passages that wait for it among the present topics, page by page.

    Args:
        clustering: How these came about; None: there are none that passages can be put among, and
            they stay where they are.
        deps: What the run may use.
        budget: How long it may take.
        report: Counts those that were `placed`.
    """
    clusters = await Clusters(deps.database).every() if clustering else []
    while page := await Clusterings(deps.database).waiting(PAGE):
        if budget.spent:
            report.finished = False
            return
        moves = _moves(page, clustering, clusters)
        report.counts["placed"] += await Clusterings(deps.database).move(
            moves, deps.clock(), since=clustering is not None
        )
        budget.progress(len(page))


def _moves(
    page: Sequence[Placed], clustering: Clustering | None, clusters: Sequence[CentredCluster]
) -> list[Move]:
    """Where the passages of a page are to be; those of another model stay where they are.

    What belongs to a topic that people made stays there, and what is within the reach of one joins
    it before any other: as it would where topics are made anew.
    """
    if clustering is None:
        return [Move(chunk, chunk.cluster_ids) for chunk in page]
    people = ids_by_hand(clusters)
    present = [each for each in clusters if each.cluster.run_id == clustering.run_id]
    theirs = [each for each in present if each.cluster.cluster_id in people]
    others = [each for each in present if each.cluster.cluster_id not in people]
    comparable = [chunk for chunk in page if chunk.model == clustering.model]
    vectors = np.array([chunk.vector for chunk in comparable], np.float32)
    pairs = zip(_nearest(vectors, theirs), _nearest(vectors, others), strict=True)
    near = {
        chunk.chunk_id: one or other for chunk, (one, other) in zip(comparable, pairs, strict=True)
    }
    return [
        Move(chunk, held_by(people, chunk) or near.get(chunk.chunk_id, chunk.cluster_ids))
        for chunk in page
    ]


def _nearest(
    vectors: NDArray[np.float32], topics: Sequence[CentredCluster]
) -> list[tuple[str, ...]]:
    """The topic that each vector is near enough to, if it is to one."""
    centroids = np.array([each.centroid for each in topics], np.float32)
    numbers = nearest_topics(vectors, centroids, np.array([each.reach for each in topics]))
    return [(topics[number].cluster.cluster_id,) if number >= 0 else () for number in numbers]
