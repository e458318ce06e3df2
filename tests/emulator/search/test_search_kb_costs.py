"""`search_kb` costs few round trips, and reads few documents.

The search of words reads postings: for each word and each filter, the list of passages that have
it. The search by meaning reads the nearest passages, which are a pool of `DENSE_POOL` at least.
When many passages pass several filters, the pool is larger by the factor `SPARE`, and by the share
of passages that fail the other filters.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.firestore.connection import Connection
from shared.firestore.documents import Document
from shared.firestore.queries import Query
from shared.knowledge.source import Source
from shared.runtime.context import App, Context
from shared.search.candidates import DENSE_POOL, MAX_CHECKED_ANONYMOUS, SPARE
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from tests.support.knowledge import index_all, set_fields, store_sources
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.searches import (
    make_source_of_text,
    make_source_of_texts,
    truncate_postings,
    update_and_index_chunk,
)

TOTALS = 1
"""The read of the totals of the index, which every search adds to its postings."""
QUEUE_COUNT = 1
"""If nothing matches, a search counts the passages that wait to be indexed.

That costs another round trip with one read.
"""
READER = Caller.of("reader")
TAG_AND_AUTHOR: dict[str, Any] = {"tags": ("sea",), "author": "Ann"}
"""The fields of a source that passes both filters of `BOTH_FILTERS`."""
BOTH_FILTERS = {"tags": ["sea"], "author": "Ann"}


async def measure_cost(app: App, caller: Caller = READER, /, **arguments: Any) -> ReadCost:
    """Return the cost of a call."""
    call_ctx = make_call_context(app, caller)
    await search_kb(In.model_validate(arguments), call_ctx)
    return get_read_cost(call_ctx)


async def store_anchors(ctx: Context, passages: int = DENSE_POOL + 10) -> None:
    """Store a book about anchors by Ann, and another source with one passage."""
    texts = [f"anchor {number}" for number in range(passages)]
    await store_sources(
        ctx,
        make_source_of_texts(texts, author="Ann", tags=("sea",)),
        make_source_of_text("An anchor in a storm."),
    )


async def test_a_semantic_search_costs_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    cost = await measure_cost(app, query="anchor", mode="semantic")
    assert cost == ReadCost(round_trips=1, documents=TOTALS + DENSE_POOL)


async def test_a_lexical_search_reads_postings_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    cost = await measure_cost(app, query="the anchors in storms", mode="lexical", limit=5)
    words, hits = 2, 5
    assert cost == ReadCost(round_trips=2, documents=TOTALS + words + hits)


async def test_a_hybrid_search_also_reads_the_lexical_hits(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    cost = await measure_cost(app, query="anchor storm")
    words, max_lexical_hits = 2, 30
    least = TOTALS + words + DENSE_POOL
    assert cost.round_trips == 2
    assert least <= cost.documents <= least + max_lexical_hits


async def test_a_hybrid_search_sends_one_vector_query(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lexical hits are read by id, since a vector query filtered by ids takes seconds."""
    await store_anchors(ctx)
    operations = []
    run = Connection.run

    async def record(connection: Connection, query: Query) -> list[Document]:
        operations.append(query.operation)
        return await run(connection, query)

    monkeypatch.setattr(Connection, "run", record)
    await measure_cost(app, query="anchor storm")
    assert operations == ["find_nearest"]


async def test_the_first_search_of_a_process_checks_the_model(ctx: Context, app: App) -> None:
    """The check goes out together with the vector search."""
    await store_anchors(ctx)
    app.connection.caches["embedding_space"].clear()
    cost = await measure_cost(app, query="anchor", mode="semantic")
    model = 1
    assert cost == ReadCost(round_trips=1, documents=TOTALS + DENSE_POOL + model)


async def test_a_search_reads_all_passages_if_few_pass_the_filter(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    cost = await measure_cost(app, query="anchor", filters={"source": "notes"})
    word, id_and_title, passage = 1, 2, 1  # `source` is compared with both
    assert cost == ReadCost(round_trips=2, documents=TOTALS + word + id_and_title + passage)


async def test_a_search_reads_the_nearest_if_many_pass_the_filter(ctx: Context, app: App) -> None:
    await store_anchors(ctx, SMALL_SCOPE_SIZE + 20)
    cost = await measure_cost(app, query="bell", filters={"tags": ["sea"]})
    word, tag = 1, 1
    documents = TOTALS + word + tag + DENSE_POOL + QUEUE_COUNT
    assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)


async def test_a_search_queries_by_the_narrowest_of_two_filters(ctx: Context, app: App) -> None:
    """All passages with the tag are in the category."""
    await store_anchors(ctx, SMALL_SCOPE_SIZE + 20)
    filters = {"tags": ["sea"], "category": "books"}
    cost = await measure_cost(app, query="bell", filters=filters)
    word, tag_and_category, pool = 1, 2, int(SPARE * DENSE_POOL)
    documents = TOTALS + word + tag_and_category + pool + QUEUE_COUNT
    assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)


def make_tagged_and_authored(
    *, both: int, tagged: int, authored: int, partial_text: str
) -> list[Source]:
    """Return a source with the tag and the author, one with the tag, and one with the author.

    Args:
        both: The number of passages of the first source, which are about anchors.
        tagged: The number of passages of the second source.
        authored: The number of passages of the third source.
        partial_text: The text of each passage of the second and third source.
    """
    texts = [f"anchor {number}" for number in range(both)]
    tags, author = TAG_AND_AUTHOR["tags"], TAG_AND_AUTHOR["author"]
    return [
        make_source_of_texts(texts, "both", **TAG_AND_AUTHOR),
        make_source_of_texts([partial_text] * tagged, "tagged", tags=tags),
        make_source_of_texts([partial_text] * authored, "authored", author=author),
    ]


async def test_a_search_by_two_broad_filters_reads_the_nearest(ctx: Context, app: App) -> None:
    """The search fetches more than enough documents for the share that passes: 130 of 170."""
    sources = make_tagged_and_authored(both=130, tagged=40, authored=40, partial_text="anchor")
    await store_sources(ctx, *sources)
    cost = await measure_cost(app, query="bell", filters=BOTH_FILTERS)
    word, tag_and_author, pool = 1, 2, math.ceil(SPARE * DENSE_POOL * 170 / 130)
    documents = TOTALS + word + tag_and_author + pool + QUEUE_COUNT
    assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)


async def test_passages_are_read_by_id_if_few_pass_both_filters(ctx: Context, app: App) -> None:
    """130 of 330 pass: a search would fetch 191 documents."""
    sources = make_tagged_and_authored(both=130, tagged=200, authored=200, partial_text="a bell")
    await store_sources(ctx, *sources)
    arguments = {"query": "bell", "filters": BOTH_FILTERS, "mode": "semantic"}
    tag_and_author, passing = 2, 130
    documents = TOTALS + tag_and_author + passing + QUEUE_COUNT
    for caller in (READER, Caller()):
        cost = await measure_cost(app, caller, **arguments)
        assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)


async def test_all_passing_passages_are_read_if_the_nearest_fail(ctx: Context, app: App) -> None:
    """140 of 250 pass, but the 134 nearest do not."""
    sources = make_tagged_and_authored(both=140, tagged=110, authored=200, partial_text="a bell")
    await store_sources(ctx, *sources)
    cost = await measure_cost(app, query="a bell", filters=BOTH_FILTERS, mode="semantic")
    tag_and_author, passing = 2, 140
    pool = math.ceil(SPARE * DENSE_POOL * 250 / passing)
    documents = TOTALS + tag_and_author + pool + passing + QUEUE_COUNT
    assert cost == ReadCost(round_trips=3 + QUEUE_COUNT, documents=documents)


async def test_an_anonymous_search_reads_a_bounded_number_by_id(ctx: Context, app: App) -> None:
    """The owner pays for anonymous searches. With a credential, all 160 that pass are read."""
    sources = make_tagged_and_authored(both=160, tagged=200, authored=200, partial_text="a bell")
    await store_sources(ctx, *sources)
    arguments = {"query": "bell", "filters": BOTH_FILTERS, "mode": "semantic"}
    tag_and_author, passing = 2, 160
    always_read = TOTALS + tag_and_author + QUEUE_COUNT
    cost = await measure_cost(app, READER, **arguments)
    assert cost.documents == always_read + passing
    cost = await measure_cost(app, Caller(), **arguments)
    assert cost.documents == always_read + MAX_CHECKED_ANONYMOUS


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
    await store_with_cards(ctx, card_count=5, plain_count=200)
    arguments = {"query": "bell", "search_cards_only": True}
    cost = await measure_cost(app, caller, **arguments)
    word, card_filter, with_cards = 1, 1, 5
    documents = TOTALS + word + card_filter + with_cards + QUEUE_COUNT
    assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)
    out = await search_kb(In.model_validate(arguments), ctx)
    assert {hit.source_id for hit in out.results} == {"carded"}


async def test_a_search_of_cards_with_truncated_postings_reads_more(ctx: Context, app: App) -> None:
    """The database cannot filter by cards, so the search fetches enough for the share with one."""
    await store_with_cards(ctx, card_count=60, plain_count=60)
    await truncate_postings(ctx, "facets", cap=20)
    cost = await measure_cost(app, query="anchor", search_cards_only=True, mode="semantic")
    card_filter, all_passages = 1, 120
    pool = math.ceil(SPARE * DENSE_POOL * 120 / 60)
    assert pool > all_passages
    assert cost == ReadCost(round_trips=2, documents=TOTALS + card_filter + all_passages)


async def test_a_date_filter_reads_the_postings_of_its_months(ctx: Context, app: App) -> None:
    await store_anchors(ctx, 3)
    filters = {"date_range": {"start": "2024-01-31", "end": "2024-03-01"}}
    cost = await measure_cost(app, query="...", filters=filters, mode="lexical")
    months = 3
    documents = TOTALS + months + QUEUE_COUNT
    assert cost == ReadCost(round_trips=1 + QUEUE_COUNT, documents=documents)


async def test_a_listing_reads_its_postings_and_a_page(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    cost = await measure_cost(app, filters={"tags": ["sea"], "author": "ann"}, limit=7)
    tag_and_author, hits = 2, 7
    assert cost == ReadCost(round_trips=2, documents=TOTALS + tag_and_author + hits)


async def test_a_listing_by_date_alone_costs_one_round_trip(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    cost = await measure_cost(app, filters={"period": "today"}, limit=7)
    documents = 7 + 1  # one more than the limit shows whether there is another page
    assert cost == ReadCost(round_trips=1, documents=documents)


async def test_the_database_filters_by_truncated_postings(ctx: Context, app: App) -> None:
    await store_anchors(ctx)
    await truncate_postings(ctx, "facets", cap=20)
    cost = await measure_cost(app, filters={"tags": ["sea"], "period": "last_3_days"}, limit=7)
    tag_and_months, hits = 3, 7 + 1  # at most two months, and one hit of the next page
    assert cost.round_trips == 2
    assert cost.documents <= TOTALS + tag_and_months + hits


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid", None])
@pytest.mark.parametrize("filters", [{}, {"tags": ["sea"]}, {"author": "Ann", "tags": ["sea"]}])
async def test_no_search_costs_more_than_three_round_trips(
    ctx: Context, app: App, mode: str | None, filters: dict[str, Any]
) -> None:
    [chunk, *_] = await store_sources(
        ctx, make_source_of_texts(["anchor 1", "anchor 2"], author="Ann", tags=("sea",))
    )
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    query_arguments = {"query": "anchor", "mode": mode} if mode else {}
    app.connection.caches.clear()  # as in a new process
    if query_arguments or filters:
        cost = await measure_cost(app, filters=filters, **query_arguments)
        assert cost.round_trips <= 3


async def test_the_names_of_clusters_are_read_once_a_minute(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    [chunk, *_] = await store_sources(ctx, make_source_of_texts(["anchor 1", "anchor 2"]))
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    arguments = {"query": "anchor", "mode": "semantic"}
    first_cost = await measure_cost(app, **arguments)
    second_cost = await measure_cost(app, **arguments)
    assert second_cost.round_trips == first_cost.round_trips - 1
    assert second_cost.documents == first_cost.documents - 1

    monkeypatch.setattr("shared.knowledge.cluster_repository.FRESH_SECONDS", 0.0)
    assert await measure_cost(app, **arguments) == first_cost
