"""`search_kb` finds passages by meaning with the real local embedding model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.searches import collect_chunk_ids, search_all_pages

if TYPE_CHECKING:
    from shared.ai.local_embedding import LocalEmbedder
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    return local_embedder


async def test_meaning_finds_passages_without_the_query_words(ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    query = "storm at sea on a yacht"
    [lexical_page] = await search_all_pages(ctx, query=query, mode="lexical")
    [semantic_page] = await search_all_pages(ctx, query=query, mode="semantic")
    assert lexical_page.results == []
    about_sailing = {chunk.chunk_id for chunk in chunks[3:]}
    assert set(collect_chunk_ids([semantic_page])[:2]) == about_sailing
