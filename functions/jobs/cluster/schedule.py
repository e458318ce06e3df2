"""Decides whether to cluster all chunks again, at the cost of a few reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.clustering.clusters import MIN_PASSAGES
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.queue import ChunkQueue

if TYPE_CHECKING:
    from datetime import datetime

    from shared.knowledge.clustering_repository import Clustering
    from shared.runtime.context import Context
    from shared.runtime.job import Report

MAX_PASSAGES: Final = 200_000
"""The maximum number of chunks that the job clusters. Two copies of their vectors take 1.2 GB."""
CHANGED_SHARE: Final = 0.1
"""When this share of the passages has changed, they are clustered again without waiting."""
MIN_CHANGED_CHUNKS: Final = 10
"""The minimum number of changed chunks for that. In a small knowledge base, a few are a tenth."""
MAX_AGE: Final = timedelta(days=7)
"""When the clustering is this old, any change is enough to cluster again."""
REEMBEDDING: Final = "The knowledge base is being embedded again; its clusters stay as they are."
TOO_FEW: Final = f"There are fewer than {MIN_PASSAGES} passages: no clusters yet."
TOO_MANY: Final = (
    f"There are more than {MAX_PASSAGES:,} passages: this job does not cluster them again, see"
    " docs/deploy.md."
)


@dataclass(frozen=True, slots=True)
class ClusteringState:
    """The current clustering, and the changes since."""

    model: str
    dimension: int
    clustering: Clustering | None
    pending_count: int
    member_count: int

    @property
    def has_outdated_sizes(self) -> bool:
        """Whether cluster sizes may be wrong, because chunks were added, moved or deleted."""
        clustering = self.clustering
        return clustering is not None and (
            clustering.uncounted or clustering.members != self.member_count
        )

    @property
    def is_comparable(self) -> bool:
        """Whether the clusters and new chunks have vectors of the same model."""
        return self.clustering is not None and self.clustering.model == self.model


async def load_state(model: str, dimension: int, ctx: Context) -> ClusteringState:
    """Load the state.

    Costs three reads, and one more for every thousand chunks that are pending or in a cluster.
    """
    clustering, pending_count, member_count = await asyncio.gather(
        Clusterings(ctx.database).load(),
        ChunkQueue(ctx.database).count_pending("cluster"),
        Clusterings(ctx.database).count_members(),
    )
    return ClusteringState(model, dimension, clustering, pending_count, member_count)


async def is_due(state: ClusteringState, ctx: Context, report: Report) -> bool:
    """Return whether to cluster again now.

    If there are too few or too many chunks for that, the report says so.
    """
    if not has_changed(state, ctx.clock()):
        return False
    passage_count = await Clusterings(ctx.database).count_embedded(state.model)
    if passage_count < MIN_PASSAGES:
        report.note = TOO_FEW
    elif passage_count > MAX_PASSAGES:
        report.note = TOO_MANY
    return MIN_PASSAGES <= passage_count <= MAX_PASSAGES


def has_changed(state: ClusteringState, now: datetime) -> bool:
    """Return whether the clustering is outdated.

    It is outdated if many chunks have changed since, or if it is old and any chunk has changed;
    also if it is unfinished, or of another embedding model.
    """
    clustering = state.clustering
    if clustering is None or clustering.unfinished or clustering.model != state.model:
        return True
    deleted_count = max(0, clustering.members - state.member_count)
    changed_count = clustering.changed + state.pending_count + deleted_count
    is_enough = changed_count >= max(MIN_CHANGED_CHUNKS, CHANGED_SHARE * clustering.passages)
    return is_enough or (changed_count > 0 and now - clustering.made_at >= MAX_AGE)
