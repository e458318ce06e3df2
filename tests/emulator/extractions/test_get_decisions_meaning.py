"""`get_decisions` with a query returns the decisions by similarity, page by page."""

import random
from dataclasses import replace

import pytest

from shared.ai.embedding import Purpose
from shared.extractions import pages
from shared.extractions.model import Extraction
from shared.extractions.repository import MAX_NEAREST
from shared.runtime.context import App, Context
from tests.support.extractions import (
    collect_result_ids,
    make_decision,
    make_extraction,
    measure_read,
    store_extractions,
)
from tests.support.fakes.embedder import WordEmbedder, compute_similarity
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_all_pages, call_error, call_result

WORDS = ("rye", "wheat", "oven", "dough", "crust", "flour", "salt", "yeast", "lamp", "bell")
QUERY = "rye flour and yeast"


@pytest.fixture
async def decisions(ctx: Context) -> list[Extraction]:
    """Sixty decisions from two passages, some of which differ only in their ids."""
    first, *_, last = await store_sources(ctx, BAKING, SAILING)
    generator = random.Random(7)  # noqa: S311 - no secret
    texts = [" ".join(generator.choices(WORDS, k=3)) for _ in range(55)] + ["rye flour"] * 5
    extractions = [
        make_extraction(
            (first, last)[number % 2], make_decision(words, considerations=(str(number),)), "bread"
        )
        for number, words in enumerate(texts)
    ]
    await store_extractions(ctx, *extractions)
    return extractions


@pytest.mark.requirement("000-Q1")
async def test_pages_are_in_order_of_similarity_without_repeats(
    ctx: Context, app: App, decisions: list[Extraction]
) -> None:
    """Decisions with the same similarity may be in any order."""
    [target] = await ctx.embedder.embed([QUERY], Purpose.QUERY)
    texts = [decision.content.text for decision in decisions]
    vectors = await ctx.embedder.embed(texts, Purpose.DOCUMENT)
    scores = sorted((round(compute_similarity(target, v), 3) for v in vectors), reverse=True)
    for limit in (1, 7, 60, 100):
        all_pages = await call_all_pages(app, "get_decisions", query=QUERY, limit=limit)
        hits = [hit for page in all_pages for hit in page["results"]]
        assert [hit["similarity"] for hit in hits] == pytest.approx(scores)
        ids = sorted(decision.extraction_id for decision in decisions)
        assert sorted(hit["id"] for hit in hits) == ids
        assert {len(page["results"]) for page in all_pages[:-1]} <= {limit}


async def test_paging_by_similarity_survives_changes(
    ctx: Context, app: App, decisions: list[Extraction]
) -> None:
    first_page = await call_result(app, "get_decisions", query=QUERY, limit=10)
    first_ids = collect_result_ids([first_page])

    # The last decision of the page is deleted, and many come that would be on it.
    remaining = [
        extraction for extraction in decisions if extraction.extraction_id != first_ids[-1]
    ]
    nearer_contents = [make_decision(QUERY, options=(str(number),)) for number in range(30)]
    new_decisions = [
        replace(decisions[0], extraction_id=f"decision-new{number}", content=content)
        for number, content in enumerate(nearer_contents)
    ]
    await store_extractions(ctx, *remaining, *new_decisions)

    cursor = first_page["metadata"]["next_cursor"]
    later_ids = []
    while cursor:
        page = await call_result(app, "get_decisions", query=QUERY, limit=10, cursor=cursor)
        later_ids += collect_result_ids([page])
        cursor = page["metadata"].get("next_cursor")
    ids = sorted(extraction.extraction_id for extraction in decisions)
    assert sorted(first_ids + later_ids) == ids


@pytest.mark.parametrize("limit", [100, pytest.param(MAX_NEAREST, marks=pytest.mark.slow)])
async def test_paging_ends_at_the_maximum_of_neighbours(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The copies are written without the job, which would take a while for a thousand."""
    monkeypatch.setattr(pages, "MAX_NEAREST", limit)
    [chunk, *_] = await store_sources(ctx, BAKING)
    await store_extractions(ctx, make_extraction(chunk, make_decision("rye"), "bread"))
    [(name, data)] = (await read_documents(ctx, "extractions")).items()
    client = ctx.database.connection.client
    for start in range(0, limit + 10, 101):
        batch = client.batch()
        for number in range(start, start + 101):
            batch.set(client.document(f"extractions/{name}-{number:04}"), data)
        await batch.commit()

    *full_pages, last_page = await call_all_pages(
        app, "get_decisions", query="rye", limit=limit // 10
    )
    ids = collect_result_ids([*full_pages, last_page])
    assert len(ids) == limit
    assert len(set(ids)) == limit
    assert "filter by topic" in last_page["metadata"]["message"]
    assert not any("message" in page["metadata"] for page in full_pages)


async def test_a_semantic_page_reads_earlier_pages_again(
    app: App, decisions: list[Extraction]
) -> None:
    """A page reads one decision more, to know whether there is another page, and two sources."""
    assert len(decisions) > 20
    arguments = {"query": QUERY, "limit": 10}
    round_trips, documents = await measure_read(app, "get_decisions", **arguments)
    assert round_trips == 2
    assert documents == 10 + 1 + 2

    cursor = (await call_result(app, "get_decisions", **arguments))["metadata"]["next_cursor"]
    round_trips, documents = await measure_read(app, "get_decisions", **arguments, cursor=cursor)
    assert round_trips == 2
    assert documents == 10 + 10 + 1 + 2

    # A new process also reads which model made the vectors.
    app.connection.caches["embedding_space"].clear()
    round_trips, documents = await measure_read(app, "get_decisions", **arguments)
    assert round_trips == 2 + 1
    assert documents == 10 + 1 + 2 + 1


async def test_a_query_needs_vectors_of_the_same_model(
    ctx: Context, app: App, decisions: list[Extraction], embedder: WordEmbedder
) -> None:
    """Without a query, the tool answers."""
    embedder.is_down = True
    error = await call_error(app, "get_decisions", query="something else")
    assert error.code == "UNAVAILABLE"
    assert error.retry_after
    embedder.is_down = False
    await set_fields(ctx, "meta/embedding", {"model": "another"})
    app.connection.caches["embedding_space"].clear()
    assert (await call_error(app, "get_decisions", query=QUERY)).code == "CONFLICT"
    assert len((await call_result(app, "get_decisions", limit=100))["results"]) == len(decisions)
    await ctx.database.connection.client.document("meta/embedding").delete()
    app.connection.caches["embedding_space"].clear()
    result = await call_result(app, "get_decisions", query=QUERY)
    assert result["results"] == []
    assert "Leave query out" in result["metadata"]["message"]
