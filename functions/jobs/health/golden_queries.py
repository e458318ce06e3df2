"""Chooses golden queries for known-item search: exactly one chunk answers each query.

Users write no test queries for their own knowledge base, so a query is a sentence from a chunk's
knowledge card, which rephrases the chunk, or else from the chunk itself. The chunks are a uniform
sample, and stay the same from night to night.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from shared.knowledge.golden_queries import GoldenQuery, SearchHealth
from shared.text.sentences import split_sentences
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context

SET_SIZE: Final = 20
"""The number of queries that the job chooses."""
MAX_QUERIES: Final = 25
"""The maximum number of queries in a night, including the user's own."""
MAX_EXTRA_SAMPLES: Final = 10
"""The maximum number of samples in excess of one for each query. They are needed because all chunks
of a sample may be in use already."""
MIN_TERMS: Final = 3
"""The minimum number of different terms of a query."""
MAX_LENGTH: Final = 300
"""The maximum number of characters of a query."""


async def choose_golden_queries(ctx: Context) -> list[GoldenQuery]:
    """Return tonight's queries: last night's, with replacements for queries whose chunks are gone.

    Costs one read per query, and five reads for each new query.
    """
    health = SearchHealth(ctx.database)
    golden = await health.load_golden_set()
    existing_ids = await health.find_existing(
        [query.chunk_id for query in (*golden.given, *golden.chosen)]
    )
    given_queries = [query for query in golden.given if query.chunk_id in existing_ids][
        :MAX_QUERIES
    ]
    kept_queries = [query for query in golden.chosen if query.chunk_id in existing_ids]
    size = min(SET_SIZE, MAX_QUERIES - len(given_queries))
    missing_count = max(0, size - len(kept_queries))
    chosen_queries = kept_queries + await _choose(
        missing_count, {query.chunk_id for query in kept_queries}, health
    )
    if tuple(chosen_queries) != golden.chosen:
        await health.store_chosen(chosen_queries)
    return [*given_queries, *chosen_queries[:size]]


async def _choose(count: int, used_chunk_ids: set[str], health: SearchHealth) -> list[GoldenQuery]:
    """Choose up to this many queries, for chunks that are not used yet."""
    chosen_queries: list[GoldenQuery] = []
    for number in range(count + MAX_EXTRA_SAMPLES):
        if len(chosen_queries) == count:
            break
        sample = await _load_sample(number, health)
        if not sample:
            break
        if query := _choose_query(
            [chunk for chunk in sample if chunk.chunk_id not in used_chunk_ids]
        ):
            chosen_queries.append(query)
            used_chunk_ids.add(query.chunk_id)
    return chosen_queries


async def _load_sample(number: int, health: SearchHealth) -> list[Chunk]:
    """Load some chunks, sorted by hash, from a point that depends on the number of the sample.

    If there are no chunks from that point on, load the first chunks.
    """
    point = hashlib.sha256(str(number).encode()).hexdigest()
    return await health.load_chunks_from(point) or await health.load_chunks_from("")


def _choose_query(chunks: Sequence[Chunk]) -> GoldenQuery | None:
    """Return a query for one of the chunks, preferably from a card that rephrases the chunk."""
    for make_query in (make_query_from_card, make_query_from_text):
        for chunk in chunks:
            if query := make_query(chunk):
                return GoldenQuery(query, chunk.chunk_id)
    return None


def make_query_from_card(chunk: Chunk) -> str | None:
    """Return a sentence of the card that the chunk's text does not contain, if there is one."""
    card = chunk.knowledge_card
    if card is None:
        return None
    text = _normalize(chunk.content)
    candidates = [
        candidate
        for candidate in (*card.takeaways, card.summary)
        if _normalize(candidate) not in text
    ]
    return _pick_richest(candidates)


def make_query_from_text(chunk: Chunk) -> str | None:
    """Return the sentence of the chunk with the most different terms."""
    return _pick_richest(split_sentences(chunk.content))


def _pick_richest(texts: Sequence[str]) -> str | None:
    """Return the text with the most different terms, if it has at least `MIN_TERMS`."""
    candidates = [" ".join(text.split())[:MAX_LENGTH] for text in texts]
    best = max(candidates, key=lambda text: len(set(terms(text))), default="")
    return best if len(set(terms(best))) >= MIN_TERMS else None


def _normalize(text: str) -> str:
    return " ".join(text.split()).casefold()
