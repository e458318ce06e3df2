"""Stores the sample's knowledge cards and clusters, as the jobs `cards` and `cluster` would.

They were written by hand, for the highlights in `readwise.json`: marked passages of books and
articles, each of which becomes one or more chunks. A knowledge card contains the summary and the
takeaways of a chunk, and a cluster is a group of chunks that are close in meaning.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from functions.jobs.cluster.planning import to_matrix
from functions.jobs.ingest.batches import chunk_source
from functions.jobs.ingest.listing import read
from shared.clustering.clusters import compute_centroid, compute_min_similarity
from shared.knowledge.cards import BY_HAND, Cards
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.clustering_repository import Clustering, Clusterings
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import Source
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report
from shared.text.splitting import CHUNK_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget
    from shared.text.splitting import Limits

    ChunkIds = dict[int, list[str]]
    """The ids of a highlight's chunks, in order, by highlight id."""

FOLDER: Final = Path(__file__).parent
RUN_ID: Final = "sample"
"""The id of the run that the sample's clusters name as theirs."""
_HIGHLIGHT_URL: Final = "https://readwise.io/open/{}"
"""The template of a highlight's URL, which contains its id."""


class _Authored(BaseModel):
    """An entry of `knowledge.json`, which a person wrote."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SampleCard(_Authored):
    """The knowledge card of a chunk of a highlight. Those of a highlight are in its order."""

    highlight: int
    summary: Annotated[str, Field(min_length=1, max_length=400)]
    takeaways: Annotated[tuple[str, ...], Field(min_length=3, max_length=5)]


class SampleCluster(_Authored):
    """A cluster of highlights, with all their chunks."""

    cluster_id: str
    name: str
    description: str
    keywords: Annotated[tuple[str, ...], Field(min_length=5, max_length=8)]
    members: tuple[int, ...]


class SampleKnowledge(_Authored):
    """The content of `knowledge.json`."""

    cards: tuple[SampleCard, ...]
    clusters: tuple[SampleCluster, ...]


async def add_knowledge(ctx: Context, folder: Path = FOLDER) -> Counter[str]:
    """Store the cards and clusters of `knowledge.json` that differ from the stored ones.

    The sample must be ingested and embedded. Highlights that are missing from the export, because a
    user replaced the file, are skipped. Clusters are not stored once the cluster job has made its
    own.

    Returns:
        The numbers of written `cards` and `cluster documents`, which are clusters and members.
    """
    limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
    knowledge, chunk_ids = await asyncio.to_thread(_read, folder, limits)
    now = ctx.clock()
    cards = map_cards_by_chunk(knowledge, chunk_ids)
    counts = Counter({"cards": await Cards(ctx.database).save(cards, BY_HAND, now)})
    members = map_members_by_cluster(knowledge, chunk_ids)
    chunk_ids_of_members = sorted({chunk_id for ids in members.values() for chunk_id in ids})
    vectors = await Clusters(ctx.database).load_chunk_vectors(chunk_ids_of_members)
    clusters = add_centroids(knowledge.clusters, members, vectors, ctx.embedder.model)
    if clusters:
        counts["cluster documents"] = await _save_clusters(clusters, members, now, ctx)
    return +counts


async def _save_clusters(
    clusters: Sequence[ClusterWithCentroid],
    members: Mapping[str, Sequence[str]],
    now: datetime,
    ctx: Context,
) -> int:
    """Store the clusters, unless the cluster job has already made its own from all passages.

    Afterwards the cluster job assigns new passages to these clusters, and clusters all passages
    again once enough of them have changed.

    Returns:
        The number of written documents.
    """
    clusterings = Clusterings(ctx.database)
    model = ctx.embedder.model
    current = await clusterings.load()
    if current and current.run_id != RUN_ID:
        return 0
    written_count = await Clusters(ctx.database).save_with_members(clusters, members, RUN_ID, now)
    if current is None:
        passages = await clusterings.count_embedded(model)
        await clusterings.save(
            Clustering(model=model, run_id=RUN_ID, made_at=now, passages=passages)
        )
    elif written_count:
        await clusterings.mark_uncounted()
    return written_count


def map_chunks_by_highlight(export: Path, limits: Limits) -> dict[str, list[Chunk]]:
    """Map each highlight's Readwise URL to the chunks that the ingest job makes of it."""
    chunks: defaultdict[str, list[Chunk]] = defaultdict(list)
    for source in read(export):
        if isinstance(source, Source):
            for chunk in chunk_source(source, limits).chunks:
                chunks[chunk.readwise_url or ""].append(chunk)
    return chunks


def map_cards_by_chunk(knowledge: SampleKnowledge, chunk_ids: ChunkIds) -> dict[str, KnowledgeCard]:
    """Return the cards of chunks by chunk id.

    A long highlight has cards for the chunks that the local model gets. With another model, its
    chunks are others, and have no cards.
    """
    cards: defaultdict[int, list[KnowledgeCard]] = defaultdict(list)
    for card in knowledge.cards:
        cards[card.highlight].append(KnowledgeCard(card.summary, card.takeaways))
    return {
        chunk_id: card
        for highlight, cards_in_order in cards.items()
        if len(cards_in_order) == len(chunk_ids[highlight])
        for chunk_id, card in zip(chunk_ids[highlight], cards_in_order, strict=True)
    }


def map_members_by_cluster(knowledge: SampleKnowledge, chunk_ids: ChunkIds) -> dict[str, list[str]]:
    """Return the chunk ids of each cluster by cluster id."""
    return {
        cluster.cluster_id: [
            chunk_id for highlight in cluster.members for chunk_id in chunk_ids.get(highlight, ())
        ]
        for cluster in knowledge.clusters
    }


def add_centroids(
    clusters: Sequence[SampleCluster],
    members: Mapping[str, Sequence[str]],
    vectors: Mapping[str, bytes],
    model: str,
) -> list[ClusterWithCentroid]:
    """Add centroids to clusters, and drop clusters without vectors."""
    arrays = {}
    for cluster in clusters:
        chunk_ids = members[cluster.cluster_id]
        member_vectors = [vectors[chunk_id] for chunk_id in chunk_ids if chunk_id in vectors]
        if member_vectors:
            arrays[cluster] = to_matrix(member_vectors, model)
    return [
        ClusterWithCentroid(
            _to_cluster(cluster),
            tuple(compute_centroid(array).tolist()),
            compute_min_similarity(array),
        )
        for cluster, array in arrays.items()
    ]


def _read(folder: Path, limits: Limits) -> tuple[SampleKnowledge, ChunkIds]:
    """Read the cards and clusters, and the chunk ids of the highlights that they name."""
    text = (folder / "knowledge.json").read_text(encoding="utf-8")
    knowledge = SampleKnowledge.model_validate_json(text)
    by_page = map_chunks_by_highlight(folder / "readwise.json", limits)
    highlights = {card.highlight for card in knowledge.cards}
    highlights |= {member for cluster in knowledge.clusters for member in cluster.members}
    return knowledge, {
        highlight: [chunk.chunk_id for chunk in by_page[_HIGHLIGHT_URL.format(highlight)]]
        for highlight in highlights
    }


def _to_cluster(cluster: SampleCluster) -> Cluster:
    return Cluster(cluster.cluster_id, cluster.name, cluster.description, keywords=cluster.keywords)


async def _run(ctx: Context, budget: Budget) -> Report:
    report = Report(await add_knowledge(ctx))
    budget.progress(1)
    return report


async def _count_one_step(_context: Context) -> int:
    return 1


KNOWLEDGE: Final = Job(
    name="sample",
    title="Add the sample's cards and clusters",
    run=_run,
    total=_count_one_step,
    schedule="",
    capabilities=frozenset({Capability.EMBEDDING}),
)
"""`make run` runs this after the job `embed`, in place of the job `cards`."""
