"""When the knowledge base is clustered again. To find out costs a handful of reads."""

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
"""The job clusters at most this many passages: their vectors of 768 numbers take 600 MB, twice."""
CHANGED_SHARE: Final = 0.1
"""Passages are clustered again at once when this share of them has changed."""
MIN_CHANGED: Final = 10
"""At least this many passages must have changed: in a small base a handful is soon a tenth."""
MAX_AGE: Final = timedelta(days=7)
"""After this time, any change is enough to cluster again."""
REEMBEDDING: Final = "The knowledge base is being embedded again; its clusters stay as they are."
TOO_FEW: Final = f"There are fewer than {MIN_PASSAGES} passages: no clusters yet."
TOO_MANY: Final = (
    f"There are more than {MAX_PASSAGES:,} passages: this job does not cluster them again, see"
    " docs/operations.md."
)


@dataclass(frozen=True, slots=True)
class ClusteringState:
    """The present clustering, and what has changed since.

    Attributes:
        model: The embedding model of the knowledge base.
        clustering: The last clustering, if there is one.
        pending: The number of passages that wait to be assigned to a cluster.
        members: The number of passages that belong to a cluster.
    """

    model: str
    clustering: Clustering | None
    pending: int
    members: int

    @property
    def outdated_sizes(self) -> bool:
        """Whether clusters must be counted again: passages were added, moved or deleted."""
        past = self.clustering
        return past is not None and (past.uncounted or past.members != self.members)

    @property
    def comparable(self) -> bool:
        """Whether the clusters and new passages have vectors of the same model."""
        return self.clustering is not None and self.clustering.model == self.model


async def load_state(model: str, ctx: Context) -> ClusteringState:
    """Load the state: three reads, and one for every thousand passages pending or in a cluster."""
    clustering, pending, members = await asyncio.gather(
        Clusterings(ctx.database).present(),
        ChunkQueue(ctx.database).count_pending("cluster"),
        Clusterings(ctx.database).count_members(),
    )
    return ClusteringState(model, clustering, pending, members)


async def is_due(state: ClusteringState, ctx: Context, report: Report) -> bool:
    """Whether to cluster again now; if the number of passages forbids it, the report says so."""
    if not has_changed(state, ctx.clock()):
        return False
    passages = await Clusterings(ctx.database).count_embedded(state.model)
    if passages < MIN_PASSAGES:
        report.note = TOO_FEW
    elif passages > MAX_PASSAGES:
        report.note = TOO_MANY
    return MIN_PASSAGES <= passages <= MAX_PASSAGES


def has_changed(state: ClusteringState, now: datetime) -> bool:
    """Whether enough has changed since the last clustering, or anything at all long ago."""
    past = state.clustering
    if past is None or past.unfinished or past.model != state.model:
        return True
    changed = past.changed + state.pending + max(0, past.members - state.members)
    is_enough = changed >= max(MIN_CHANGED, CHANGED_SHARE * past.passages)
    return is_enough or (changed > 0 and now - past.made_at >= MAX_AGE)
