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
from shared.firestore.documents import Reference
from shared.knowledge.cards import BY_HAND, STEP, build_card_change
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import Clusters, ClusterWithCentroid
from shared.knowledge.clustering_repository import ClusterAssignment, Clustering, Clusterings
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.queue import PENDING_FIELDS, ChunkQueue, StepResult, to_pending
from shared.knowledge.source import Source
from shared.text.splitting import CHUNK_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
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
    """Store the cards of passages that wait for one, and the clusters unless there are any.

    The sample must be ingested and embedded. The job `cluster` maintains the clusters from then on.

    Returns:
        The numbers of `cards` and `clusters` that were stored.
    """
    limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
    knowledge, chunk_ids = await asyncio.to_thread(_read, folder, limits)
    cards, now = map_cards_by_chunk(knowledge, chunk_ids), ctx.clock()
    results = [
        StepResult(chunk, build_card_change(cards[chunk.chunk_id], BY_HAND, now))
        for chunk in await load_pending(STEP, cards, ctx)
    ]
    card_count = await ChunkQueue(ctx.database).complete(STEP, results)
    return +Counter(cards=card_count, clusters=await _add_clusters(knowledge, chunk_ids, ctx))


async def load_pending(step: str, chunk_ids: Iterable[str], ctx: Context) -> list[PendingChunk]:
    """Load those of the chunks that wait for a step."""
    references = [Reference(CHUNKS, chunk_id) for chunk_id in chunk_ids]
    snapshots = await ctx.database.get_all(references, (*PENDING_FIELDS, "pending"))
    waiting = (snapshot for snapshot in snapshots if step in snapshot.fields.get("pending", {}))
    return [to_pending(step, snapshot) for snapshot in waiting]


async def _add_clusters(knowledge: SampleKnowledge, chunk_ids: ChunkIds, ctx: Context) -> int:
    """Store the clusters, unless there are any, and return their number."""
    clusterings, embedder, now = Clusterings(ctx.database), ctx.embedder, ctx.clock()
    if await clusterings.load():
        return 0
    pages = clusterings.iterate_embedded(embedder.model, embedder.dimension)
    chunks = {chunk.chunk_id: chunk async for page in pages for chunk in page}
    clusters: list[ClusterWithCentroid] = []
    cluster_ids: defaultdict[str, list[str]] = defaultdict(list)
    for cluster in knowledge.clusters:
        members = [name for highlight in cluster.members for name in chunk_ids[highlight]]
        if present := [chunks[name] for name in members if name in chunks]:
            matrix = to_matrix([chunk.vector for chunk in present], embedder.model)
            clusters.append(_to_cluster(cluster, matrix, now))
            for chunk in present:
                cluster_ids[chunk.chunk_id].append(cluster.cluster_id)
    await Clusters(ctx.database).put_clusters(clusters)
    assignments = [ClusterAssignment(chunks[name], tuple(ids)) for name, ids in cluster_ids.items()]
    await clusterings.assign(assignments, now, count_as_changed=False)
    clustering = Clustering(model=embedder.model, run_id=RUN_ID, made_at=now, passages=len(chunks))
    await clusterings.save(clustering)
    return len(clusters)


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


def _to_cluster(
    cluster: SampleCluster, vectors: NDArray[np.float32], now: datetime
) -> ClusterWithCentroid:
    return ClusterWithCentroid(
        Cluster(
            cluster.cluster_id,
            cluster.name,
            cluster.description,
            cluster.keywords,
            len(vectors),
            RUN_ID,
            now,
        ),
        tuple(compute_centroid(vectors).tolist()),
        compute_min_similarity(vectors),
    )
