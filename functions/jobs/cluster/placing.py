"""Between two runs that make topics: new passages find the topic that they are near enough to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shared.clustering.topics import nearest_topics
from shared.store.clustering import PAGE, Clusterings, Move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.deps import Deps
    from shared.job import Budget, Report
    from shared.store.clustering import Clustering, Placed
    from shared.store.clusters import CentredCluster


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
    clusters = await deps.store.clusters.every() if clustering else []
    while page := await Clusterings(deps.store.database).waiting(PAGE):
        if budget.spent:
            report.finished = False
            return
        moves = _moves(page, clustering, clusters)
        report.counts["placed"] += await Clusterings(deps.store.database).move(
            moves, deps.clock(), since=clustering is not None
        )
        budget.progress(len(page))


def _moves(
    page: Sequence[Placed], clustering: Clustering | None, clusters: Sequence[CentredCluster]
) -> list[Move]:
    """Where the passages of a page are to be; those of another model stay where they are."""
    if clustering is None:
        return [Move(chunk, chunk.cluster_ids) for chunk in page]
    present = [each for each in clusters if each.cluster.run_id == clustering.run_id]
    comparable = [chunk for chunk in page if chunk.model == clustering.model]
    others = [chunk for chunk in page if chunk.model != clustering.model]
    numbers = nearest_topics(
        np.array([chunk.vector for chunk in comparable], np.float32),
        np.array([each.centroid for each in present], np.float32),
        np.array([each.reach for each in present]),
    )
    ids = [each.cluster.cluster_id for each in present]
    return [Move(chunk, chunk.cluster_ids) for chunk in others] + [
        Move(chunk, (ids[number],) if number >= 0 else ())
        for chunk, number in zip(comparable, numbers, strict=True)
    ]
