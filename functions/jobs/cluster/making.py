"""Making the topics anew, of all passages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from functions.jobs.cluster.planning import CENTRAL, planned
from functions.jobs.cluster.reading import read_all
from shared.clustering.naming import Description, Passage, described
from shared.clustering.topics import find_topics
from shared.store.clustering import PAGE, Clustering, Clusterings, Move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.jobs.cluster.planning import Plan
    from shared.deps import Deps
    from shared.job import Budget, Report
    from shared.store.clustering import Placed


async def make_topics(model: str, deps: Deps, budget: Budget, report: Report) -> None:
    """Find topics, name those that are new, and put every passage where it belongs.

    First the topics are written, then the passages. A run that is killed in between finds the same
    topics again, and knows them by their members: it goes on with the passages that are left.

    It reads every passage once, and of each topic `CENTRAL` ones again if one needs a name.
    """
    base = await read_all(model, deps, budget)
    if base is None:
        report.finished = False
        return
    topics = await asyncio.to_thread(find_topics, base.vectors)
    plans = planned(topics, base.chunks, await deps.store.clusters.every())
    clustering = await _write(plans, model, len(base.chunks), deps)
    report.counts["topics"] += len(plans)
    if await _place_all(base.chunks, plans, deps, budget, report):
        await Clusterings(deps.store.database).set(replace(clustering, unfinished=False))


async def _write(plans: Sequence[Plan], model: str, passages: int, deps: Deps) -> Clustering:
    """Store the topics, and how they came about."""
    descriptions = await _described(plans, deps)
    now = deps.clock()
    run_id = f"cluster.{now:%Y%m%dT%H%M%S}"
    await deps.store.clusters.put(
        [
            plan.cluster(description, run_id, now)
            for plan, description in zip(plans, descriptions, strict=True)
        ]
    )
    clustering = Clustering(
        model=model, run_id=run_id, made_at=now, passages=passages, unfinished=True
    )
    await Clusterings(deps.store.database).set(clustering)
    return clustering


async def _described(plans: Sequence[Plan], deps: Deps) -> list[Description]:
    """What topics are called: what they were, or else by their words, set against all others'."""
    known = [plan.description for plan in plans]
    if all(known):
        return [each for each in known if each]
    central = [plan.members[:CENTRAL] for plan in plans]
    texts = await Clusterings(deps.store.database).texts(
        [name for names in central for name in names]
    )
    passages = [[Passage(*texts[name]) for name in names if name in texts] for names in central]
    return await asyncio.to_thread(described, passages, known)


async def _place_all(
    chunks: Sequence[Placed], plans: Sequence[Plan], deps: Deps, budget: Budget, report: Report
) -> bool:
    """Put every passage where it belongs; tell whether there was time to."""
    places = {name: (plan.cluster_id,) for plan in plans for name in plan.members}
    for start in range(0, len(chunks), PAGE):
        if budget.spent:
            report.finished = False
            return False
        page = chunks[start : start + PAGE]
        moves = [Move(chunk, places.get(chunk.chunk_id, ())) for chunk in page]
        report.counts["placed"] += await Clusterings(deps.store.database).move(
            moves, deps.clock(), since=False
        )
        budget.progress(sum(chunk.waiting for chunk in page))
    return True
