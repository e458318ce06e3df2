"""Clusters all chunks again."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from functions.jobs.cluster.drawing import MapDrawing
from functions.jobs.cluster.planning import NAMING_SAMPLE_SIZE, plan_clusters, to_matrix
from shared.clustering.clusters import find_clusters
from shared.clustering.naming import ClusterDescription, describe_clusters
from shared.core.blocks import split
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import (
    PAGE_SIZE,
    ClusterAssignment,
    Clustering,
    Clusterings,
)
from shared.runtime.job import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from functions.jobs.cluster.planning import ClusterPlan
    from functions.jobs.cluster.schedule import ClusteringState
    from shared.knowledge.cluster_repository import ClusterWithCentroid
    from shared.knowledge.clustering_repository import AssignedChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Report

READING_SHARE: Final = 0.6
"""A run stops reading after this share of its time, so that it can at least assign the new
chunks."""
NO_TIME: Final = (
    "There was no time to read all passages, so they were not clustered again. New passages are"
    " assigned to the current clusters, if there are any."
)


@dataclass(frozen=True, slots=True, eq=False)
class _Embeddings:
    """All embedded chunks, and their vectors, `(chunks, dimension)`."""

    chunks: list[AssignedChunk]
    vectors: NDArray[np.float32]


async def recluster(state: ClusteringState, ctx: Context, budget: Budget, report: Report) -> bool:
    """Find clusters, describe the new ones, and assign every chunk.

    Clusters are written before chunks. A run that is killed or out of time before it writes them
    changes nothing. After that, the next run completes it: it reads all chunks, finds the same
    clusters, recognises them by their members, and writes the remaining assignments.

    Reads every chunk, and for the map their ids again. If any cluster needs a name, it also reads
    the `NAMING_SAMPLE_SIZE` most central chunks of every cluster a second time.

    Returns:
        Whether there was time to read all chunks. If not, the report says so.
    """
    began = time.monotonic()
    reading = Budget(began + READING_SHARE * (budget.deadline - began))
    embeddings = await _read_embeddings(state, ctx, reading)
    if embeddings is None:
        report.finished = False
        report.note = NO_TIME
        return False
    chunks = embeddings.chunks
    clusters = await asyncio.to_thread(find_clusters, embeddings.vectors)
    plans = plan_clusters(clusters, chunks, await Clusters(ctx.database).load_all())
    clustering, stored_clusters = await _write_clusters(plans, state.model, len(chunks), ctx)
    report.counts["topics"] += len(plans)
    assignments = _make_assignments(chunks, plans)
    drawing = MapDrawing(stored_clusters)
    chunk_ids = [chunk.chunk_id for chunk in chunks]
    drawing.add(chunk_ids, embeddings.vectors, [entry.cluster_ids for entry in assignments])
    await drawing.store(clustering, ctx)
    if await _assign_chunks(assignments, ctx, budget, report):
        await Clusterings(ctx.database).save(replace(clustering, unfinished=False, mapped=True))
    return True


async def _read_embeddings(
    state: ClusteringState, ctx: Context, budget: Budget
) -> _Embeddings | None:
    """Read all embedded chunks page by page. Return None if time runs out."""
    chunks: list[AssignedChunk] = []
    blocks: list[NDArray[np.float32]] = []
    async for page in Clusterings(ctx.database).iterate_embedded(state.model, state.dimension):
        if budget.spent:
            return None
        chunks += [replace(chunk, vector=b"") for chunk in page]
        blocks.append(to_matrix([chunk.vector for chunk in page], state.model))
    return _Embeddings(chunks, np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32))


async def _write_clusters(
    plans: Sequence[ClusterPlan], model: str, passage_count: int, ctx: Context
) -> tuple[Clustering, list[ClusterWithCentroid]]:
    descriptions = await _describe(plans, ctx)
    now = ctx.clock()
    run_id = f"cluster.{now:%Y%m%dT%H%M%S}"
    clusters = [
        plan.build_cluster(description, run_id, now)
        for plan, description in zip(plans, descriptions, strict=True)
    ]
    await Clusters(ctx.database).put_clusters(clusters)
    clustering = Clustering(
        model=model, run_id=run_id, made_at=now, passages=passage_count, unfinished=True
    )
    await Clusterings(ctx.database).save(clustering)
    return clustering, clusters


async def _describe(plans: Sequence[ClusterPlan], ctx: Context) -> list[ClusterDescription]:
    """Return the descriptions of all clusters: those that they keep, and new ones.

    New descriptions consist of the most distinctive words.
    """
    current = [plan.description for plan in plans]
    if all(current):
        return [description for description in current if description]
    central = [plan.members[:NAMING_SAMPLE_SIZE] for plan in plans]
    chunk_ids = [chunk_id for members in central for chunk_id in members]
    texts = await Clusterings(ctx.database).load_texts(chunk_ids)
    passages = [
        [texts[chunk_id] for chunk_id in members if chunk_id in texts] for members in central
    ]
    return await asyncio.to_thread(describe_clusters, passages, current)


def _make_assignments(
    chunks: Sequence[AssignedChunk], plans: Sequence[ClusterPlan]
) -> list[ClusterAssignment]:
    cluster_ids: defaultdict[str, list[str]] = defaultdict(list)
    for plan in plans:
        for chunk_id in plan.members:
            cluster_ids[chunk_id].append(plan.cluster_id)
    return [_make_assignment(chunk, cluster_ids[chunk.chunk_id]) for chunk in chunks]


async def _assign_chunks(
    assignments: Sequence[ClusterAssignment], ctx: Context, budget: Budget, report: Report
) -> bool:
    """Assign every chunk to its clusters. Return whether there was time for all."""
    for page in split(assignments, PAGE_SIZE):
        if budget.spent:
            report.finished = False
            return False
        report.counts["placed"] += await Clusterings(ctx.database).assign(
            page, ctx.clock(), count_as_changed=False
        )
        budget.progress(sum(assignment.chunk.pending for assignment in page))
    return True


def _make_assignment(chunk: AssignedChunk, cluster_ids: Sequence[str]) -> ClusterAssignment:
    """Assign a chunk to clusters. Those that it is in already come first, in their order."""
    kept_ids = [cluster_id for cluster_id in chunk.cluster_ids if cluster_id in cluster_ids]
    return ClusterAssignment(chunk, tuple(dict.fromkeys([*kept_ids, *cluster_ids])))
