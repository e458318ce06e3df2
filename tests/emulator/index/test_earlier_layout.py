"""A knowledge base of a release that stored no compact vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.index.job import index
from functions.tools.knowledge.get_chunk.tool import In as GetChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.index.stored_vector import to_compact
from shared.knowledge.clustering_repository import Clusterings
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_chunks

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

QUERY = "bread at sea"


@pytest.fixture
async def earlier(ctx: Context) -> Context:
    """A base with the documents as that release stored them."""
    await store_sources(ctx, BAKING, SAILING)
    for chunk_id, data in (await read_chunks(ctx)).items():
        change = {"embedding_f16": DELETE_FIELD, "facets": [f"id:{chunk_id}", *data["facets"]]}
        await set_fields(ctx, f"chunks/{chunk_id}", change)
    await set_fields(ctx, "meta/lexicon", {"layout": DELETE_FIELD})
    return ctx


async def search(app: App, **filters: Any) -> tuple[dict[str, float], Meter]:
    """Return the hits of a hybrid search with their similarities, and what it cost."""
    meter = Meter()
    ctx = app.context(Caller.of("reader"), meter)
    out = await search_kb(In.model_validate({"query": QUERY, "filters": filters}), ctx)
    return {hit.chunk_id: hit.similarity or 0 for hit in out.results}, meter


async def test_earlier_chunks_are_searched_and_made_new(earlier: Context, app: App) -> None:
    before, cost_before = await search(app, category="books")
    assert (await index(earlier, make_ample_budget())).counts["indexed"] == len(
        await read_chunks(earlier)
    )
    for data in (await read_chunks(earlier)).values():
        assert data["embedding_f16"] == to_compact(data["embedding"])
        assert not any(name.startswith("id:") for name in data["facets"])
    await assert_postings_are_exact(earlier)
    after, cost_after = await search(app, category="books")
    assert list(after) == list(before)
    assert after == pytest.approx(before, abs=0.0002)
    assert cost_after.round_trips == cost_before.round_trips - 1
    assert not (await index(earlier, make_ample_budget())).counts


async def test_get_chunk_relates_an_earlier_chunk(earlier: Context) -> None:
    args = [GetChunkIn(chunk_id=chunk_id) for chunk_id in await read_chunks(earlier)]
    before = [await get_chunk(item, earlier) for item in args]
    await index(earlier, make_ample_budget())
    assert all(out.related_chunks for out in before)
    assert [await get_chunk(item, earlier) for item in args] == before


async def test_earlier_chunks_are_clustered(earlier: Context) -> None:
    stored = await read_chunks(earlier)
    space = earlier.embedder.model, earlier.embedder.dimension
    pages = [page async for page in Clusterings(earlier.database).iterate_embedded(*space)]
    vectors = {chunk.chunk_id: chunk.vector for page in pages for chunk in page}
    assert {name: to_compact(data["embedding"]) for name, data in stored.items()} == vectors
