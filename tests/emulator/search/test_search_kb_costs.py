"""`search_kb`: what a call reads, and how many of its requests wait for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.search.candidates import DENSE_POOL, FILTERED_POOL
from shared.search.filter_plan import FEW
from tests.support.knowledge import put_in, write
from tests.support.query_recorder import recording
from tests.support.search_brute_force import change, cut_lists, many, one

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

TOTALS = 1
"""The document of the totals, which every search reads beside its lists."""
WAITING = 1
"""Where nothing matches, one more look, in a trip of its own: how much waits to be indexed."""


READER = Caller.of("reader")


async def cost(app: App, caller: Caller = READER, /, **arguments: Any) -> tuple[int, int]:
    """Round trips and documents read, of a call that writes nothing."""
    meter = Meter()
    await search_kb(In.model_validate(arguments), app.context(caller, meter))
    assert 0 == meter.documents_written
    return meter.round_trips, meter.documents_read


async def store_anchors(ctx: Context, passages: int = DENSE_POOL + 10) -> None:
    """Store a book about anchors, one page of it about storms too."""
    texts = [f"anchor {number}" for number in range(passages)]
    await put_in(ctx, many(texts, author="Ann", tags=("sea",)), one("An anchor in a storm."))


async def test_a_search_by_meaning_is_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    asked = {"query": "anchor", "mode": "semantic"}
    assert (1, TOTALS + DENSE_POOL) == await cost(app, **asked)


async def test_a_search_by_words_reads_a_list_for_each_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    asked = {"query": "the anchors in storms", "mode": "lexical", "limit": 5}
    assert (2, TOTALS + 2 + 5) == await cost(app, **asked)


async def test_a_hybrid_search_compares_what_words_found(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    trips, read = await cost(app, query="anchor storm")
    assert 2 == trips
    assert TOTALS + 2 + DENSE_POOL <= read <= TOTALS + 2 + DENSE_POOL + 30


async def test_a_hybrid_search_sends_one_vector_query(ctx: Context, app: App) -> None:
    """What only words found is read by id: a vector query prefiltered by ids takes seconds."""
    await store_anchors(ctx)
    with recording() as shapes:
        await cost(app, query="anchor storm")
    assert 1 == len(shapes)


async def test_the_first_search_of_a_process_asks_for_the_model_before(
    ctx: Context, app: App
) -> None:
    await store_anchors(ctx)
    app.connection.caches["embedding_space"].clear()
    asked = {"query": "anchor", "mode": "semantic"}
    assert (2, TOTALS + DENSE_POOL + 1) == await cost(app, **asked)


async def test_filters_that_leave_few_read_these(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    filters = {"source": "notes"}
    assert (2, TOTALS + 1 + 2 + 1) == await cost(app, query="anchor", filters=filters)


async def test_a_filter_that_leaves_many_reads_the_nearest(ctx: Context, app: App) -> None:
    await store_anchors(ctx, FEW + 20)
    asked = {"query": "bell", "filters": {"tags": ["sea"]}}
    assert (2 + 1, TOTALS + 1 + 1 + DENSE_POOL + WAITING) == await cost(app, **asked)


async def test_filters_that_leave_many_read_what_the_narrowest_leaves(
    ctx: Context, app: App
) -> None:
    await store_anchors(ctx, FEW + 20)
    filters = {"tags": ["sea"], "category": "books"}
    asked = {"query": "bell", "filters": filters}
    assert (2 + 1, TOTALS + 1 + 2 + FEW + 20 + WAITING) == await cost(app, **asked)


async def test_two_broad_filters_read_the_nearest_where_enough_pass(ctx: Context, app: App) -> None:
    both, more = [f"anchor {number}" for number in range(FEW + 10)], ["anchor"] * 40
    await put_in(
        ctx,
        many(both, "both", author="Ann", tags=("sea",)),
        many(more, "tagged", tags=("sea",)),
        many(more, "written", author="Ann"),
    )
    asked = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}}
    assert (2 + 1, TOTALS + 1 + 2 + FILTERED_POOL + WAITING) == await cost(app, **asked)


async def test_two_broad_filters_read_all_where_the_near_do_not_pass(
    ctx: Context, app: App
) -> None:
    both, more = (
        [f"anchor {number}" for number in range(FEW + 10)],
        ["a bell"] * (FILTERED_POOL + 10),
    )
    await put_in(
        ctx,
        many(both, "both", author="Ann", tags=("sea",)),
        many(more, "tagged", tags=("sea",)),
        many(more, "written", author="Ann"),
    )
    asked = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}, "mode": "semantic"}
    assert TOTALS + 2 + FILTERED_POOL + FEW + 10 + WAITING == (await cost(app, **asked))[1]


async def test_a_stranger_makes_us_read_the_nearest_only(ctx: Context, app: App) -> None:
    both, more = (
        [f"anchor {number}" for number in range(FEW + 10)],
        ["a bell"] * (FILTERED_POOL + 10),
    )
    await put_in(
        ctx,
        many(both, "both", author="Ann", tags=("sea",)),
        many(more, "tagged", tags=("sea",)),
        many(more, "written", author="Ann"),
    )
    asked = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}, "mode": "semantic"}
    assert TOTALS + 2 + FILTERED_POOL + WAITING == (await cost(app, Caller(), **asked))[1]


async def test_a_filter_of_days_reads_the_lists_of_their_months(ctx: Context, app: App) -> None:
    await store_anchors(ctx, 3)
    filters = {"date_range": {"start": "2024-01-31", "end": "2024-03-01"}}
    assert (1 + 1, TOTALS + 3 + WAITING) == await cost(
        app, query="...", filters=filters, mode="lexical"
    )


async def test_a_list_reads_its_page_beside_its_lists(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    asked = {"filters": {"tags": ["sea"], "author": "ann"}, "limit": 7}
    assert (2, TOTALS + 2 + 7) == await cost(app, **asked)


async def test_a_list_by_days_alone_is_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    asked = {"filters": {"period": "today"}, "limit": 7}
    assert (1, 7 + 1) == await cost(app, **asked)


async def test_one_filter_of_a_cut_list_is_listed_by_the_server(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    await cut_lists(ctx, "facets", cap=20)
    asked = {"filters": {"tags": ["sea"], "period": "last_3_days"}, "limit": 7}
    trips, read = await cost(app, **asked)
    assert 2 == trips
    assert read <= TOTALS + 3 + 7 + 1


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid", None])
@pytest.mark.parametrize("filters", [{}, {"tags": ["sea"]}, {"author": "Ann", "tags": ["sea"]}])
async def test_no_search_is_deeper_than_three_round_trips(
    ctx: Context, app: App, mode: str | None, filters: dict[str, Any]
) -> None:
    [chunk, *_] = await put_in(ctx, many(["anchor 1", "anchor 2"], author="Ann", tags=("sea",)))
    await write(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await change(ctx, chunk.chunk_id, cluster_id=["c1"])
    asked = {"query": "anchor", "mode": mode} if mode else {}
    if asked or filters:
        trips, _ = await cost(app, filters=filters, **asked)
        assert trips <= 3
