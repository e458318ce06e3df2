"""`search_kb` finds, over all pages, what brute force over the passages finds, in its order."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from shared.ai.embedding import Purpose
from shared.runtime.context import Context
from shared.search.candidates import DENSE_POOL
from shared.search.relevance import MAX_NEAR
from tests.support.search_brute_force import (
    WORDS,
    EmbeddedChunk,
    make_random_filters,
    matches_filters,
    rank_by_fusion,
    rank_by_meaning,
    rank_by_words,
    sort_newest_first,
    store_random_sources,
)
from tests.support.searches import (
    collect_hits,
    search_all_pages,
    truncate_postings,
)


@pytest.mark.parametrize("searches", [10, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize("truncated_collection", [None, "facets", "lexicon"])
async def test_all_pages_together_equal_a_brute_force_search(
    ctx: Context, truncated_collection: str | None, searches: int
) -> None:
    generator = random.Random(f"base {truncated_collection}")  # noqa: S311 - no secret
    base = await store_random_sources(ctx, generator)
    if truncated_collection:
        await truncate_postings(ctx, truncated_collection, cap=6)
    for _ in range(searches):
        await check_random_search(ctx, base, generator)


async def check_random_search(
    ctx: Context, base: Sequence[EmbeddedChunk], generator: random.Random
) -> None:
    """Compare all pages of a random call with what brute force finds.

    A call is skipped if more passages pass its filters than a search by meaning ranks.
    """
    filters = make_random_filters(generator)
    cards_only = generator.random() < 0.3
    mode = generator.choice(("semantic", "lexical", "hybrid", None))
    passing_chunks = [
        embedded
        for embedded in base
        if matches_filters(embedded.chunk, filters, cards_only=cards_only)
    ]
    if (not filters and not cards_only) or len(passing_chunks) > DENSE_POOL:
        return
    query = " ".join(generator.choices(WORDS, k=3))
    arguments: dict[str, Any] = {"filters": filters, "search_cards_only": cards_only}
    arguments |= {"query": query, "mode": mode} if mode else {}
    limit = generator.choice((1, 7, 50))
    pages = await search_all_pages(ctx, limit, **arguments)
    expected = await find_expected_ids(ctx, passing_chunks, base, query, mode)
    hits = collect_hits(pages)
    answers = [hit.chunk_id for hit in hits if not hit.near]
    others = [name for name in expected if name not in answers]
    if mode is None:
        assert answers == expected
    assert answers == [name for name in expected if name in answers]
    near = [hit.chunk_id for hit in hits if hit.near]
    assert set(near) <= set(others)
    assert len(near) == min(
        len(others), MAX_NEAR, limit - sum(not hit.near for hit in pages[-1].results)
    )
    assert [hit.rank for hit in hits] == [*range(1, len(hits) + 1)]


async def find_expected_ids(
    ctx: Context,
    passing_chunks: Sequence[EmbeddedChunk],
    base: Sequence[EmbeddedChunk],
    query: str,
    mode: str | None,
) -> list[str]:
    """Return the ids of the chunks that pass the filters as a search of this mode ranks them.

    BM25 takes the frequencies of words from `base`. Without a mode, the newest come first.
    """
    [vector] = await ctx.embedder.embed([query], Purpose.QUERY)
    match mode:
        case None:
            return sort_newest_first(passing_chunks)
        case "semantic":
            return rank_by_meaning(passing_chunks, vector)
        case "lexical":
            return rank_by_words(passing_chunks, base, query)
    return rank_by_fusion(passing_chunks, base, query, vector)
