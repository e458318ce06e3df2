"""Keep the topics of the knowledge base: make them when it is time, and sort new passages in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from functions.jobs.cluster.model_names import name_clusters
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.queue import ChunkQueue
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from functions.jobs.cluster.schedule import ClusteringState
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def cluster(ctx: Context, budget: Budget) -> Report:
    """Bring the topics to what the passages are.

    Where little has changed, new passages are put among the present topics. Where enough has, or
    something long ago, topics are made anew of all passages; if there is no time to read them all,
    the new ones are put among the present topics all the same. Either way their sizes are counted,
    and those that are left without passages go.

    Killed anywhere, the next run does what is left; to make topics it reads all passages again.
    With nothing to do it costs four reads, five with a language model, and one more for every
    thousand passages that have a topic.
    """
    from functions.jobs.cluster.assignment import assign_pending
    from functions.jobs.cluster.reclustering import recluster
    from functions.jobs.cluster.schedule import MOVING, is_due, standing

    report = Report()
    embedding = await EmbeddingSpace(ctx.database).standing()
    if embedding.space is None or embedding.move:
        report.note = MOVING if embedding.move else ""
        return report
    now = await standing(embedding.space[0], ctx)
    due = await is_due(now, ctx, report)
    made = due and await recluster(now, ctx, budget, report)
    if now.waiting and not made and (now.usable or not due):
        await assign_pending(now.clustering if now.usable else None, ctx, budget, report)
    await _count(now, ctx, report)
    await name_clusters(ctx, budget, report)
    return report


async def _count(before: ClusteringState, ctx: Context, report: Report) -> None:
    """Count how many passages each topic has, if that may have changed."""
    if before.uncounted or report.counts["placed"] or report.counts["topics"]:
        clustering = await Clusterings(ctx.database).present()
        if clustering:
            await Clusterings(ctx.database).recount(clustering)


async def waiting(ctx: Context) -> int:
    """How many passages wait to be put among topics."""
    return await ChunkQueue(ctx.database).count_pending("cluster")


JOB = Job(
    name="cluster",
    title="Sort passages into topics",
    run=cluster,
    total=waiting,
    schedule="23 * * * *",
    capabilities=frozenset({Capability.GENERATION}),
    memory=4096,
)
