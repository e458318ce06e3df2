"""Making the topics anew, of all passages."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from functions.jobs.cluster.planning import CENTRAL, plan_clusters
from shared.clustering.clusters import find_clusters
from shared.clustering.naming import ClusterDescription, TitledText, describe_clusters
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import PAGE, ClusterAssignment, Clustering, Clusterings
from shared.runtime.job import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from functions.jobs.cluster.planning import ClusterPlan
    from functions.jobs.cluster.schedule import ClusteringState
    from shared.knowledge.clustering_repository import AssignedChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Report

READING: Final = 0.6
"""The share of a run's time after which it gives up reading, to put new passages in at least."""
NO_TIME: Final = (
    "there was no time to read all passages: no topics were made anew; new passages join the"
    " present ones, if there are any"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Base:
    """What is embedded.

    Attributes:
        chunks: The chunks, by their ids.
        vectors: Their vectors, `(chunks, dimension)`.
    """

    chunks: list[AssignedChunk]
    vectors: NDArray[np.float32]


async def recluster(now: ClusteringState, ctx: Context, budget: Budget, report: Report) -> bool:
    """Find topics, name those that are new, and put every passage where it belongs.

    The topics are written first, then the passages. A run that is killed before the topics are
    written, or finds no time to read all passages, leaves nothing behind: the next reads them
    again. One that is killed after that, or out of time, is completed by the next: it reads all
    passages, finds the same topics, knows them by their members, and writes what is left.

    It reads every passage once, and of each topic `CENTRAL` ones again if one needs a name.

    Returns:
        Whether there was time to read all passages; if not, the report says so.
    """
    began = time.monotonic()
    reading = Budget(began + READING * (budget.deadline - began))
    base = await _read_all(now.model, ctx, reading)
    if base is None:
        report.finished, report.note = False, NO_TIME
        return False
    topics = await asyncio.to_thread(find_clusters, base.vectors)
    plans = plan_clusters(topics, base.chunks, await Clusters(ctx.database).every())
    clustering = await _write(plans, now.model, len(base.chunks), ctx)
    report.counts["topics"] += len(plans)
    if await _place_all(base.chunks, plans, ctx, budget, report):
        await Clusterings(ctx.database).set(replace(clustering, unfinished=False))
    return True


async def _read_all(model: str, ctx: Context, budget: Budget) -> _Base | None:
    """Read them page by page; None: there was no time to."""
    chunks: list[AssignedChunk] = []
    blocks: list[NDArray[np.float32]] = []
    async for page in Clusterings(ctx.database).embedded(model):
        if budget.spent:
            return None
        chunks += [replace(chunk, vector=()) for chunk in page]
        blocks.append(np.array([chunk.vector for chunk in page], np.float32))
    return _Base(chunks, np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32))


async def _write(
    plans: Sequence[ClusterPlan], model: str, passages: int, ctx: Context
) -> Clustering:
    """Store the topics, and how they came about."""
    descriptions = await _described(plans, ctx)
    now = ctx.clock()
    run_id = f"cluster.{now:%Y%m%dT%H%M%S}"
    await Clusters(ctx.database).put(
        [
            plan.cluster(description, run_id, now)
            for plan, description in zip(plans, descriptions, strict=True)
        ]
    )
    clustering = Clustering(
        model=model, run_id=run_id, made_at=now, passages=passages, unfinished=True
    )
    await Clusterings(ctx.database).set(clustering)
    return clustering


async def _described(plans: Sequence[ClusterPlan], ctx: Context) -> list[ClusterDescription]:
    """What topics are called: what they were, or else by their words, set against all others'."""
    known = [plan.description for plan in plans]
    if all(known):
        return [each for each in known if each]
    central = [plan.members[:CENTRAL] for plan in plans]
    texts = await Clusterings(ctx.database).texts([name for names in central for name in names])
    passages = [[TitledText(*texts[name]) for name in names if name in texts] for names in central]
    return await asyncio.to_thread(describe_clusters, passages, known)


async def _place_all(
    chunks: Sequence[AssignedChunk],
    plans: Sequence[ClusterPlan],
    ctx: Context,
    budget: Budget,
    report: Report,
) -> bool:
    """Put every passage where it belongs; tell whether there was time to."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for plan in plans:
        for name in plan.members:
            places[name].append(plan.cluster_id)
    for start in range(0, len(chunks), PAGE):
        if budget.spent:
            report.finished = False
            return False
        page = chunks[start : start + PAGE]
        moves = [_move(chunk, places[chunk.chunk_id]) for chunk in page]
        report.counts["placed"] += await Clusterings(ctx.database).move(
            moves, ctx.clock(), since=False
        )
        budget.progress(sum(chunk.waiting for chunk in page))
    return True


def _move(chunk: AssignedChunk, wanted: Sequence[str]) -> ClusterAssignment:
    """Where a passage is to be; topics that it stays in keep their order."""
    stays = [name for name in chunk.cluster_ids if name in wanted]
    return ClusterAssignment(chunk, tuple(dict.fromkeys([*stays, *wanted])))
