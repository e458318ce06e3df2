"""Say how large the knowledge base is, and what it is made of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.caller import Tier
from shared.domain.facet import HAS_CARD, Kind
from shared.store.chunk_documents import STEPS
from shared.tool import Arguments, Effect, Result, Tool

if TYPE_CHECKING:
    from shared.deps import Deps
    from shared.store.index_lists import FacetName

TOP: Final = 10
"""How many tags and authors are named."""
MOST_CATEGORIES: Final = 20


class In(Arguments):
    """Nothing."""


class Named(Result):
    """A tag, an author or a category."""

    name: str = Field(description="How it is written.")
    chunks: int = Field(description="How many passages bear it, as of the last indexing.")


class Embedding(Result):
    """What the passages are embedded with."""

    model: str = Field(description="The model.")
    dimension: int = Field(description="The length of its vectors.")


class Out(Result):
    """The knowledge base in numbers."""

    chunks: int = Field(description="How many passages there are.")
    sources: int = Field(description="How many sources they are from.")
    clusters: int = Field(description="How many topics they fall into.")
    with_cards: int = Field(description="How many passages have a knowledge card.")
    newest: str | None = Field(description="The latest date of a passage: YYYY-MM-DD, in UTC.")
    top_tags: list[Named] = Field(description="The ten tags of most passages.")
    top_authors: list[Named] = Field(description="The ten authors of most passages.")
    categories: list[Named] = Field(description="The kinds of sources, those of most passages.")
    embedding: Embedding | None = Field(description="The embedding model, once one was used.")
    waiting: dict[str, int] = Field(
        description="How many passages wait for each job: until then search misses them or what"
        " is new in them."
    )


async def get_stats(_args: In, deps: Deps) -> Out:
    """Count everything: one round trip; a read for each name, and for 1,000 of what is counted."""
    store = deps.store
    totals, names, waiting, newest, stamp = await asyncio.gather(
        asyncio.gather(
            store.chunk_lists.count(),
            store.sources.count(),
            store.clusters.count(),
            store.chunk_lists.count_bearing(HAS_CARD),
        ),
        asyncio.gather(
            store.index_lists.names(Kind.TAG, TOP),
            store.index_lists.names(Kind.AUTHOR, TOP),
            store.index_lists.names(Kind.CATEGORY, MOST_CATEGORIES),
        ),
        asyncio.gather(*map(store.steps.count_pending, STEPS)),
        store.chunks.newest(1),
        store.embedding_space.stamp(),
    )
    chunks, sources, clusters, with_cards = totals
    tags, authors, categories = map(_named, names)
    dates = [each.dated_at for each in newest if each.dated_at]
    return Out(
        chunks=chunks,
        sources=sources,
        clusters=clusters,
        with_cards=with_cards,
        newest=f"{dates[0]:%Y-%m-%d}" if dates else None,
        top_tags=tags,
        top_authors=authors,
        categories=categories,
        embedding=Embedding(model=stamp[0], dimension=stamp[1]) if stamp else None,
        waiting=dict(zip(STEPS, waiting, strict=True)),
    )


def _named(names: list[FacetName]) -> list[Named]:
    return [Named(name=each.name, chunks=each.count) for each in names]


TOOL = Tool(
    name="get_stats",
    title="Get statistics",
    description=(
        "Say how large the knowledge base is: passages, sources, topics and knowledge cards; its"
        " commonest tags and authors and its kinds of sources, with counts; its newest passage, and"
        " what still waits to be indexed. Use it to learn what there is before choosing filters of"
        " search_kb, or when a search finds too little. For what was read lately use get_recent; to"
        " list sources or topics, list_sources or list_clusters."
    ),
    input=In,
    output=Out,
    run=get_stats,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
