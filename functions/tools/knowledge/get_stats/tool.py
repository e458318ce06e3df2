"""Say how large the knowledge base is, and what it is made of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.core.caller import Tier
from shared.extractions.repository import count_extractions
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import HAS_CARD, Kind
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.chunk_repository import STEPS, ChunkLists, Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.golden_queries import SearchHealth as Nights
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source_repository import Sources
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.index.postings import FacetValue
    from shared.knowledge.golden_queries import NightlyScore
    from shared.runtime.context import Context

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


class Health(Result):
    """How well search finds, as the job `health` measures it each night.

    It asks the same queries each night, and knows of each which passage answers it.
    """

    date: str = Field(description="When it was last measured: YYYY-MM-DD, in UTC.")
    queries: int = Field(description="With how many queries.")
    recall_at_10: float = Field(
        description="For which share of them the passage was among the first ten results."
    )
    mrr: float = Field(
        description="How high up it was: the mean of 1 / place, 0 beyond the tenth; at most 1."
    )
    compared_with_before: float | None = Field(
        description="By how much recall_at_10 rose since the night before, over the queries of"
        " both; missing where there is nothing to compare."
    )


class Out(Result):
    """The knowledge base in numbers."""

    chunks: int = Field(description="How many passages there are.")
    sources: int = Field(description="How many sources they are from.")
    clusters: int = Field(description="How many topics they fall into.")
    with_cards: int = Field(description="How many passages have a knowledge card.")
    extractions: dict[str, int] = Field(
        description="How many decisions, patterns, warnings and methodologies were read out of"
        " them, by type."
    )
    newest: str | None = Field(description="The latest date of a passage: YYYY-MM-DD, in UTC.")
    top_tags: list[Named] = Field(description="The ten tags of most passages.")
    top_authors: list[Named] = Field(description="The ten authors of most passages.")
    categories: list[Named] = Field(description="The kinds of sources, those of most passages.")
    embedding: Embedding | None = Field(description="The embedding model, once one was used.")
    waiting: dict[str, int] = Field(
        description="How many passages wait for each step. Search misses those that wait for index,"
        " and finds those that wait for embed by their words alone; card, cluster and extract add"
        " what others show. extract is only there where a language model is configured."
    )
    parked: dict[str, int] = Field(
        description="How many passages a step was given up on, after five tries, by step; steps"
        " without any are left out."
    )
    health: Health | None = Field(
        description="How well search finds; missing before it was first measured."
    )


async def get_stats(_args: In, ctx: Context) -> Out:
    """Count everything: one round trip; a read for each name, and for 1,000 of what is counted."""
    database, steps = ctx.database, _steps(ctx)
    chunk_lists, lists = ChunkLists(database), InvertedIndex(database, KNOWLEDGE)
    totals, names, of_steps, extractions, others = await asyncio.gather(
        asyncio.gather(
            chunk_lists.count(),
            Sources(database).count(),
            Clusters(database).count(),
            chunk_lists.count_with_facet(HAS_CARD),
        ),
        asyncio.gather(
            lists.names(Kind.TAG, TOP),
            lists.names(Kind.AUTHOR, TOP),
            lists.names(Kind.CATEGORY, MOST_CATEGORIES),
        ),
        asyncio.gather(
            asyncio.gather(*map(ChunkQueue(database).count_pending, steps)),
            asyncio.gather(*map(ChunkQueue(database).count_dead_letters, STEPS)),
        ),
        count_extractions(database),
        asyncio.gather(
            Chunks(database).newest(1),
            EmbeddingSpace(database).stamp(),
            Nights(database).nights(),
        ),
    )
    chunks, sources, clusters, with_cards = totals
    waiting, parked = of_steps
    newest, stamp, nights = others
    tags, authors, categories = map(_named, names)
    dates = [each.dated_at for each in newest if each.dated_at]
    return Out(
        chunks=chunks,
        sources=sources,
        clusters=clusters,
        with_cards=with_cards,
        extractions={kind.value: count for kind, count in extractions.items()},
        newest=f"{dates[0]:%Y-%m-%d}" if dates else None,
        top_tags=tags,
        top_authors=authors,
        categories=categories,
        embedding=Embedding(model=stamp[0], dimension=stamp[1]) if stamp else None,
        waiting=dict(zip(steps, waiting, strict=True)),
        parked={step: count for step, count in zip(STEPS, parked, strict=True) if count},
        health=_health(nights),
    )


def _steps(ctx: Context) -> list[str]:
    """The steps that are done some day: without a language model, nothing is extracted."""
    extracts = ctx.settings.generation_provider != "extractive"
    return [step for step in STEPS if step != "extract" or extracts]


def _health(nights: Sequence[NightlyScore]) -> Health | None:
    if not nights:
        return None
    gained = nights[-1].gained(nights[-2]) if len(nights) > 1 else None
    return Health(
        date=nights[-1].date,
        queries=len(nights[-1].ranks),
        recall_at_10=round(nights[-1].recall, 3),
        mrr=round(nights[-1].mrr, 3),
        compared_with_before=None if gained is None else round(gained, 3),
    )


def _named(names: list[FacetValue]) -> list[Named]:
    return [Named(name=each.name, chunks=each.count) for each in names]


TOOL = Tool(
    name="get_stats",
    title="Get statistics",
    description=(
        "Say how large the knowledge base is: passages, sources, topics, knowledge cards and what"
        " was extracted; its commonest tags and authors and its kinds of sources, with counts; its"
        " newest passage, what still waits to be indexed, and how well search finds. Use it to"
        " learn what there is before choosing filters of search_kb, or when a search finds too"
        " little. For what was read lately use get_recent; to list sources or topics, list_sources"
        " or list_clusters."
    ),
    input=In,
    output=Out,
    run=get_stats,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    settings=("generation_provider",),
)
