"""Find passages by what they mean."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, Field, StringConstraints

from shared.ai.embedding import Purpose
from shared.caller import Tier
from shared.retrieval.snippets import snippet
from shared.tool import Arguments, Effect, Result, Tool

if TYPE_CHECKING:
    from shared.deps import Deps
    from shared.store.chunks import Neighbour

EMPTY = "Nothing can be found here yet. The owner puts texts in with `carrel ingest PATH`."


class In(Arguments):
    """What to look for."""

    query: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)
    ] = Field(
        description="What the passages should be about, in plain words: a question or a topic.",
        validation_alias=AliasChoices("query", "q"),
    )
    limit: int = Field(default=10, ge=1, le=50, description="How many passages at most.")


class Hit(Result):
    """A passage that was found."""

    rank: int = Field(description="1 for the best.")
    chunk_id: str = Field(description="Its id, for get_chunk.")
    source_id: str = Field(description="Id of the source it belongs to.")
    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    snippet: str = Field(description="How it begins; get_chunk returns the whole text.")
    summary: str | None = Field(description="The summary of its knowledge card, once one was made.")
    similarity: float = Field(
        description="Cosine similarity of query and passage: 1 the same, 0 unrelated.", ge=0, le=1
    )
    readwise_url: str | None = Field(description="The highlight, or its source, in Readwise.")
    source_url: str | None = Field(description="The original on the web.")
    highlight_url: str | None = Field(description="The highlight's place in the original.")


class Out(Result):
    """The passages, best first."""

    query: str = Field(description="The query as it was searched for.")
    results: list[Hit] = Field(description="Passages that fit the query, best first.")
    message: str | None = Field(description="What to know when there are no results.")


async def search_kb(args: In, deps: Deps) -> Out:
    """Search by meaning: one round trip, one more in the first call of a process."""
    vectors, embedded = await asyncio.gather(
        deps.embedder.embed([args.query], Purpose.QUERY),
        deps.store.embedding_space.expect(deps.embedder),
    )
    if not embedded:
        return Out(query=args.query, results=[], message=EMPTY)
    found = await deps.store.chunks.nearest(vectors[0], args.limit)
    hits = [_hit(rank, neighbour) for rank, neighbour in enumerate(found, start=1)]
    return Out(query=args.query, results=hits, message=None if hits else EMPTY)


def _hit(rank: int, neighbour: Neighbour) -> Hit:
    chunk = neighbour.chunk
    return Hit(
        rank=rank,
        chunk_id=chunk.chunk_id,
        source_id=chunk.source_id,
        title=chunk.title,
        author=chunk.author,
        snippet=snippet(chunk.content),
        summary=chunk.knowledge_card.summary if chunk.knowledge_card else None,
        similarity=round(neighbour.similarity, 4),
        readwise_url=chunk.readwise_url,
        source_url=chunk.source_url,
        highlight_url=chunk.highlight_url,
    )


TOOL = Tool(
    name="search_kb",
    title="Search the knowledge base",
    description=(
        "Search the reading highlights and notes in this knowledge base by meaning. Use it first"
        " whenever a question may be answered by what the owner has read or written. It returns"
        " short hits, nearest first, even where none of them answers the question: judge by what"
        " they say and by their similarity. Read a promising hit in full with get_chunk. If you"
        " already have a chunk_id, call get_chunk instead."
    ),
    input=In,
    output=Out,
    run=search_kb,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
)
