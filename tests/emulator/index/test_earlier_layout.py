"""A knowledge base of an earlier release works, and the index job brings it up to date.

That release stored vectors of 32-bit numbers only, and a facet with the id of each chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.index.job import index
from functions.tools.knowledge.get_chunk.tool import In as GetChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.index.stored_vector import to_compact
from shared.knowledge.clustering_repository import Clusterings
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.stored_documents import read_chunks

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

QUERY = "bread at sea"
"""A query that all passages match in some way."""


class SearchResult(NamedTuple):
    """The similarities of the hits by chunk id, and the cost of the search."""

    similarities: dict[str, float]
    cost: ReadCost


@pytest.fixture
async def earlier(ctx: Context) -> Context:
    """The context of a base with documents as that release stored them."""
    await store_sources(ctx, BAKING, SAILING)
    for chunk_id, data in (await read_chunks(ctx)).items():
        change = {"embedding_f16": DELETE_FIELD, "facets": [f"id:{chunk_id}", *data["facets"]]}
        await set_fields(ctx, f"chunks/{chunk_id}", change)
    await set_fields(ctx, "meta/lexicon", {"layout": DELETE_FIELD})
    return ctx


async def search(app: App, **filters: Any) -> SearchResult:
    """Search for `QUERY` by words and by meaning."""
    ctx = make_call_context(app, Caller.of("reader"))
    out = await search_kb(In.model_validate({"query": QUERY, "filters": filters}), ctx)
    similarities = {hit.chunk_id: hit.similarity or 0 for hit in out.results}
    return SearchResult(similarities, get_read_cost(ctx))


async def test_earlier_chunks_are_searched_and_brought_up_to_date(
    earlier: Context, app: App
) -> None:
    before = await search(app, category="books")

    report = await index(earlier, make_ample_budget())
    assert report.counts["indexed"] == len(await read_chunks(earlier))
    for data in (await read_chunks(earlier)).values():
        assert data["embedding_f16"] == to_compact(data["embedding"])
        assert not any(name.startswith("id:") for name in data["facets"])
    await assert_postings_are_exact(earlier)

    after = await search(app, category="books")
    assert list(after.similarities) == list(before.similarities)
    assert after.similarities == pytest.approx(before.similarities, abs=0.0002)
    assert after.cost.round_trips == before.cost.round_trips - 1
    assert not (await index(earlier, make_ample_budget())).counts


async def test_get_chunk_finds_passages_related_to_an_earlier_chunk(earlier: Context) -> None:
    calls = [GetChunkIn(chunk_id=chunk_id) for chunk_id in await read_chunks(earlier)]
    before = [await get_chunk(args, earlier) for args in calls]
    assert all(out.related_chunks for out in before)
    await index(earlier, make_ample_budget())
    assert [await get_chunk(args, earlier) for args in calls] == before


async def test_earlier_chunks_are_clustered(earlier: Context) -> None:
    stored = await read_chunks(earlier)
    space = earlier.embedder.model, earlier.embedder.dimension
    pages = [page async for page in Clusterings(earlier.database).iterate_embedded(*space)]
    vectors = {chunk.chunk_id: chunk.vector for page in pages for chunk in page}
    expected = {chunk_id: to_compact(data["embedding"]) for chunk_id, data in stored.items()}
    assert vectors == expected
