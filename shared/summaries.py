"""What several tools say of a source, or of a cluster, in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from shared.runtime.tool import Result

if TYPE_CHECKING:
    from shared.domain.cluster import Cluster
    from shared.store.sources import StoredSource


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
