"""Chunks and sources as tools show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from shared.runtime.schemas import Result
from shared.text.snippets import snippet

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.cluster import Cluster
    from shared.knowledge.source_repository import StoredSource


class Addresses(Result):
    """Where a passage can be read outside Carrel."""

    readwise_url: str | None = Field(description="The highlight, or its source, in Readwise.")
    source_url: str | None = Field(description="The original on the web.")
    highlight_url: str | None = Field(description="The highlight's place in the original.")


class Passage(Addresses):
    """A passage in short."""

    chunk_id: str = Field(description="Its id, for get_chunk.")
    source_id: str = Field(description="Id of its source, for get_source.")
    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    source: str = Field(description="Where its source came from, such as kindle, reader or file.")
    tags: list[str] = Field(description="Tags of the source and of the highlight.")
    chunk_info: str = Field(description="Its place in the source: 2/5 is the second of five.")
    date: str | None = Field(
        description="When it was highlighted, else when it was put in: YYYY-MM-DD, in UTC."
    )
    snippet: str = Field(description="An excerpt; get_chunk returns the whole text.")
    summary: str | None = Field(description="The summary of its knowledge card, once one was made.")


def passage_fields(chunk: Chunk, excerpt: str | None = None) -> dict[str, Any]:
    """What `Passage` says of a chunk; its snippet is how it begins, unless another is given."""
    return {
        "chunk_id": chunk.chunk_id,
        "source_id": chunk.source_id,
        "title": chunk.title,
        "author": chunk.author,
        "source": chunk.source,
        "tags": list(chunk.tags),
        "chunk_info": chunk.chunk_info,
        "date": f"{chunk.dated_at:%Y-%m-%d}" if chunk.dated_at else None,
        "snippet": snippet(chunk.content) if excerpt is None else excerpt,
        "summary": chunk.knowledge_card.summary if chunk.knowledge_card else None,
        "readwise_url": chunk.readwise_url,
        "source_url": chunk.source_url,
        "highlight_url": chunk.highlight_url,
    }


class SourceSummary(Result):
    """A source in short."""

    source_id: str = Field(description="Its id, for get_source.")
    title: str = Field(description="Its title.")
    author: str | None = Field(description="Who wrote it, if known.")
    source: str = Field(description="Where it came from, such as kindle, reader or file.")
    category: str = Field(description="What it is, such as books, articles or documents.")
    tags: list[str] = Field(description="Tags of the whole source.")
    chunk_count: int = Field(description="How many passages it has.")
    updated: str = Field(description="When it last changed here: YYYY-MM-DD, in UTC.")
    source_url: str | None = Field(description="The original on the web.")
    readwise_url: str | None = Field(description="Its page in Readwise.")


class ClusterSummary(Result):
    """A topic in short."""

    cluster_id: str = Field(description="Its id, for get_cluster.")
    name: str = Field(description="A few words.")
    description: str | None = Field(description="What it is about.")
    keywords: list[str] = Field(description="What its passages talk of, the most telling first.")
    size: int = Field(description="How many passages belonged to it when topics were last made.")


def source_fields(source: StoredSource) -> dict[str, Any]:
    """What `SourceSummary` says of a source."""
    return {
        "source_id": source.source_id,
        "title": source.title,
        "author": source.author,
        "source": source.source,
        "category": source.category,
        "tags": list(source.tags),
        "chunk_count": source.chunk_count,
        "updated": f"{source.updated_at:%Y-%m-%d}",
        "source_url": source.source_url,
        "readwise_url": source.readwise_url,
    }


def cluster_fields(cluster: Cluster) -> dict[str, Any]:
    """What `ClusterSummary` says of a cluster."""
    return {
        "cluster_id": cluster.cluster_id,
        "name": cluster.name,
        "description": cluster.description,
        "keywords": list(cluster.keywords),
        "size": cluster.size,
    }
