"""`get_decisions` with a query: pages in the order of similarity, and errors."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.ai.embedding import Purpose
from shared.extractions import pages
from shared.extractions.repository import MAX_NEAREST
from shared.runtime.context import App
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
from tests.support.tcp_proxy import run_emulator_proxy, use_emulator_at
from tests.support.tool_calls import call, call_all_pages, call_error, call_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.settings import Settings
    from shared.extractions.model import Extraction
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

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
            (first, last)[n % 2], make_decision(words, considerations=(str(n),)), "bread"
        )
        for n, words in enumerate(texts)
    ]
    await store_extractions(ctx, *extractions)
    return extractions


async def rank_by_brute_force(
    ctx: Context, extractions: Sequence[Extraction]
) -> list[tuple[float, str]]:
    """Return the similarity and the id of extractions by brute force, best first."""
    [target] = await ctx.embedder.embed([QUERY], Purpose.QUERY)
    vectors = await ctx.embedder.embed(
        [extraction.content.text for extraction in extractions], Purpose.DOCUMENT
    )
    scores = [round(compute_similarity(target, vector), 4) for vector in vectors]
    names = [extraction.extraction_id for extraction in extractions]
    return sorted(zip(scores, names, strict=True), key=lambda pair: -pair[0])


@pytest.mark.parametrize("limit", [1, 7, 60, 100])
async def test_pages_are_in_order_of_similarity_without_repeats(
    ctx: Context, app: App, decisions: list[Extraction], limit: int
) -> None:
    pages_walked = await call_all_pages(app, "get_decisions", query=QUERY, limit=limit)
    hits = [(hit["similarity"], hit["id"]) for page in pages_walked for hit in page["results"]]
    expected = await rank_by_brute_force(ctx, decisions)
    assert [score for score, _ in expected] == pytest.approx([score for score, _ in hits])
    assert sorted(name for _, name in expected) == sorted(name for _, name in hits)
    assert {len(page["results"]) for page in pages_walked[:-1]} <= {limit}


async def test_paging_by_similarity_survives_changes(
    ctx: Context, app: App, decisions: list[Extraction]
) -> None:
    first = await call_result(app, "get_decisions", query=QUERY, limit=10)
    first_ids = collect_result_ids([first])
    remaining = [
        extraction for extraction in decisions if extraction.extraction_id != first_ids[-1]
    ]
    nearer = [make_decision(QUERY, options=(str(n),)) for n in range(30)]
    new_decisions = [
        replace(decisions[0], extraction_id=f"decision-new{n}", content=content)
        for n, content in enumerate(nearer)
    ]
    await store_extractions(ctx, *remaining, *new_decisions)
    cursor = first["metadata"]["next_cursor"]
    later_ids = []
    while cursor:
        page = await call_result(app, "get_decisions", query=QUERY, limit=10, cursor=cursor)
        later_ids += collect_result_ids([page])
        cursor = page["metadata"].get("next_cursor")
    assert {extraction.extraction_id for extraction in decisions} == {*first_ids, *later_ids}
    assert len(decisions) == len(first_ids) + len(later_ids)


@pytest.mark.parametrize("limit", [100, pytest.param(MAX_NEAREST, marks=pytest.mark.slow)])
async def test_paging_ends_at_the_most_neighbours(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The copies are written directly: a thousand of them take a while."""
    monkeypatch.setattr(pages, "MAX_NEAREST", limit)
    [chunk, *_] = await store_sources(ctx, BAKING)
    await store_extractions(ctx, make_extraction(chunk, make_decision("rye"), "bread"))
    [(name, data)] = (await read_documents(ctx, "extractions")).items()
    client = ctx.database.client
    for start in range(0, limit + 10, 101):
        batch = client.batch()
        for number in range(start, start + 101):
            batch.set(client.document(f"extractions/{name}-{number:04}"), data)
        await batch.commit()
    pages_walked = await call_all_pages(app, "get_decisions", query="rye", limit=limit // 10)
    assert len(collect_result_ids(pages_walked)) == limit
    assert len(set(collect_result_ids(pages_walked))) == limit
    assert "filter by topic" in pages_walked[-1]["metadata"]["message"]
    assert not any("message" in page["metadata"] for page in pages_walked[:-1])


async def test_a_semantic_page_reads_earlier_pages_again(
    app: App, decisions: list[Extraction]
) -> None:
    assert len(decisions) > 20
    one_more, sources = 1, 2
    arguments = {"query": QUERY, "limit": 10}
    assert await measure_read(app, "get_decisions", **arguments) == (2, 10 + one_more + sources)
    cursor = (await call_result(app, "get_decisions", **arguments))["metadata"]["next_cursor"]
    assert await measure_read(app, "get_decisions", **arguments, cursor=cursor) == (
        2,
        20 + one_more + sources,
    )
    app.connection.caches["embedding_space"].clear()
    stamp = 1
    assert await measure_read(app, "get_decisions", **arguments) == (
        3,
        10 + one_more + sources + stamp,
    )


async def test_an_outage_of_the_provider_is_an_error(
    app: App, decisions: list[Extraction], embedder: WordEmbedder
) -> None:
    assert decisions
    embedder.is_down = True
    app.query_vectors.clear()
    error = await call_error(app, "get_decisions", query="something else")
    assert error.code == "UNAVAILABLE"
    assert error.retry_after
    assert (await call_result(app, "get_decisions"))["results"]


async def test_vectors_of_another_model_are_a_conflict(
    ctx: Context, app: App, decisions: list[Extraction]
) -> None:
    assert decisions
    await set_fields(ctx, "meta/embedding", {"model": "another"})
    app.connection.caches["embedding_space"].clear()
    error = await call_error(app, "get_decisions", query=QUERY)
    assert error.code == "CONFLICT"
    assert (await call_result(app, "get_decisions"))["results"]


async def test_a_base_without_vectors_says_so(
    ctx: Context, app: App, decisions: list[Extraction]
) -> None:
    assert decisions
    await ctx.database.document("meta", "embedding").delete()
    app.connection.caches["embedding_space"].clear()
    result = await call_result(app, "get_decisions", query=QUERY)
    assert result["results"] == []
    assert "Leave query out" in result["metadata"]["message"]


@pytest.mark.usefixtures("sleepless")
async def test_an_unreachable_database_is_unavailable(
    settings: Settings, embedder: WordEmbedder
) -> None:
    names = ("get_decisions", "get_warnings", "list_topics")
    async with run_emulator_proxy() as proxy:
        await proxy.refuse()
        app = App(settings, embedder=embedder)
        with use_emulator_at(proxy.host):
            assert app.connection.client
        answers = await asyncio.gather(*(call(app, name) for name in names))
        await app.aclose()
    assert [answer.error.code for answer in answers if answer.error] == ["UNAVAILABLE"] * 3
