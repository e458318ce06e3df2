"""The sample's knowledge cards and clusters, in the shape that the jobs for them write."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from functions.jobs.ingest.readers.reading import read
from shared.clustering.clusters import centroid_of, reach_of
from shared.clustering.projection import project
from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.chunk import KnowledgeCard, chunks_of
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.clustering_repository import Clustering, Clusterings
from shared.knowledge.source import Source
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report
from shared.text.chunking import split_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

    ChunkIds = dict[int, list[str]]
    """Highlight id to the ids of its chunks, in order."""

FOLDER: Final = Path(__file__).parent
RUN_ID: Final = "sample"
"""What made these clusters."""
_HIGHLIGHT_URL: Final = "https://readwise.io/open/{}"


class _Authored(BaseModel):
    """What a person wrote into `knowledge.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SampleCard(_Authored):
    """The card of a highlight, or of one of the chunks that a long one becomes."""

    highlight: int
    part: int = Field(default=1, ge=1, description="Which of the highlight's chunks.")
    summary: Annotated[str, Field(min_length=1, max_length=400)]
    takeaways: Annotated[tuple[str, ...], Field(min_length=3, max_length=5)]


class SampleCluster(_Authored):
    """A cluster. Its members are highlights, with all their chunks."""

    cluster_id: str
    name: str
    description: str
    keywords: Annotated[tuple[str, ...], Field(min_length=5, max_length=8)]
    members: tuple[int, ...]


class SampleKnowledge(_Authored):
    """All that `knowledge.json` holds."""

    cards: tuple[SampleCard, ...]
    clusters: tuple[SampleCluster, ...]


async def add_knowledge(ctx: Context, folder: Path = FOLDER) -> Counter[str]:
    """Bring the cards and clusters of the sample's chunks to what `knowledge.json` says.

    The sample must be ingested and embedded. What is so already is not written again. Highlights
    that the export lacks, because somebody put another in its place, are passed over. Once a run of
    the cluster job has made clusters of all passages, those stand, and the sample's stay away.

    Returns:
        How many `cards` were written, and how many `topic documents`: topics and their members.
    """
    knowledge, chunk_ids = await asyncio.to_thread(_read, folder)
    now = ctx.clock()
    cards = cards_by_chunk(knowledge, chunk_ids)
    written = Counter({"cards": await Cards(ctx.database).save(cards, BY_HAND, now)})
    members = members_by_cluster(knowledge, chunk_ids)
    named = sorted({chunk_id for each in members.values() for chunk_id in each})
    vectors = await Clusters(ctx.database).vectors(named)
    clusters = with_centroids(knowledge.clusters, members, vectors)
    if clusters:
        written["topic documents"] = await _save_clusters(clusters, members, now, ctx)
    return +written


async def _save_clusters(
    clusters: Sequence[ClusterWithCentroid],
    members: Mapping[str, Sequence[str]],
    now: datetime,
    ctx: Context,
) -> int:
    """Put the topics in, unless a run of the cluster job has made others of all passages since.

    The cluster job goes on from there: it puts new passages among them, and makes topics anew once
    enough has changed.
    """
    clusterings, model = Clusterings(ctx.database), ctx.embedder.model
    present = await clusterings.present()
    if present and present.run_id != RUN_ID:
        return 0
    written = await Clusters(ctx.database).save(clusters, members, RUN_ID, now)
    if present is None:
        passages = await clusterings.count_embedded(model)
        await clusterings.set(
            Clustering(model=model, run_id=RUN_ID, made_at=now, passages=passages)
        )
    elif written:
        await clusterings.count_again()
    return written


def chunks_by_highlight(export: Path) -> dict[str, list[str]]:
    """The ids of each highlight's chunks, by its page in Readwise, as ingest would cut them."""
    found: dict[str, list[str]] = {}
    for source in read(export):
        if isinstance(source, Source):
            for chunk in chunks_of(source, [split_chunks(each.text) for each in source.sections]):
                found.setdefault(chunk.readwise_url or "", []).append(chunk.chunk_id)
    return found


def cards_by_chunk(knowledge: SampleKnowledge, chunk_ids: ChunkIds) -> dict[str, KnowledgeCard]:
    """The card of each chunk that has one."""
    return {
        chunk_ids[card.highlight][card.part - 1]: KnowledgeCard(card.summary, card.takeaways)
        for card in knowledge.cards
        if card.part <= len(chunk_ids.get(card.highlight, ()))
    }


def members_by_cluster(knowledge: SampleKnowledge, chunk_ids: ChunkIds) -> dict[str, list[str]]:
    """The chunks of each cluster."""
    return {
        topic.cluster_id: [name for each in topic.members for name in chunk_ids.get(each, ())]
        for topic in knowledge.clusters
    }


def with_centroids(
    topics: Sequence[SampleCluster],
    members: Mapping[str, Sequence[str]],
    vectors: Mapping[str, Vector],
) -> list[ClusterWithCentroid]:
    """Clusters with their centroids and places on the map; none of what has no vector yet."""
    points = {
        topic: np.array([vectors[name] for name in members[topic.cluster_id] if name in vectors])
        for topic in topics
    }
    present = {topic: found for topic, found in points.items() if len(found)}
    centroids = [centroid_of(found) for found in present.values()]
    return [
        ClusterWithCentroid(_cluster(topic, place), tuple(centroid.tolist()), reach_of(found))
        for (topic, found), centroid, place in zip(
            present.items(), centroids, project(centroids), strict=True
        )
    ]


def _read(folder: Path) -> tuple[SampleKnowledge, ChunkIds]:
    written = (folder / "knowledge.json").read_text(encoding="utf-8")
    knowledge = SampleKnowledge.model_validate_json(written)
    by_page = chunks_by_highlight(folder / "readwise.json")
    named = {card.highlight for card in knowledge.cards}
    named |= {each for topic in knowledge.clusters for each in topic.members}
    return knowledge, {each: by_page.get(_HIGHLIGHT_URL.format(each), []) for each in named}


def _cluster(topic: SampleCluster, place: tuple[float, float]) -> Cluster:
    x, y = place
    return Cluster(
        topic.cluster_id, topic.name, topic.description, keywords=topic.keywords, x=x, y=y
    )


async def _run(ctx: Context, budget: Budget) -> Report:
    report = Report(await add_knowledge(ctx))
    budget.progress(1)
    return report


async def _one(_context: Context) -> int:
    return 1


KNOWLEDGE: Final = Job(
    name="sample",
    title="Add the sample's cards and topics",
    run=_run,
    total=_one,
    schedule="",
    capabilities=frozenset({Capability.EMBEDDING}),
)
"""Run by `make run` between embed and index, like the jobs that will make cards and topics."""
