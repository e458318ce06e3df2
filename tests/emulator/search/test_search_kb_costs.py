"""`search_kb`: documents read and round trips of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.search.candidates import DENSE_POOL, FILTERED_POOL
from shared.search.filter_plan import FEW
from tests.support.knowledge import set_fields, store_sources
from tests.support.query_recorder import recording
from tests.support.search_brute_force import (
    source_of_text,
    source_of_texts,
    truncate_postings,
    update_chunk,
)

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

TOTALS = 1
"""The read of the totals, which every search adds to its postings."""
WAITING = 1
"""The extra round trip where nothing matches, to count what waits to be indexed."""


READER = Caller.of("reader")


async def cost(app: App, caller: Caller = READER, /, **arguments: Any) -> tuple[int, int]:
    """Return the round trips and documents read of a call that writes nothing."""
    meter = Meter()
    await search_kb(In.model_validate(arguments), app.context(caller, meter))
    assert meter.documents_written == 0
    return meter.round_trips, meter.documents_read


async def store_anchors(ctx: Context, passages: int = DENSE_POOL + 10) -> None:
    """Store a book about anchors, one page of it about storms too."""
    texts = [f"anchor {number}" for number in range(passages)]
    await store_sources(
        ctx,
        source_of_texts(texts, author="Ann", tags=("sea",)),
        source_of_text("An anchor in a storm."),
    )


async def test_a_semantic_search_is_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"query": "anchor", "mode": "semantic"}
    assert await cost(app, **arguments) == (1, TOTALS + DENSE_POOL)


async def test_a_lexical_search_reads_postings_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"query": "the anchors in storms", "mode": "lexical", "limit": 5}
    assert await cost(app, **arguments) == (2, TOTALS + 2 + 5)


async def test_a_hybrid_search_compares_lexical_hits(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    trips, read = await cost(app, query="anchor storm")
    assert trips == 2
    assert TOTALS + 2 + DENSE_POOL <= read <= TOTALS + 2 + DENSE_POOL + 30


async def test_a_hybrid_search_sends_one_vector_query(ctx: Context, app: App) -> None:
    """Lexical hits are read by id, since a vector query filtered by ids takes seconds."""
    await store_anchors(ctx)
    with recording() as shapes:
        await cost(app, query="anchor storm")
    assert len(shapes) == 1


async def test_the_first_search_of_a_process_checks_the_model(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    app.connection.caches["embedding_space"].clear()
    arguments = {"query": "anchor", "mode": "semantic"}
    assert await cost(app, **arguments) == (2, TOTALS + DENSE_POOL + 1)


async def test_filters_that_leave_few_passages_read_them_all(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    filters = {"source": "notes"}
    assert await cost(app, query="anchor", filters=filters) == (2, TOTALS + 1 + 2 + 1)


async def test_a_filter_that_leaves_many_reads_the_nearest(ctx: Context, app: App) -> None:
    await store_anchors(ctx, FEW + 20)
    arguments = {"query": "bell", "filters": {"tags": ["sea"]}}
    assert await cost(app, **arguments) == (2 + 1, TOTALS + 1 + 1 + DENSE_POOL + WAITING)


async def test_filters_that_leave_many_use_the_narrowest_one(ctx: Context, app: App) -> None:
    await store_anchors(ctx, FEW + 20)
    filters = {"tags": ["sea"], "category": "books"}
    arguments = {"query": "bell", "filters": filters}
    assert await cost(app, **arguments) == (2 + 1, TOTALS + 1 + 2 + FEW + 20 + WAITING)


async def test_two_broad_filters_read_the_nearest_where_enough_pass(ctx: Context, app: App) -> None:
    both, more = [f"anchor {number}" for number in range(FEW + 10)], ["anchor"] * 40
    await store_sources(
        ctx,
        source_of_texts(both, "both", author="Ann", tags=("sea",)),
        source_of_texts(more, "tagged", tags=("sea",)),
        source_of_texts(more, "written", author="Ann"),
    )
    arguments = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}}
    assert await cost(app, **arguments) == (2 + 1, TOTALS + 1 + 2 + FILTERED_POOL + WAITING)


async def test_two_broad_filters_read_all_if_the_nearest_fail(ctx: Context, app: App) -> None:
    both, more = (
        [f"anchor {number}" for number in range(FEW + 10)],
        ["a bell"] * (FILTERED_POOL + 10),
    )
    await store_sources(
        ctx,
        source_of_texts(both, "both", author="Ann", tags=("sea",)),
        source_of_texts(more, "tagged", tags=("sea",)),
        source_of_texts(more, "written", author="Ann"),
    )
    arguments = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}, "mode": "semantic"}
    assert (await cost(app, **arguments))[1] == TOTALS + 2 + FILTERED_POOL + FEW + 10 + WAITING


async def test_an_anonymous_search_reads_the_nearest_only(ctx: Context, app: App) -> None:
    both, more = (
        [f"anchor {number}" for number in range(FEW + 10)],
        ["a bell"] * (FILTERED_POOL + 10),
    )
    await store_sources(
        ctx,
        source_of_texts(both, "both", author="Ann", tags=("sea",)),
        source_of_texts(more, "tagged", tags=("sea",)),
        source_of_texts(more, "written", author="Ann"),
    )
    arguments = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}, "mode": "semantic"}
    assert (await cost(app, Caller(), **arguments))[1] == TOTALS + 2 + FILTERED_POOL + WAITING


async def test_a_date_filter_reads_the_postings_of_its_months(ctx: Context, app: App) -> None:
    await store_anchors(ctx, 3)
    filters = {"date_range": {"start": "2024-01-31", "end": "2024-03-01"}}
    assert await cost(app, query="...", filters=filters, mode="lexical") == (
        1 + 1,
        TOTALS + 3 + WAITING,
    )


async def test_a_listing_reads_its_postings_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"filters": {"tags": ["sea"], "author": "ann"}, "limit": 7}
    assert await cost(app, **arguments) == (2, TOTALS + 2 + 7)


async def test_a_listing_by_date_alone_is_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"filters": {"period": "today"}, "limit": 7}
    assert await cost(app, **arguments) == (1, 7 + 1)


async def test_a_filter_with_truncated_postings_runs_on_the_server(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    await truncate_postings(ctx, "facets", cap=20)
    arguments = {"filters": {"tags": ["sea"], "period": "last_3_days"}, "limit": 7}
    trips, read = await cost(app, **arguments)
    assert trips == 2
    assert read <= TOTALS + 3 + 7 + 1


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid", None])
@pytest.mark.parametrize("filters", [{}, {"tags": ["sea"]}, {"author": "Ann", "tags": ["sea"]}])
async def test_no_search_is_deeper_than_three_round_trips(
    ctx: Context, app: App, mode: str | None, filters: dict[str, Any]
) -> None:
    [chunk, *_] = await store_sources(
        ctx, source_of_texts(["anchor 1", "anchor 2"], author="Ann", tags=("sea",))
    )
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    arguments = {"query": "anchor", "mode": mode} if mode else {}
    if arguments or filters:
        trips, _ = await cost(app, filters=filters, **arguments)
        assert trips <= 3


async def test_the_names_of_clusters_are_read_once_a_minute(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    [chunk, *_] = await store_sources(ctx, source_of_texts(["anchor 1", "anchor 2"]))
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    arguments = {"query": "anchor", "mode": "semantic"}
    trips, documents = await cost(app, **arguments)
    assert await cost(app, **arguments) == (trips - 1, documents - 1)
    monkeypatch.setattr("shared.knowledge.cluster_repository.FRESH_SECONDS", 0.0)
    assert await cost(app, **arguments) == (trips, documents)
