"""Read a chunk in full, with its knowledge card, its clusters and related chunks."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import AliasChoices, Field

from shared.clustering.class_tfidf import find_words
from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.core.ids import parse_source_id
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.copies import fold
from shared.knowledge.notes_about import MAX_NOTES, to_note_summaries
from shared.knowledge.views import (
    DATE,
    Addresses,
    Copy,
    NoteSummary,
    format_copies,
    format_note,
    format_place,
    format_title,
    to_copies,
)
from shared.runtime.pagination import MaxTokens, fit_page
from shared.runtime.schemas import FOR_APPS, Arguments, DocumentId, Result
from shared.runtime.tool import Effect, ResourceTemplate, Tool
from shared.text.snippets import NEAR_LENGTH, make_snippet

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from shared.index.vector_index import Neighbour
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.chunk_repository import EmbeddedChunk
    from shared.knowledge.cluster import Cluster
    from shared.runtime.context import Context


MAX_SHARED_WORDS: Final = 3
"""The maximum number of words that say why a passage is related."""


class In(Arguments):
    """A passage, and the number of related passages."""

    chunk_id: DocumentId = Field(
        description="From search_kb.",
        validation_alias=AliasChoices("chunk_id", "id"),
    )
    include_related: bool = Field(
        default=True, description="Whether to return passages close in meaning."
    )
    related_limit: int = Field(default=5, ge=1, le=20, description="Maximum number of them.")
    max_tokens: MaxTokens = None


class CardResult(Result):
    """The knowledge card of a passage."""

    summary: str = Field(description="The passage in a sentence or two.")
    takeaways: list[str] = Field(description="Its main points.")


class ClusterMembership(Result):
    """The clusters of a passage."""

    cluster_id: list[str] = Field(description="Ids of its clusters, the main one first.")
    cluster_name: str | None = Field(description="Name of the main cluster.")
    description: str | None = Field(description="What the main cluster is about.")


class RelatedChunk(Result):
    """A passage close in meaning."""

    chunk_id: str = Field(description="Its id, for get_chunk.")
    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    snippet: str = Field(description="How it begins.")
    similarity_score: float = Field(
        description="Cosine similarity of the two passages: 1 the same, 0 unrelated.", ge=0, le=1
    )
    reason: str = Field(description="What both have: a tag, words, or only a meaning.")
    address: str | None = Field(description="URL of the passage or of its source.")
    also_in: list[Copy] | None = Field(description="Passages that say the same.")


class Out(Addresses):
    """A passage with its card, clusters and related passages."""

    always_included: ClassVar = ("readwise_url", "source_url", "highlight_url")
    chunk_id: str = Field(description="Its id. get_source takes it, too.")
    source_id: str = Field(description="Id of its source.", json_schema_extra=FOR_APPS)
    title: str = Field(description="Title of its source.")
    author: str | None = Field(description="Author of its source, if known.")
    source: str = Field(description="Where the source came from, such as kindle, reader or file.")
    tags: list[str] = Field(description="Tags of source and highlight.")
    origin_tags: list[str] | None = Field(
        description="If its own tags were edited, those of its origin.", json_schema_extra=FOR_APPS
    )
    revision: int | None = Field(
        description="Its revision, to edit its tags by edit_source; missing if never edited."
    )
    content: str = Field(description="The whole text, in the author's words.")
    chunk_info: str = Field(description="Its place in the source: 2/5, second of five.")
    date: str | None = Field(description=DATE)
    also_in: list[Copy] | None = Field(description="Of those close in meaning, what says the same.")
    knowledge_card: CardResult | None = Field(description="Its summary and takeaways, if any.")
    cluster: ClusterMembership | None = Field(description="Its clusters, if it has any.")
    related_chunks: list[RelatedChunk] = Field(
        description="Passages close in meaning, best first, with at most one of the same source."
    )
    about_id: str | None = Field(description="Of a note, the passage or source that it is about.")
    corrects: bool | None = Field(description="true if the note corrects that.")
    notes: list[NoteSummary] = Field(
        description="Notes about the passage or its source, corrections first, then the newest."
    )
    message: str | None = Field(description="What max_tokens left out.")


async def get_chunk(args: In, ctx: Context) -> Out:
    """Read a chunk.

    Costs two round trips, and reads at most 2 * related_limit + 2 chunks, MAX_NOTES notes and the
    chunk's clusters.
    """
    chunks = Chunks(ctx.database)
    stored, notes = await asyncio.gather(
        chunks.get(args.chunk_id),
        chunks.load_notes_about(
            "about_id", [args.chunk_id, parse_source_id(args.chunk_id)], MAX_NOTES
        ),
    )
    if stored is None:
        raise NotFound(
            f"There is no chunk {args.chunk_id}. Ids change when a text is edited. Search again"
            " with search_kb.",
            details={"chunk_id": args.chunk_id},
        )
    neighbours, clusters = await asyncio.gather(
        _find_related(stored, args, ctx), Clusters(ctx.database).get_many(stored.chunk.cluster_id)
    )
    out = _build_out(stored.chunk, neighbours, clusters, notes, ctx.zone)
    return out if args.max_tokens is None else _shorten(out, args.max_tokens)


async def _find_related(stored: EmbeddedChunk, args: In, ctx: Context) -> list[Neighbour[Chunk]]:
    if not args.include_related:
        return []
    return await Chunks(ctx.database).find_related(stored, args.related_limit)


def _build_out(
    chunk: Chunk,
    neighbours: list[Neighbour[Chunk]],
    clusters: list[Cluster],
    notes: list[Chunk],
    zone: tzinfo,
) -> Out:
    card = chunk.shown_card
    copies = fold([chunk, *(neighbour.document for neighbour in neighbours)])
    related = [
        _to_related_chunk(chunk, neighbour, copies[neighbour.document.id])
        for neighbour in neighbours
        if neighbour.document.id in copies
    ]
    return Out.of(
        chunk,
        source=chunk.origin,
        date=chunk.format_date(zone),
        knowledge_card=CardResult.of(card) if card else None,
        cluster=_build_membership(chunk, clusters),
        related_chunks=related,
        also_in=to_copies(copies[chunk.id]),
        notes=to_note_summaries(notes, zone),
        message=None,
    )


def _shorten(out: Out, max_tokens: int) -> Out:
    """Leave out what does not fit: the last related passages, and then the last notes."""
    text = out.model_copy(update={"notes": [], "related_chunks": []})
    notes = fit_page(out.notes, max_tokens, other_parts=[text], min_items=0)
    related = fit_page(out.related_chunks, max_tokens, other_parts=[text, *notes], min_items=0)
    omitted = len(out.notes) - len(notes) + len(out.related_chunks) - len(related)
    message = f"max_tokens left out {omitted} notes and related passages." if omitted else None
    return text.model_copy(update={"notes": notes, "related_chunks": related, "message": message})


def _build_membership(chunk: Chunk, clusters: list[Cluster]) -> ClusterMembership | None:
    if not chunk.cluster_id:
        return None
    # A chunk may name clusters that no longer exist, until clustering runs again.
    main = next((item for item in clusters if item.cluster_id == chunk.cluster_id[0]), None)
    return ClusterMembership(
        cluster_id=list(chunk.cluster_id),
        cluster_name=main.name if main else None,
        description=main.description if main else None,
    )


def _to_related_chunk(
    chunk: Chunk, neighbour: Neighbour[Chunk], copies: Iterable[Chunk]
) -> RelatedChunk:
    related = neighbour.document
    return RelatedChunk.of(
        related,
        snippet=make_snippet(related.content, NEAR_LENGTH),
        similarity_score=round(neighbour.similarity, 2),
        reason=_explain(chunk, related),
        also_in=to_copies(copies),
    )


def _explain(chunk: Chunk, related: Chunk) -> str:
    """Name a tag that two passages share, or the words that both use most, else their meaning."""
    if tag := next((tag for tag in chunk.tags if tag in related.tags), None):
        return f"tag {tag}"
    counts = Counter(term for term, _, _ in find_words(chunk.content))
    spellings = {
        term: related.content[start:end] for term, start, end in find_words(related.content)
    }
    shared = sorted(counts.keys() & spellings, key=lambda term: (-counts[term], -len(term), term))
    words = ", ".join(spellings[term] for term in shared[:MAX_SHARED_WORDS])
    return f"both: {words}" if words else "similar meaning"


def format_result(out: Out) -> str:
    """Return the passage as text."""
    place = format_place(out.page, out.location)
    facts = [out.source, out.chunk_info, out.date, out.chapter, place]
    heading = f"{format_title(out.title, out.author)} ({', '.join(filter(None, facts))})"
    card, cluster = out.knowledge_card, out.cluster
    lines = [
        *([f"Summary: {card.summary}", *(f"- {item}" for item in card.takeaways)] if card else []),
        *filter(None, [out.highlight_url, out.source_url, out.readwise_url]),
        f"ID: {out.chunk_id}"
        + (f", tags: {', '.join(out.tags)}" if out.tags else "")
        + (f", revision {out.revision}" if out.revision else ""),
        *filter(None, [format_copies(out.also_in)]),
        *([_format_membership(cluster)] if cluster else []),
        *([f"It {'corrects' if out.corrects else 'is about'} {out.about_id}"] * bool(out.about_id)),
        *map(format_note, out.notes),
    ]
    related = ["Related:", *map(_format_related, out.related_chunks)] if out.related_chunks else []
    paragraphs = [f"{heading}\n{out.content}", "\n".join(lines), "\n".join(related), out.message]
    return "\n\n".join(filter(None, paragraphs))


def _format_membership(cluster: ClusterMembership) -> str:
    name = " ".join(filter(None, [cluster.cluster_name, f"(ID: {', '.join(cluster.cluster_id)})"]))
    return f"Cluster: {': '.join(filter(None, [name, cluster.description]))}"


def _format_related(related: RelatedChunk) -> str:
    facts = f"(ID: {related.chunk_id}, score {related.similarity_score:.2f}, {related.reason}):"
    title, also_in = format_title(related.title, related.author), format_copies(related.also_in)
    parts = [title, facts, related.snippet, related.address, also_in]
    return f"- {' '.join(filter(None, parts))}"


TOOL = Tool(
    name="get_chunk",
    title="Get a passage",
    description=(
        "Read a passage in full, with its summary, its notes and the passages close in meaning."
        " For a whole source use get_source."
    ),
    input=In,
    output=Out,
    run=get_chunk,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.PUBLIC,
    resource=ResourceTemplate(
        uri="carrel://chunk/{chunk_id}",
        name="chunk",
        title="Passage",
        description="A passage in full, with its knowledge card, cluster and related passages.",
    ),
)
