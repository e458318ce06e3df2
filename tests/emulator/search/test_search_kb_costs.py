"""`search_kb` costs few round trips, and reads few documents.

The search of words reads postings: for each word and each filter, the list of passages that have
it. The search by meaning reads the nearest passages, which are a pool of `DENSE_POOL` at least.
When many passages pass several filters, the pool is larger by the factor `SPARE`, and by the share
of passages that fail the other filters.
"""

import math
from typing import Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.caller import Caller
from shared.firestore.connection import Connection
from shared.firestore.documents import Document
from shared.firestore.queries import Query
from shared.runtime.context import App, Context
from shared.search import candidates
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL, MAX_CHECKED_ANONYMOUS, SPARE
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from shared.search.relevance import MAX_NEAR
from tests.support.apps import READER, Apps
from tests.support.jobs import make_job_context
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
NOTES = 1
"""A page of hits looks for notes about them.

That costs another round trip, together with the names of clusters or `QUEUE_COUNT`, and one read
where there are none.
"""
BOTH_FILTERS = {"tags": ["sea"], "author": "Ann"}
ANONYMOUS = Caller()


async def measure_cost(app: App, caller: Caller = READER, /, **arguments: Any) -> ReadCost:
    call_ctx = make_call_context(app, caller)
    await search_kb(In.model_validate(arguments), call_ctx)
    return get_read_cost(call_ctx)


async def store_anchors(shared_apps: Apps, passages: int) -> App:
    """Store a book about anchors by Ann, and another source with one passage."""
    app = shared_apps()
    texts = [f"anchor {number}" for number in range(passages)]
    book = make_source_of_texts(texts, author="Ann", tags=("sea",))
    notes = make_source_of_text("An anchor in a storm.")
    await store_sources(make_job_context(app), book, notes)
    return app


@pytest.fixture(scope="module")
async def anchors(shared_apps: Apps) -> App:
    return await store_anchors(shared_apps, DENSE_POOL + 10)


@pytest.fixture(scope="module")
async def many_anchors(shared_apps: Apps) -> App:
    return await store_anchors(shared_apps, SMALL_SCOPE_SIZE + 20)


@pytest.mark.parametrize(
    ("arguments", "round_trips", "documents"),
    [
        ({"query": "anchor", "mode": "semantic"}, 1 + NOTES, TOTALS + DENSE_POOL + NOTES),
        # Two words, the passage with both of them, and the five nearest others.
        (
            {"query": "the anchors in storms", "mode": "lexical", "limit": 5},
            2 + NOTES,
            TOTALS + 2 + 1 + MAX_NEAR + NOTES,
        ),
        # A word, `source` as an id and as a title, and the only passage that passes.
        (
            {"query": "anchor", "filters": {"source": "notes"}},
            2 + NOTES,
            TOTALS + 1 + 2 + 1 + NOTES,
        ),
        # The postings of three months.
        (
            {
                "query": "...",
                "filters": {"date_range": {"start": "2024-01-31", "end": "2024-03-01"}},
                "mode": "lexical",
            },
            1 + QUEUE_COUNT,
            TOTALS + 3 + QUEUE_COUNT,
        ),
        # A list reads postings and a page. By date alone, it reads one more passage and a count.
        (
            {"filters": {"tags": ["sea"], "author": "ann"}, "limit": 7},
            2 + NOTES,
            TOTALS + 2 + 7 + NOTES,
        ),
        ({"filters": {"period": "today"}, "limit": 7}, 1 + NOTES, 7 + 2 + NOTES),
    ],
    ids=["semantic", "lexical", "small scope", "months", "list", "list by date"],
)
async def test_a_search_reads_postings_and_the_nearest_or_a_page(
    anchors: App, arguments: dict[str, Any], round_trips: int, documents: int
) -> None:
    assert await measure_cost(anchors, **arguments) == ReadCost(round_trips, documents)


async def test_an_exclusion_alone_reads_little_more_than_no_filter(many_anchors: App) -> None:
    """The postings show what is excluded, so the best few by meaning and words are enough."""
    excluding = {"query": "anchor", "filters": {"source": "-notes"}}
    cost = await measure_cost(many_anchors, **excluding)
    assert cost.documents < 2 * DENSE_POOL + LEXICAL_POOL
    cost = await measure_cost(many_anchors, **excluding, mode="lexical", limit=5)
    assert cost.documents < SMALL_SCOPE_SIZE // 4


async def test_a_hybrid_search_sends_one_vector_query(
    anchors: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lexical hits are read by id, since a vector query filtered by ids takes seconds."""
    operations = []
    run = Connection.run

    async def record(connection: Connection, query: Query) -> list[Document]:
        operations.append(query.operation)
        return await run(connection, query)

    monkeypatch.setattr(Connection, "run", record)
    cost = await measure_cost(anchors, query="anchor storm")
    assert operations == ["find_nearest", "query"]
    words, max_lexical_hits = 2, 30
    least = TOTALS + words + DENSE_POOL + NOTES
    assert cost.round_trips == 2 + NOTES
    assert least <= cost.documents <= least + max_lexical_hits


async def test_the_first_search_of_a_process_checks_the_model(anchors: App) -> None:
    """The check goes out together with the vector search."""
    anchors.connection.caches["embedding_space"].clear()
    cost = await measure_cost(anchors, query="anchor", mode="semantic")
    model = 1
    assert cost == ReadCost(1 + NOTES, TOTALS + DENSE_POOL + model + NOTES)


@pytest.mark.parametrize(
    ("filters", "pool"),
    [
        ({"tags": ["sea"]}, DENSE_POOL),
        # All passages with the tag are in the category: the narrowest of two filters is queried.
        ({"tags": ["sea"], "category": "books"}, int(SPARE * DENSE_POOL)),
    ],
)
async def test_a_search_reads_the_nearest_if_many_pass_the_filter(
    many_anchors: App, filters: dict[str, Any], pool: int
) -> None:
    cost = await measure_cost(many_anchors, query="bell", filters=filters)
    word = 1
    documents = TOTALS + word + len(filters) + pool + QUEUE_COUNT + NOTES
    assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)


@pytest.mark.parametrize(
    ("sizes", "texts", "expected"),
    [
        # A hybrid search fetches more than enough for the share that passes, 130 of 170.
        ((130, 40, 40), ("anchor", "bell"), (2, 1 + math.ceil(SPARE * DENSE_POOL * 170 / 130))),
        # 130 of 330 pass: a search would fetch 191 documents, so they are read by id.
        ((130, 200, 200), ("a bell", "bell"), (2, 130)),
        # 140 of 250 pass, but the 134 nearest do not.
        (
            (140, 110, 200),
            ("a bell", "a bell"),
            (3, math.ceil(SPARE * DENSE_POOL * 250 / 140) + 140 + NOTES),
        ),
        # The owner pays for anonymous searches, which read fewer by id.
        ((160, 200, 200), ("a bell", "bell"), (2, 160)),
    ],
)
async def test_the_share_that_passes_two_filters_decides_what_is_read(
    ctx: Context,
    app: App,
    sizes: tuple[int, ...],
    texts: tuple[str, str],
    expected: tuple[int, int],
) -> None:
    """The sizes are those of a source that passes both, and of two that pass one of them.

    The first text is that of all passages in the latter, and the second is the query.
    """
    (both, tagged, authored), (text, query), (round_trips, documents) = sizes, texts, expected
    anchors = [f"anchor {number}" for number in range(both)]
    await store_sources(
        ctx,
        make_source_of_texts(anchors, "both", tags=("sea",), author="Ann"),
        make_source_of_texts([text] * tagged, "tagged", tags=("sea",)),
        make_source_of_texts([text] * authored, "authored", author="Ann"),
    )
    mode = "hybrid" if text == "anchor" else "semantic"
    arguments = {"query": query, "filters": BOTH_FILTERS, "mode": mode}
    always_read = TOTALS + len(BOTH_FILTERS) + QUEUE_COUNT
    cost = await measure_cost(app, **arguments)
    assert cost == ReadCost(round_trips + QUEUE_COUNT, always_read + documents)
    if documents in (130, 160):
        cost = await measure_cost(app, ANONYMOUS, **arguments)
        checked = min(documents, MAX_CHECKED_ANONYMOUS)
        assert cost.documents == always_read + checked


async def test_a_search_widens_twice_if_the_nearest_fail_the_filters(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """130 of 240 passages pass, but the 110 nearest do not: more than three pools of 28."""
    monkeypatch.setattr(candidates, "DENSE_POOL", 10)
    anchors = [f"anchor {number}" for number in range(130)]
    await store_sources(
        ctx,
        make_source_of_texts(anchors, "both", tags=("sea",), author="Ann"),
        make_source_of_texts(["a bell"] * 110, "tagged", tags=("sea",)),
        make_source_of_texts(["a bell"] * 200, "authored", author="Ann"),
    )
    cost = await measure_cost(app, query="bell", filters=BOTH_FILTERS, mode="semantic")
    pool = math.ceil(SPARE * 10 * 240 / 130)
    documents = TOTALS + len(BOTH_FILTERS) + pool + 3 * pool + 130 + QUEUE_COUNT
    assert cost == ReadCost(round_trips=4 + QUEUE_COUNT, documents=documents)


async def store_with_cards(ctx: Context, card_count: int, plain_count: int) -> None:
    """Store passages with a knowledge card, and others that are nearer to "bell"."""
    carded = make_source_of_texts([f"anchor {number}" for number in range(card_count)], "carded")
    plain = make_source_of_texts(["a bell"] * plain_count, "plain")
    change = {
        "knowledge_card": {"summary": "S.", "takeaways": []},
        "pending": {"index": ctx.clock()},
    }
    for chunk in await store_sources(ctx, carded, plain):
        if chunk.source_id == "carded":
            await set_fields(ctx, f"chunks/{chunk.chunk_id}", change)
    await index_all(ctx)


async def test_few_passages_with_cards_are_read_by_id(ctx: Context, app: App) -> None:
    await store_with_cards(ctx, card_count=5, plain_count=200)
    arguments = {"query": "bell", "search_cards_only": True}
    word, card_filter, with_cards = 1, 1, 5
    documents = TOTALS + word + card_filter + with_cards + QUEUE_COUNT + NOTES
    for caller in (READER, ANONYMOUS):
        cost = await measure_cost(app, caller, **arguments)
        assert cost == ReadCost(round_trips=2 + QUEUE_COUNT, documents=documents)
    out = await search_kb(In.model_validate(arguments), ctx)
    assert {hit.source_id for hit in out.results} == {"carded"}


async def test_a_search_of_cards_with_truncated_postings_reads_more(ctx: Context, app: App) -> None:
    """The database cannot filter by cards, so the search fetches enough for the share with one."""
    await store_with_cards(ctx, card_count=60, plain_count=60)
    await truncate_postings(ctx, "facets", cap=20)
    cost = await measure_cost(app, query="anchor", search_cards_only=True, mode="semantic")
    card_filter, all_passages = 1, 120
    assert math.ceil(SPARE * DENSE_POOL * 120 / 60) > all_passages
    assert cost == ReadCost(2 + NOTES, TOTALS + card_filter + all_passages + NOTES)


async def test_no_search_of_a_new_process_takes_more_than_three_round_trips(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of clusters are read once a minute."""
    texts = ["anchor 1", "anchor 2"]
    source = make_source_of_texts(texts, author="Ann", tags=("sea",))
    [chunk, _] = await store_sources(ctx, source)
    await set_fields(ctx, "clusters/c1", {"name": "At Sea", "size": 1})
    await update_and_index_chunk(ctx, chunk.chunk_id, cluster_id=["c1"])
    for mode in ("semantic", "lexical", "hybrid"):
        for filters in ({}, {"tags": ["sea"]}, BOTH_FILTERS):
            app.connection.caches.clear()
            cost = await measure_cost(app, query="anchor", mode=mode, filters=filters)
            assert cost.round_trips <= 3

    arguments = {"query": "anchor", "mode": "semantic"}
    app.connection.caches["cluster_names"].clear()
    first_cost = await measure_cost(app, **arguments)
    second_cost = await measure_cost(app, **arguments)
    assert second_cost == ReadCost(first_cost.round_trips, first_cost.documents - 1)
    monkeypatch.setattr("shared.knowledge.cluster_repository.FRESH_SECONDS", 0.0)
    assert await measure_cost(app, **arguments) == first_cost
