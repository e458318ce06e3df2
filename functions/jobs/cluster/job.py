"""Maintains the clusters of the knowledge base: rebuilds them when due, and assigns new chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


_CHANGES: Final = ("placed", "topics", "named")
"""If any of these counts of a report is not zero, sizes or names of clusters have changed."""


async def cluster(ctx: Context, budget: Budget) -> Report:
    """Bring the clusters up to date with the chunks.

    If little has changed, new chunks are assigned to the current clusters. If the clustering is
    outdated, all chunks are clustered again; if there is no time to read them all, new chunks are
    assigned to the current clusters instead. In both cases, the chunks also get points on the map.
    A clustering without a map, such as that of the sample, gets one. Then the language model names
    new clusters, cluster sizes are counted, and empty clusters are deleted.

    The report counts new clusters as `topics` and assigned chunks as `placed`. Run records store
    these names.

    The next run continues where a killed run stopped, but reads all chunks again if it has to
    cluster them. With nothing to do, a run costs four reads, five with a language model, and one
    more for every thousand chunks in clusters.
    """
    # NumPy and the modules that use it are imported only when the job runs.
    from functions.jobs.cluster.assignment import assign_pending
    from functions.jobs.cluster.drawing import draw_stored_clusters
    from functions.jobs.cluster.reclustering import recluster
    from functions.jobs.cluster.schedule import REEMBEDDING, is_due, load_state

    report = Report()
    embedding = await EmbeddingSpace(ctx.database).load_state()
    # Without a space there are no vectors, and during a migration there are not all of them.
    if embedding.space is None or embedding.migration:
        report.note = REEMBEDDING if embedding.migration else ""
        return report
    state = await load_state(*embedding.space, ctx)
    needs_reclustering = await is_due(state, ctx, report)
    has_reclustered = needs_reclustering and await recluster(state, ctx, budget, report)
    has_map = state.clustering is not None and state.clustering.mapped
    # If the clustering was made with another model, new chunks cannot be compared with it. They
    # then wait for the next clustering, unless none is due.
    waits_for_reclustering = needs_reclustering and not state.is_comparable
    if state.pending_count and not has_reclustered and not waits_for_reclustering:
        clustering = state.clustering if state.is_comparable else None
        has_map &= await assign_pending(clustering, state.dimension, ctx, budget, report)
    if state.clustering and state.is_comparable and not has_map and not needs_reclustering:
        await draw_stored_clusters(state.clustering, state.dimension, ctx, budget, report)
    await name_clusters(ctx, budget, report)
    await _count_sizes(state, ctx, report)
    return report


async def _count_sizes(state_before: ClusteringState, ctx: Context, report: Report) -> None:
    """Count how many chunks each cluster has, if sizes or names may have changed."""
    if state_before.has_outdated_sizes or any(report.counts[name] for name in _CHANGES):
        clustering = await Clusterings(ctx.database).load()
        if clustering:
            await Clusterings(ctx.database).recount(clustering)


async def count_pending(ctx: Context) -> int:
    """Count the chunks that are waiting to be assigned to a cluster."""
    return await ChunkQueue(ctx.database).count_pending("cluster")


JOB = Job(
    name="cluster",
    title="Group passages into clusters",
    run=cluster,
    total=count_pending,
    schedule="4 * * * *",
    capabilities=frozenset({Capability.GENERATION}),
    memory=4096,
)
