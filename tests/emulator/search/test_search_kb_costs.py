"""`search_kb`: documents read and round trips of a call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.search.candidates import DENSE_POOL, MAX_CHECKED_ANONYMOUS, SPARE
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from tests.support.knowledge import index_all, set_fields, store_sources
from tests.support.query_recorder import record_queries
from tests.support.searches import (
    make_source_of_text,
    make_source_of_texts,
    truncate_postings,
    update_and_index_chunk,
)

if TYPE_CHECKING:
    from shared.knowledge.source import Source
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

TOTALS = 1
"""The read of the totals, which every search adds to its postings."""
QUEUE_COUNT = 1
"""The extra round trip and read if nothing matches, to count the chunks that wait to be indexed."""


READER = Caller.of("reader")
TAG_AND_AUTHOR: dict[str, Any] = {"tags": ("sea",), "author": "Ann"}


async def measure_cost(app: App, caller: Caller = READER, /, **arguments: Any) -> tuple[int, int]:
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
        make_source_of_texts(texts, author="Ann", tags=("sea",)),
        make_source_of_text("An anchor in a storm."),
    )


async def test_a_semantic_search_is_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"query": "anchor", "mode": "semantic"}
    assert await measure_cost(app, **arguments) == (1, TOTALS + DENSE_POOL)


async def test_a_lexical_search_reads_postings_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"query": "the anchors in storms", "mode": "lexical", "limit": 5}
    assert await measure_cost(app, **arguments) == (2, TOTALS + 2 + 5)


async def test_a_hybrid_search_compares_lexical_hits(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    trips, read = await measure_cost(app, query="anchor storm")
    assert trips == 2
    assert TOTALS + 2 + DENSE_POOL <= read <= TOTALS + 2 + DENSE_POOL + 30


async def test_a_hybrid_search_sends_one_vector_query(ctx: Context, app: App) -> None:
    """Lexical hits are read by id, since a vector query filtered by ids takes seconds."""
    await store_anchors(ctx)
    with record_queries() as shapes:
        await measure_cost(app, query="anchor storm")
    assert len(shapes) == 1


async def test_the_first_search_of_a_process_checks_the_model(ctx: Context, app: App) -> None:
    """The check goes out together with the vector search."""
    await store_anchors(ctx)
    app.connection.caches["embedding_space"].clear()
    arguments = {"query": "anchor", "mode": "semantic"}
    assert await measure_cost(app, **arguments) == (1, TOTALS + DENSE_POOL + 1)


async def test_filters_that_leave_few_passages_read_them_all(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    filters = {"source": "notes"}
    assert await measure_cost(app, query="anchor", filters=filters) == (2, TOTALS + 1 + 2 + 1)


async def test_a_filter_that_leaves_many_reads_the_nearest(ctx: Context, app: App) -> None:
    await store_anchors(ctx, SMALL_SCOPE_SIZE + 20)
    arguments = {"query": "bell", "filters": {"tags": ["sea"]}}
    assert await measure_cost(app, **arguments) == (
        2 + 1,
        TOTALS + 1 + 1 + DENSE_POOL + QUEUE_COUNT,
    )


async def test_filters_that_leave_many_use_the_narrowest_one(ctx: Context, app: App) -> None:
    await store_anchors(ctx, SMALL_SCOPE_SIZE + 20)
    filters = {"tags": ["sea"], "category": "books"}
    arguments = {"query": "bell", "filters": filters}
    pool = int(SPARE * DENSE_POOL)
    assert await measure_cost(app, **arguments) == (2 + 1, TOTALS + 1 + 2 + pool + QUEUE_COUNT)


def make_tagged_and_authored(
    both_count: int, tagged_count: int, authored_count: int, partial_text: str
) -> list[Source]:
    """Return sources with a tag and an author, with the tag alone, and with the author alone.

    The first has passages about anchors. All passages of the other two have `partial_text`.
    """
    return [
        make_source_of_texts(
            [f"anchor {number}" for number in range(both_count)], "both", **TAG_AND_AUTHOR
        ),
        make_source_of_texts([partial_text] * tagged_count, "tagged", tags=TAG_AND_AUTHOR["tags"]),
        make_source_of_texts(
            [partial_text] * authored_count, "written", author=TAG_AND_AUTHOR["author"]
        ),
    ]


async def test_two_broad_filters_read_the_nearest_where_enough_pass(ctx: Context, app: App) -> None:
    """The search fetches more than enough documents for the share that passes: 130 of 170."""
    await store_sources(ctx, *make_tagged_and_authored(130, 40, 40, "anchor"))
    pool = math.ceil(SPARE * DENSE_POOL * 170 / 130)
    arguments = {"query": "bell", "filters": {"tags": ["sea"], "author": "Ann"}}
    assert await measure_cost(app, **arguments) == (2 + 1, TOTALS + 1 + 2 + pool + QUEUE_COUNT)


async def test_filters_that_few_pass_together_read_those_by_id(ctx: Context, app: App) -> None:
    """130 of 330 pass: a search would fetch 191 documents."""
    await store_sources(ctx, *make_tagged_and_authored(130, 200, 200, "a bell"))
    filters = {"tags": ["sea"], "author": "Ann"}
    arguments = {"query": "bell", "filters": filters, "mode": "semantic"}
    for caller in (READER, Caller()):
        assert await measure_cost(app, caller, **arguments) == (
            2 + 1,
            TOTALS + 2 + 130 + QUEUE_COUNT,
        )


async def test_all_that_pass_are_read_if_the_nearest_fail(ctx: Context, app: App) -> None:
    """140 of 250 pass, but the 134 nearest do not."""
    await store_sources(ctx, *make_tagged_and_authored(140, 110, 200, "a bell"))
    filters = {"tags": ["sea"], "author": "Ann"}
    arguments = {"query": "a bell", "filters": filters, "mode": "semantic"}
    pool = math.ceil(SPARE * DENSE_POOL * 250 / 140)
    trips, documents = await measure_cost(app, **arguments)
    assert (trips, documents) == (3 + 1, TOTALS + 2 + pool + 140 + QUEUE_COUNT)


async def test_an_anonymous_search_reads_the_nearest_only(ctx: Context, app: App) -> None:
    """The owner pays for anonymous searches. With a credential, all 160 that pass are read."""
    await store_sources(ctx, *make_tagged_and_authored(160, 200, 200, "a bell"))
    filters = {"tags": ["sea"], "author": "Ann"}
    arguments = {"query": "bell", "filters": filters, "mode": "semantic"}
    documents = {
        caller: (await measure_cost(app, caller, **arguments))[1] for caller in (READER, Caller())
    }
    assert documents == {
        READER: TOTALS + 2 + 160 + QUEUE_COUNT,
        Caller(): TOTALS + 2 + MAX_CHECKED_ANONYMOUS + QUEUE_COUNT,
    }


async def store_with_cards(ctx: Context, card_count: int, plain_count: int) -> None:
    """Store passages with a knowledge card, and others that are nearer to "bell"."""
    sources = [make_source_of_texts([f"anchor {number}" for number in range(card_count)], "carded")]
    sources += [make_source_of_texts(["a bell"] * plain_count, "plain")] if plain_count else []
    chunks = await store_sources(ctx, *sources)
    card = {"summary": "S.", "takeaways": []}
    for chunk in chunks:
        if chunk.source_id == "carded":
            change = {"knowledge_card": card, "pending": {"index": ctx.clock()}}
            await set_fields(ctx, f"chunks/{chunk.chunk_id}", change)
    await index_all(ctx)


@pytest.mark.parametrize("caller", [READER, Caller()], ids=["reader", "anonymous"])
async def test_few_passages_with_cards_are_read_by_id(
    ctx: Context, app: App, caller: Caller
) -> None:
    await store_with_cards(ctx, 5, 200)
    arguments = {"query": "bell", "search_cards_only": True}
    assert await measure_cost(app, caller, **arguments) == (2 + 1, TOTALS + 1 + 1 + 5 + QUEUE_COUNT)
    out = await search_kb(In.model_validate(arguments), ctx)
    assert {hit.source_id for hit in out.results} == {"carded"}


async def test_cards_with_truncated_postings_need_one_wide_search(ctx: Context, app: App) -> None:
    """The database cannot filter by cards, so the search fetches enough for the share with one."""
    await store_with_cards(ctx, 60, 60)
    await truncate_postings(ctx, "facets", cap=20)
    arguments = {"query": "anchor", "search_cards_only": True, "mode": "semantic"}
    pool = math.ceil(SPARE * DENSE_POOL * 120 / 60)
    assert pool > 120
    assert await measure_cost(app, **arguments) == (2, TOTALS + 1 + 120)


async def test_a_date_filter_reads_the_postings_of_its_months(ctx: Context, app: App) -> None:
    await store_anchors(ctx, 3)
    filters = {"date_range": {"start": "2024-01-31", "end": "2024-03-01"}}
    assert await measure_cost(app, query="...", filters=filters, mode="lexical") == (
        1 + 1,
        TOTALS + 3 + QUEUE_COUNT,
    )


async def test_a_listing_reads_its_postings_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"filters": {"tags": ["sea"], "author": "ann"}, "limit": 7}
    assert await measure_cost(app, **arguments) == (2, TOTALS + 2 + 7)


async def test_a_listing_by_date_alone_is_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    arguments = {"filters": {"period": "today"}, "limit": 7}
    assert await measure_cost(app, **arguments) == (1, 7 + 1)


async def test_a_filter_with_truncated_postings_runs_on_the_server(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    await truncate_postings(ctx, "facets", cap=20)
    arguments = {"filters": {"tags": ["sea"], "period": "last_3_days"}, "limit": 7}
    trips, read = await measure_cost(app, **arguments)
    assert trips == 2
    assert read <= TOTALS + 3 + 7 + 1


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid", None])
@pytest.mark.parametrize("filters", [{}, {"tags": ["sea"]}, {"author": "Ann", "tags": ["sea"]}])
async def test_no_search_is_deeper_than_three_round_trips(
    ctx: Context, app: App, mode: str | None, filters: dict[str, Any]
) -> None:
    [chunk, *_] = await store_sources(
        ctx, make_source_of_texts(["anchor 1", "anchor 2"], author="Ann", tags=("sea",))
    )
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    arguments = {"query": "anchor", "mode": mode} if mode else {}
    app.connection.caches.clear()  # as in a new process
    if arguments or filters:
        trips, _ = await measure_cost(app, filters=filters, **arguments)
        assert trips <= 3


async def test_the_names_of_clusters_are_read_once_a_minute(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    [chunk, *_] = await store_sources(ctx, make_source_of_texts(["anchor 1", "anchor 2"]))
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    arguments = {"query": "anchor", "mode": "semantic"}
    trips, documents = await measure_cost(app, **arguments)
    assert await measure_cost(app, **arguments) == (trips - 1, documents - 1)
    monkeypatch.setattr("shared.knowledge.cluster_repository.FRESH_SECONDS", 0.0)
    assert await measure_cost(app, **arguments) == (trips, documents)
