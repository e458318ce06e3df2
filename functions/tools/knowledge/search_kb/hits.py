"""The passages that search_kb returns."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from itertools import count
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

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ONLY_OF_ANSWERS: Final = (
    *("address", "content", "summary", "takeaways", "cluster", "answering"),
    *("about", "notes", "further_notes"),
)
"""The fields that a hit lacks which is only near."""


class Detail(StrEnum):
    """How much is returned of a passage."""

    LEAN = "lean"
    FULL = "full"


class Hit(AnnotatedPassage):
    """A passage that was found."""

    near: bool | None = Field(
        description="true: it is not likely to answer, only near. Its beginning is shown."
    )
    answering: int | None = Field(description="How many passages of its source answer.")
    content: str | None = Field(description="With detail full, the whole text instead of snippet.")
    summary: str | None = Field(
        description="Summary of its knowledge card: with detail full, or with search_cards_only."
    )
    takeaways: list[str] | None = Field(description="Its main points, likewise.")
    rank: int = Field(
        description="1 for the best; numbering continues across pages.", json_schema_extra=FOR_APPS
    )
    score: float | None = Field(
        description="Cosine similarity of query and passage: 1 the same, 0 unrelated; missing if"
        " they were not compared by meaning. The order also depends on words."
    )
    cluster: str | None = Field(description="Id of its main cluster, which clusters names.")
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
    takeaways: bool,
    terms: Collection[str] = (),
    candidates: Mapping[str, Candidate[Chunk]] = _NOTHING,
    answering: Mapping[str, int] = _NOTHING,
) -> tuple[list[Hit], dict[str, str]]:
    """Convert chunks to hits, and return the names of clusters by id.

    Costs one round trip, for the names of clusters and for notes about the chunks.

    Args:
        chunks: The chunks, best first.
        takeaways: Whether to return knowledge cards even without full detail.
        terms: The query's terms, which excerpts show.
        candidates: The chunks' scores, by chunk id; empty for a listing by date.
        answering: The number of passages that answer, by source id, if each is shown once.
    """
    main_clusters = {chunk.chunk_id: chunk.cluster_id[0] for chunk in chunks if chunk.cluster_id}
    names, annotations = await asyncio.gather(
        Clusters(ctx.database).list_names({*main_clusters.values()}),
        load_annotations(chunks, zone, ctx.database),
    )
    full = detail is Detail.FULL
    ranks = count(first_rank)
    excerpts = share_excerpts([chunk.content for chunk in chunks], terms)
    hits = [
        to_passage(
            Hit,
            chunk.cite(excerpt.offset),
            zone,
            rank=next(ranks),
            near=None,
            answering=answering.get(chunk.source_id),
            snippet=None if full else excerpt.text,
            **_match(
                excerpt.matched
                or find_matching_words(f"{chunk.title} {chunk.author or ''}", terms),
                candidates.get(chunk.chunk_id),
            ),
            cluster=cluster if (cluster := main_clusters.get(chunk.chunk_id)) in names else None,
            summary=chunk.summary if full or takeaways else None,
            takeaways=_get_takeaways(chunk) if full or takeaways else None,
            content=chunk.content if full else None,
            **annotations[chunk.chunk_id],
        )
        for chunk, excerpt in zip(chunks, excerpts, strict=True)
    ]
    return hits, names


def make_near_hits(
    chunks: Sequence[Chunk],
    zone: tzinfo,
    first_rank: int,
    candidates: Mapping[str, Candidate[Chunk]],
) -> list[Hit]:
    """Convert chunks that do not answer to hits with what one needs to choose among them."""
    return [
        to_passage(
            Hit,
            replace(chunk, tags=()),
            zone,
            rank=rank,
            near=True,
            snippet=make_snippet(chunk.content, NEAR_LENGTH),
            **_match([], candidates[chunk.chunk_id]),
            **dict.fromkeys(_ONLY_OF_ANSWERS),
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
