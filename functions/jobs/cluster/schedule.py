"""When the topics are to be made anew. To know it costs a handful of reads."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.clustering.clusters import FEWEST
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.queue import ChunkQueue

if TYPE_CHECKING:
    from datetime import datetime

    from shared.knowledge.clustering_repository import Clustering
    from shared.runtime.context import Context
    from shared.runtime.job import Report

MOST: Final = 200_000
"""Passages that the job makes topics of: their vectors of 768 numbers take 600 MB, twice."""
SHARE: Final = 0.1
"""Which share of the passages has to change before the topics are made anew at once."""
FEW: Final = 10
"""And how many, at least: in a small base a handful is soon a share."""
SOMETIME: Final = timedelta(days=7)
"""After how long any change will do."""
MOVING: Final = "the base is being embedded anew: its topics stay what they are until that is done"
TOO_FEW: Final = f"fewer than {FEWEST} passages: no topics yet"
TOO_MANY: Final = (
    f"more than {MOST:,} passages: topics are not made anew by this job, see docs/operations.md"
)


@dataclass(frozen=True, slots=True)
class ClusteringState:
    """How things stand.

    Attributes:
        model: What the base is embedded with.
        clustering: How the present topics came about, if any did.
        waiting: How many passages wait to be put among topics.
        members: How many belong to one.
    """

    model: str
    clustering: Clustering | None
    waiting: int
    members: int

    @property
    def uncounted(self) -> bool:
        """Whether the topics' sizes are to be counted again: passages came, moved or were lost."""
        past = self.clustering
        return past is not None and (past.uncounted or past.members != self.members)

    @property
    def usable(self) -> bool:
        """Whether passages can be put among the present topics: their vectors are alike."""
        return self.clustering is not None and self.clustering.model == self.model


async def standing(model: str, ctx: Context) -> ClusteringState:
    """Look: three reads, and one for every thousand passages that wait or belong to a topic."""
    clustering, waiting, members = await asyncio.gather(
        Clusterings(ctx.database).present(),
        ChunkQueue(ctx.database).count_pending("cluster"),
        Clusterings(ctx.database).count_members(),
    )
    return ClusteringState(model, clustering, waiting, members)


async def is_due(now: ClusteringState, ctx: Context, report: Report) -> bool:
    """Whether topics are to be made anew, and can be; if they cannot, the report says why."""
    if not wanted(now, ctx.clock()):
        return False
    passages = await Clusterings(ctx.database).count_embedded(now.model)
    if passages < FEWEST:
        report.note = TOO_FEW
    elif passages > MOST:
        report.note = TOO_MANY
    return FEWEST <= passages <= MOST


def wanted(now: ClusteringState, time: datetime) -> bool:
    """Whether enough has changed, or something long enough ago."""
    past = now.clustering
    if past is None or past.unfinished or past.model != now.model:
        return True
    changed = past.changed + now.waiting + max(0, past.members - now.members)
    enough = changed >= max(FEW, SHARE * past.passages)
    return enough or (changed > 0 and time - past.made_at >= SOMETIME)
