"""Count what the knowledge base contains, and the passages that wait for the jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.core.caller import Tier
from shared.extractions.repository import count_extractions
from shared.index.embedding_space import EmbeddingSpace
from shared.index.facets import FIRST, HAS_CARD, LATER, Kind
from shared.index.postings import KNOWLEDGE, LAYOUT, InvertedIndex
from shared.knowledge.chunk_repository import STEPS, Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source_repository import Sources
from shared.runtime.schemas import FOR_APPS, Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Database
    from shared.index.postings import FacetCounts, FacetValue
    from shared.runtime.context import Context

MAX_TOP_ENTRIES: Final = 10
"""The number of tags, of authors, and of languages in the result."""
MAX_CATEGORIES: Final = 20
"""The maximum number of categories in the result."""


class In(Arguments):
    """No arguments."""


class NamedCount(Result):
    """A tag, an author or a category."""

    name: str = Field(description="The name.")
    chunks: int = Field(description="How many passages have it, as of the last indexing.")


class EmbeddingModel(Result):
    """The model that passages are embedded with."""

    model: str = Field(description="The model.")
    dimension: int = Field(description="The length of its vectors.")


class Out(Result):
    """The knowledge base in numbers."""

    chunks: int = Field(description="Number of passages.")
    sources: int = Field(description="Number of sources.")
    clusters: int = Field(description="Number of clusters.")
    unclustered: int = Field(description="How many passages are in no cluster.")
    with_cards: int = Field(
        description="Number of passages with a knowledge card.", json_schema_extra=FOR_APPS
    )
    extractions: dict[str, int] = Field(
        description="Number of decisions, patterns, warnings and methodologies found in them, by"
        " type. Types without any are left out."
    )
    newest: str | None = Field(description="Latest day of a passage, in TIME_ZONE.")
    top_tags: list[NamedCount] = Field(description="The ten most common tags.")
    top_authors: list[NamedCount] = Field(description="The ten most common authors.")
    categories: list[NamedCount] = Field(description="The kinds of sources, most common first.")
    languages: list[NamedCount] = Field(description="The languages of passages, most common first.")
    embedding: EmbeddingModel | None = Field(
        description="The embedding model, once one has been used.", json_schema_extra=FOR_APPS
    )
    waiting: dict[str, int] = Field(
        description="How many passages wait for each step. Search does not find those that wait for"
        " index, and finds those that wait for embed by words alone; card, cluster and extract add"
        " to what other tools return. Steps that no passage waits for are left out."
    )
    parked: dict[str, int] = Field(
        description="How many passages each step gave up on after five tries; steps without any"
        " are left out."
    )


async def get_stats(_args: In, ctx: Context) -> Out:
    """Count everything.

    Costs one round trip, with a read for each name and for every 1,000 sources, extractions and
    pending passages. While passages wait to be indexed, a call costs two round trips, and another
    read for every 1,000 passages.

    A stored counter of extractions would be cheaper, but every program that adds or removes
    extractions would have to update it, and 100,000 extractions cost only 100 reads.
    """
    database, steps = ctx.database, _list_steps(ctx)
    index, queue = InvertedIndex(database, KNOWLEDGE), ChunkQueue(database)
    (
        indexed,
        names,
        (pending_counts, parked_counts),
        extractions,
        others,
    ) = await asyncio.gather(
        index.count_documents([FIRST, LATER, HAS_CARD]),
        asyncio.gather(
            index.list_commonest(Kind.TAG, MAX_TOP_ENTRIES),
            index.list_commonest(Kind.AUTHOR, MAX_TOP_ENTRIES),
            index.list_commonest(Kind.CATEGORY, MAX_CATEGORIES),
            index.list_commonest(Kind.LANGUAGE, MAX_TOP_ENTRIES),
        ),
        asyncio.gather(
            asyncio.gather(*map(queue.count_pending, steps)),
            asyncio.gather(*map(queue.count_dead_letters, STEPS)),
        ),
        count_extractions(database),
        asyncio.gather(
            Clusters(database).count(),
            Sources(database).count(),
            Chunks(database).load_newest(1),
            EmbeddingSpace(database).load_space(),
            Clusterings(database).count_members(),
        ),
    )
    pending = dict(zip(steps, pending_counts, strict=True))
    dead_letters = dict(zip(STEPS, parked_counts, strict=True))
    cluster_count, source_count, newest, space, clustered_count = others
    is_indexed = not pending["index"] and not dead_letters["index"]
    chunk_count, with_cards = (
        _get_indexed_counts(indexed)
        if is_indexed and indexed.layout == LAYOUT
        else await _count_documents(database)
    )
    tags, authors, categories, languages = map(_to_named_counts, names)
    return Out(
        chunks=chunk_count,
        sources=source_count,
        clusters=cluster_count,
        unclustered=max(0, chunk_count - clustered_count),
        with_cards=with_cards,
        extractions={kind.value: count for kind, count in extractions.items() if count},
        newest=newest[0].format_day(ctx.zone) if newest else None,
        top_tags=tags,
        top_authors=authors,
        categories=categories,
        languages=languages,
        embedding=EmbeddingModel(model=space[0], dimension=space[1]) if space else None,
        waiting={step: count for step, count in pending.items() if count},
        parked={step: count for step, count in dead_letters.items() if count},
    )


def _get_indexed_counts(indexed: FacetCounts) -> Sequence[int]:
    """Return the number of chunks, and of chunks with a card, from the index."""
    counts = indexed.documents
    return counts[FIRST] + counts[LATER], counts[HAS_CARD]


async def _count_documents(database: Database) -> Sequence[int]:
    """Count chunks, and chunks with a card. Costs a read for every 1,000 of each."""
    chunks = Chunks(database)
    return await asyncio.gather(chunks.count(), chunks.count_with_card())


def _list_steps(ctx: Context) -> list[str]:
    """Return the steps that will run. Nothing is extracted without a language model."""
    extracts = ctx.settings.generation_provider != "extractive"
    return [step for step in STEPS if step != "extract" or extracts]


def _to_named_counts(values: list[FacetValue]) -> list[NamedCount]:
    return [NamedCount(name=value.name, chunks=value.count) for value in values]


TOOL = Tool(
    name="get_stats",
    title="Get statistics",
    description=(
        "Count passages, sources and clusters, and the most common tags, authors, categories and"
        " languages."
    ),
    input=In,
    output=Out,
    run=get_stats,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    settings=("generation_provider",),
)
