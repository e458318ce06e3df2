"""Read one chunk whole, with its knowledge card, its cluster and the chunks related to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import AliasChoices, Field

from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.views import Addresses
from shared.runtime.schemas import Arguments, DocumentId, Result
from shared.runtime.tool import Effect, Links, ResourceTemplate, Tool
from shared.text.snippets import snippet

if TYPE_CHECKING:
    from shared.index.vector_index import Neighbour
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.chunk_repository import StoredChunk
    from shared.knowledge.cluster import Cluster
    from shared.runtime.context import Context


class In(Arguments):
    """Which chunk, and how much around it."""

    chunk_id: DocumentId = Field(
        description="The chunk's id, as search_kb returns it.",
        validation_alias=AliasChoices("chunk_id", "id"),
    )
    include_related: bool = Field(
        default=True, description="Whether to look for chunks that are close in meaning."
    )
    related_limit: int = Field(
        default=5, ge=1, le=20, description="How many related chunks to return at most."
    )


class KnowledgeCard(Result):
    """What a chunk says, in short."""

    summary: str = Field(description="The chunk in a sentence or two.")
    takeaways: list[str] = Field(description="What to remember of it.")


class ClusterMembership(Result):
    """The topics a chunk belongs to."""

    cluster_id: list[str] = Field(description="Ids of all its clusters.")
    cluster_name: str | None = Field(description="Name of the first of them.")
    description: str | None = Field(description="What the first of them is about.")


class RelatedChunk(Result):
    """A chunk that is close in meaning."""

    chunk_id: str = Field(description="Its id, for get_chunk.")
    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    snippet: str = Field(description="How it begins.")
    similarity_score: float = Field(
        description="Cosine similarity of the two chunks: 1 the same, 0 unrelated.", ge=0, le=1
    )


class Out(Addresses):
    """A chunk with what belongs to it."""

    chunk_id: str = Field(description="The chunk's id.")
    source_id: str = Field(description="Id of its source, for get_source.")
    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    source: str = Field(description="Where the source came from, such as kindle, reader or file.")
    tags: list[str] = Field(description="Tags of the source and of the highlight.")
    content: str = Field(description="The chunk's whole text, as its author wrote it.")
    chunk_info: str = Field(description="Its place in the source: 2/5 is the second of five.")
    date: str | None = Field(
        description="When it was highlighted, else when it was put in: YYYY-MM-DD, in UTC."
    )
    knowledge_card: KnowledgeCard | None = Field(description="Its summary, once one was made.")
    cluster: ClusterMembership | None = Field(description="Its topics, if it belongs to any.")
    related_chunks: list[RelatedChunk] = Field(description="Chunks close in meaning, best first.")


async def get_chunk(args: In, ctx: Context) -> Out:
    """Read a chunk: two round trips, and at most 1 + (related_limit + 1) documents and clusters."""
    stored = await Chunks(ctx.database).get(args.chunk_id)
    if stored is None:
        raise NotFound(
            f"There is no chunk {args.chunk_id}. Ids change when a text is edited: find the"
            " present ones with search_kb.",
            details={"chunk_id": args.chunk_id},
        )
    related, clusters = await asyncio.gather(
        _related(stored, args, ctx), Clusters(ctx.database).get_all(stored.chunk.cluster_id)
    )
    return _out(stored.chunk, related, clusters)


async def _related(stored: StoredChunk, args: In, ctx: Context) -> list[Neighbour[Chunk]]:
    """Neighbours of the chunk, without itself, which is asked for since it comes first."""
    if stored.vector is None or not args.include_related:
        return []
    found = await Chunks(ctx.database).nearest(stored.vector, args.related_limit + 1)
    others = [each for each in found if each.document.id != stored.chunk.chunk_id]
    return others[: args.related_limit]


def _out(chunk: Chunk, related: list[Neighbour[Chunk]], clusters: list[Cluster]) -> Out:
    card = chunk.knowledge_card
    return Out.of(
        chunk,
        source=chunk.origin,
        knowledge_card=KnowledgeCard.of(card) if card else None,
        cluster=_membership(chunk, clusters),
        related_chunks=[_related_chunk(neighbour) for neighbour in related],
    )


def _membership(chunk: Chunk, clusters: list[Cluster]) -> ClusterMembership | None:
    if not chunk.cluster_id:
        return None
    first = clusters[0] if clusters else None
    return ClusterMembership(
        cluster_id=list(chunk.cluster_id),
        cluster_name=first.name if first else None,
        description=first.description if first else None,
    )


def _related_chunk(neighbour: Neighbour[Chunk]) -> RelatedChunk:
    chunk = neighbour.document
    return RelatedChunk.of(
        chunk,
        snippet=snippet(chunk.content),
        similarity_score=round(neighbour.similarity, 4),
    )


TOOL = Tool(
    name="get_chunk",
    title="Get a chunk",
    description=(
        "Read one passage of the knowledge base in full: its text, title, author, tags and links,"
        " its knowledge card (summary and takeaways), its topic, and other passages close in"
        " meaning. Use it when a search_kb hit looks right and you need its whole text, or to"
        " walk from one passage to related ones; one call replaces separate look-ups of card and"
        " neighbours. It needs a chunk_id: to find passages by what they say, use search_kb."
    ),
    input=In,
    output=Out,
    run=get_chunk,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    resource=ResourceTemplate(
        uri="carrel://chunk/{chunk_id}",
        name="chunk",
        title="Chunk",
        description="One passage in full, with its knowledge card, its topic and related passages.",
    ),
    links=Links(items="related_chunks", uri="carrel://chunk/{chunk_id}", name="title"),
)
