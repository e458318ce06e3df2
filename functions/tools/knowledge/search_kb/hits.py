"""The passages that search_kb returns."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.notes_about import load_annotations
from shared.knowledge.views import (
    AnnotatedPassage,
    format_details,
    format_passage,
    format_title,
    to_copies,
    to_passage,
)
from shared.runtime.schemas import FOR_APPS
from shared.search.query import Mode
from shared.text.excerpts import find_matching_words, share_excerpts
from shared.text.snippets import NEAR_LENGTH, make_snippet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import tzinfo

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.query import Candidate
    from shared.text.excerpts import Excerpt

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ANSWER_ONLY_FIELDS: Final = (
    "address",
    "content",
    "summary",
    "takeaways",
    "cluster",
    "answering",
    "about",
    "notes",
    "further_notes",
)
"""The fields that a merely near hit lacks."""


class Detail(StrEnum):
    """How much is returned of a passage."""

    LEAN = "lean"
    FULL = "full"


class Hit(AnnotatedPassage):
    """A passage that was found."""

    near: bool | None = Field(
        description="true: merely near, not likely to answer. Only its beginning is shown."
    )
    answering: int | None = Field(
        description="How many passages of its source answer, with by_source."
    )
    content: str | None = Field(description="With detail full, the whole text instead of snippet.")
    summary: str | None = Field(
        description="Summary of its knowledge card: with detail full, or with search_cards_only."
    )
    takeaways: list[str] | None = Field(description="Its main points, in the same cases.")
    rank: int = Field(
        description="1 for the best; numbering continues across pages.", json_schema_extra=FOR_APPS
    )
    score: float | None = Field(
        description="Cosine similarity of query and passage: 1 the same, 0 unrelated; missing if"
        " their meaning was not compared. The order also depends on words."
    )
    cluster: str | None = Field(description="Id of its main cluster; clusters has the name.")
    matched_terms: list[str] = Field(
        description="The query's words in the spelling of the passage, or else of its title or"
        " author.",
        json_schema_extra=FOR_APPS,
    )
    found_by: list[Mode] = Field(
        description="What found it: semantic, lexical or both.", json_schema_extra=FOR_APPS
    )


async def make_hits(  # noqa: PLR0913 - keywords, each with its meaning
    chunks: Sequence[Chunk],
    ctx: Context,
    *,
    zone: tzinfo,
    first_rank: int,
    detail: Detail,
    include_card: bool,
    terms: Collection[str] = (),
    candidates: Mapping[str, Candidate[Chunk]] = _NOTHING,
    answering: Mapping[str, int] = _NOTHING,
    copies: Mapping[str, Sequence[Chunk]] = _NOTHING,
) -> tuple[list[Hit], dict[str, str]]:
    """Convert chunks to hits. Costs one round trip, for cluster names and notes about the chunks.

    Args:
        chunks: The chunks, best first.
        include_card: Whether to return summaries and takeaways even without full detail.
        terms: The query's terms, which excerpts show.
        candidates: The chunks' scores, by chunk id; empty for a listing by date.
        answering: The number of passages that answer, by source id, if each source is shown once.
        copies: Chunks that say the same as one of the chunks, by its id.

    Returns:
        The hits, and the names of their clusters by id.
    """
    cluster_ids = {chunk.cluster_id[0] for chunk in chunks if chunk.cluster_id}
    names, annotations = await asyncio.gather(
        Clusters(ctx.database).list_names(cluster_ids),
        load_annotations(chunks, zone, ctx.database, copies),
    )
    is_full = detail is Detail.FULL
    excerpts = share_excerpts([chunk.content for chunk in chunks], terms)
    hits = [
        _make_hit(
            chunk,
            excerpt,
            zone,
            include_card=is_full or include_card,
            include_content=is_full,
            rank=rank,
            answering=answering.get(chunk.source_id),
            cluster=_find_main_cluster(chunk, names),
            also_in=to_copies(copies.get(chunk.chunk_id, ())),
            **_match(
                excerpt.matched
                or find_matching_words(f"{chunk.title} {chunk.author or ''}", terms),
                candidates.get(chunk.chunk_id),
            ),
            **annotations[chunk.chunk_id],
        )
        for rank, (chunk, excerpt) in enumerate(zip(chunks, excerpts, strict=True), first_rank)
    ]
    return hits, names


def _make_hit(
    chunk: Chunk,
    excerpt: Excerpt,
    zone: tzinfo,
    *,
    include_card: bool,
    include_content: bool,
    **fields: Any,
) -> Hit:
    return to_passage(
        Hit,
        chunk.cite(excerpt.offset),
        zone,
        near=None,
        snippet=None if include_content else excerpt.text,
        content=chunk.content if include_content else None,
        summary=chunk.summary if include_card else None,
        takeaways=_get_takeaways(chunk) if include_card else None,
        **fields,
    )


def _find_main_cluster(chunk: Chunk, names: Mapping[str, str]) -> str | None:
    """Return the id of a chunk's first cluster, or None if that no longer exists."""
    cluster_id = chunk.cluster_id[0] if chunk.cluster_id else None
    return cluster_id if cluster_id in names else None


def make_near_hits(
    chunks: Sequence[Chunk],
    zone: tzinfo,
    first_rank: int,
    candidates: Mapping[str, Candidate[Chunk]],
) -> list[Hit]:
    """Convert chunks that do not answer to hits that show only what helps to choose among them."""
    return [
        to_passage(
            Hit,
            replace(chunk, tags=()),
            zone,
            rank=rank,
            near=True,
            snippet=make_snippet(chunk.content, NEAR_LENGTH),
            **_match([], candidates[chunk.chunk_id]),
            **dict.fromkeys(_ANSWER_ONLY_FIELDS),
        )
        for rank, chunk in enumerate(chunks, first_rank)
    ]


def format_hit(hit: Hit) -> str:
    """Return a hit as text."""
    if hit.near:
        heading = f"{format_title(hit.title, hit.author)} ({format_details(hit, hit.score)})"
        return f"- {heading}: {hit.snippet} ID: {hit.chunk_id}"
    takeaways = [f"- {takeaway}" for takeaway in hit.takeaways or ()]
    answering = f"Answering passages: {hit.answering}" if hit.answering else None
    texts = [hit.content or hit.snippet, hit.summary, *takeaways, answering]
    return f"{hit.rank}. {format_passage(hit, texts, hit.score)}"


def _match(matched: list[str], candidate: Candidate[Chunk] | None) -> dict[str, Any]:
    """Return the fields that show how a passage matches the query."""
    similarity = candidate.similarity if candidate else None
    modes = {
        Mode.SEMANTIC: candidate is not None and candidate.is_neighbour,
        Mode.LEXICAL: candidate is not None and candidate.bm25 > 0,
    }
    return {
        "score": None if similarity is None else round(similarity, 2),
        "matched_terms": matched,
        "found_by": [mode for mode, has_found in modes.items() if has_found],
    }


def _get_takeaways(chunk: Chunk) -> list[str] | None:
    return list(chunk.knowledge_card.takeaways) if chunk.knowledge_card else None
