"""`search_kb` finds, over all pages, exactly what brute force over the passages finds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from shared.ai.embedding import Purpose
from shared.search.candidates import DENSE_POOL
from tests.support.search_brute_force import (
    WORDS,
    all_pages,
    collect_ids,
    hybrid_order,
    lexical_order,
    newest_first,
    passes,
    random_filters,
    random_knowledge,
    semantic_order,
    truncate_postings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from tests.support.search_brute_force import EmbeddedChunk

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("searches", [10, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cut", [None, "facets", "lexicon"])
async def test_all_pages_together_equal_a_brute_force_search(
    ctx: Context, cut: str | None, searches: int
) -> None:
    chance = random.Random(f"base {cut}")  # noqa: S311 - no secret
    base = await random_knowledge(ctx, chance)
    if cut:
        await truncate_postings(ctx, cut, cap=6)
    for _ in range(searches):
        await _check(ctx, base, chance)


async def _check(ctx: Context, base: Sequence[EmbeddedChunk], chance: random.Random) -> None:
    filters = random_filters(chance)
    cards_only = chance.random() < 0.3
    mode = chance.choice(("semantic", "lexical", "hybrid", None))
    left = [entry for entry in base if passes(entry.chunk, filters, cards_only=cards_only)]
    if (not filters and not cards_only) or len(left) > DENSE_POOL:
        return
    query = " ".join(chance.choices(WORDS, k=3))
    arguments: dict[str, Any] = {"filters": filters, "search_cards_only": cards_only}
    arguments |= {"query": query, "mode": mode} if mode else {}
    limit = chance.choice((1, 7, 50))
    pages = await all_pages(ctx, limit, **arguments)
    expected = await _expected(ctx, left, base, query, mode)
    if not pages[0].matches:
        expected = expected[: min(limit, 3)]
    assert collect_ids(pages) == expected
    assert [*range(1, len(expected) + 1)] == [hit.rank for page in pages for hit in page.results]


async def _expected(
    ctx: Context,
    left: Sequence[EmbeddedChunk],
    base: Sequence[EmbeddedChunk],
    query: str,
    mode: str | None,
) -> list[str]:
    [vector] = await ctx.embedder.embed([query], Purpose.QUERY)
    match mode:
        case None:
            return newest_first(left)
        case "semantic":
            return semantic_order(left, vector)
        case "lexical":
            return lexical_order(left, base, query)
    return hybrid_order(left, base, query, vector)
