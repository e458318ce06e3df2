"""`search_kb` returns hits page by page, also while the knowledge base changes.

A cursor contains fingerprints of the hits that earlier pages returned, or of a listing by date the
position of the last one.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, Out, search_kb
from shared.core.errors import InvalidInput
from shared.knowledge.chunked_source import ChunkedSource
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.runtime.pagination import MAX_PAGE_BYTES, decode_cursor, encode_cursor
from shared.search.candidates import DENSE_POOL, MAX_LEXICAL_HITS, UNCHECKED_POOL
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from shared.search.listing import FINGERPRINTS
from tests.support.apps import Apps
from tests.support.knowledge import chunk_source, embed_all, index_all, store_sources
from tests.support.search_brute_force import WORDS
from tests.support.searches import (
    collect_chunk_ids,
    collect_hits,
    make_source_of_text,
    make_source_of_texts,
    search_all_pages,
    truncate_postings,
    update_and_index_chunk,
)

CALLS: list[dict[str, Any]] = [
    {"query": "anchor storm", "mode": "semantic"},
    {"query": "anchor storm", "mode": "lexical"},
    {"query": "anchor storm", "mode": "hybrid"},
    {"query": "anchor storm", "filters": {"tags": ["sea"]}},
    {"filters": {"tags": ["sea"]}},
    {"filters": {"period": "last_30_days"}},
]
"""Calls with a ranking in each mode, with a filter, and without a query."""
CALLS_SOME_SLOW = [
    call_arguments
    if call_arguments in (CALLS[2], CALLS[4])
    else pytest.param(call_arguments, marks=pytest.mark.slow)
    for call_arguments in CALLS
]
"""The same calls. Only two of them run with the tests that are not slow."""
FORGED_POSITIONS: list[list[Any]] = [
    [],
    [None],
    ["!"],
    ["AAAAA"],
    ["é"],
    [5],
    [{"a": 1}],
    [True, False, "x"],
    [0, 10**30, "x"],
    [0, -(10**30), "x"],
    [0, 0, ""],
    [0, 0, "a/b"],
    [0, 0, "."],
    [0, 0, "__x__"],
    [0, 0, "x" * 1_600],
    [-5, 0, "x"],
]


@pytest.fixture(scope="module")
async def base_of_nine(shared_apps: Apps) -> Context:
    """Nine sources with a passage each, which match all `CALLS`."""
    ctx = shared_apps.context()
    rng = random.Random(2)  # noqa: S311 - no secret
    await store_sources(ctx, *(make_passage(number, rng) for number in range(9)))
    return ctx


@pytest.fixture(scope="module", params=[None, 50], ids=["complete postings", "truncated postings"])
async def base_with_deep_ranking(shared_apps: Apps, request: pytest.FixtureRequest) -> Context:
    """A source with more passages than any ranking."""
    ctx = shared_apps.context()
    texts = [
        f"anchor storm {number}" for number in range(max(MAX_LEXICAL_HITS, SMALL_SCOPE_SIZE) + 20)
    ]
    await store_sources(ctx, make_source_of_texts(texts, "deep", tags=("sea",), author="Ann"))
    if request.param:
        await truncate_postings(ctx, "facets", request.param)
    return ctx


@pytest.fixture(scope="module")
async def base_with_long_texts(shared_apps: Apps) -> Context:
    """Thirty passages that together are too long for a page."""
    ctx = shared_apps.context()
    await store_sources(ctx, *make_long_sources())
    return ctx


def make_long_sources() -> list[Source]:
    """Return thirty sources with a long passage each, always the same."""
    rng = random.Random(5)  # noqa: S311 - no secret
    texts = [" ".join(["anchor", "storm", *rng.choices(WORDS, k=430)]) for _ in range(30)]
    return [
        make_source_of_text(text, f"s{number}", tags=("sea",)) for number, text in enumerate(texts)
    ]


async def search_page(ctx: Context, **arguments: Any) -> Out:
    """Return a page of hits."""
    return await search_kb(In.model_validate(arguments), ctx)


def make_passage(number: int, rng: random.Random) -> Source:
    """Return a source with one passage about an anchor in a storm."""
    text = " ".join(["anchor storm", *rng.choices(WORDS, k=8), str(number)])
    return make_source_of_text(text, f"s{number}", tags=("sea",))


async def delete_source(ctx: Context, source: Source) -> None:
    """Delete a source, and leave it in the index."""
    await Ingestion(ctx.database).save([ChunkedSource(source, [])], ctx.clock())


@pytest.mark.parametrize("call_arguments", CALLS_SOME_SLOW)
async def test_unchanged_passages_appear_once_over_changing_pages(
    ctx: Context, call_arguments: dict[str, Any]
) -> None:
    """Between two pages, a passage is added and another one deleted."""
    rng = random.Random(str(call_arguments))  # noqa: S311 - no secret
    sources = [make_passage(number, rng) for number in range(14)]
    unchanged_sources, sources_to_delete = sources[:9], sources[9:]
    unchanged_ids = {chunk.chunk_id for chunk in await store_sources(ctx, *unchanged_sources)}
    await store_sources(ctx, *sources_to_delete)

    returned_ids: list[str] = []
    cursor = None
    for number in range(100, 200):
        out = await search_page(ctx, limit=2, cursor=cursor, **call_arguments)
        returned_ids += [hit.chunk_id for hit in out.results]
        cursor = out.next_cursor
        if cursor is None:
            break
        await _add_with_card(ctx, make_passage(number, rng))
        if sources_to_delete:
            await delete_source(ctx, sources_to_delete.pop())

    assert cursor is None
    assert len(returned_ids) == len(set(returned_ids))
    assert unchanged_ids <= set(returned_ids)


async def _add_with_card(ctx: Context, source: Source) -> None:
    """Store a passage, and then its knowledge card."""
    [chunk] = await store_sources(ctx, source)
    card = {"summary": "S.", "takeaways": []}
    await update_and_index_chunk(ctx, chunk.chunk_id, knowledge_card=card)


@pytest.mark.parametrize("call_arguments", CALLS)
async def test_a_page_is_full_although_the_best_hits_are_deleted(
    ctx: Context, call_arguments: dict[str, Any]
) -> None:
    rng = random.Random(1)  # noqa: S311 - no secret
    sources = [make_passage(number, rng) for number in range(12)]
    await store_sources(ctx, *sources)
    all_hits = (await search_page(ctx, limit=12, **call_arguments)).results
    ranked_ids = [hit.source_id for hit in all_hits]
    for source in sources:
        if source.source_id in ranked_ids[:5]:
            await delete_source(ctx, source)
    out = await search_page(ctx, limit=5, **call_arguments)
    assert [hit.source_id for hit in out.results] == ranked_ids[5:10]
    assert out.matches


@pytest.mark.parametrize("call_arguments", CALLS)
async def test_limit_and_detail_may_change_between_pages(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    long_page = await search_page(base_of_nine, limit=9, **call_arguments)
    first_page = await search_page(base_of_nine, limit=2, **call_arguments)
    second_page = await search_page(
        base_of_nine, limit=50, detail="full", cursor=first_page.next_cursor, **call_arguments
    )
    assert collect_chunk_ids([first_page, second_page]) == collect_chunk_ids([long_page])
    assert [hit.rank for hit in collect_hits([first_page, second_page])] == [*range(1, 10)]
    assert all(hit.content for hit in second_page.results)
    assert second_page.next_cursor is None


@pytest.mark.parametrize("call_arguments", [CALLS[1], CALLS[4], CALLS[5]])
async def test_a_damaged_cursor_is_refused_or_harmless(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    rng = random.Random(4)  # noqa: S311 - no secret
    cursor = (await search_page(base_of_nine, limit=1, **call_arguments)).next_cursor
    assert cursor
    for index in range(0, len(cursor), 3):
        changed_cursor = cursor[:index] + rng.choice("AQgw_z9-") + cursor[index + 1 :]
        shortened_cursor = cursor[:index] or "A"
        for invalid_cursor in (changed_cursor, shortened_cursor):
            await _assert_refused_or_harmless(base_of_nine, invalid_cursor, call_arguments)


@pytest.mark.parametrize("call_arguments", [CALLS[1], CALLS[4], CALLS[5]])
async def test_a_forged_cursor_is_refused_or_harmless(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    for position in FORGED_POSITIONS:
        forged_cursor = encode_cursor(In.model_validate(call_arguments), position)
        await _assert_refused_or_harmless(base_of_nine, forged_cursor, call_arguments)


def test_the_longest_possible_cursor_is_accepted() -> None:
    fingerprints = [
        f"{number:08x}"
        for number in range(max(MAX_LEXICAL_HITS, SMALL_SCOPE_SIZE + UNCHECKED_POOL))
    ]
    args = In.model_validate(
        {"query": "anchor", "cursor": encode_cursor(In(query="anchor"), fingerprints)}
    )
    assert decode_cursor(args, args.cursor, FINGERPRINTS) == fingerprints


async def _assert_refused_or_harmless(
    ctx: Context, cursor: str, call_arguments: dict[str, Any]
) -> None:
    """Assert that a call with a cursor is refused because of the cursor, or returns a page."""
    try:
        out = await search_page(ctx, limit=1, cursor=cursor, **call_arguments)
    except InvalidInput as refusal:
        assert "cursor" in refusal.message  # noqa: PT017 - either is right
    else:
        assert len(out.results) <= 1


@pytest.mark.parametrize("call_arguments", [CALLS[0], CALLS[1], CALLS[2], CALLS[4]])
async def test_pages_in_full_detail_have_a_bounded_size(
    base_with_long_texts: Context, call_arguments: dict[str, Any]
) -> None:
    pages = await search_all_pages(base_with_long_texts, 50, detail="full", **call_arguments)
    assert len(pages) > 1
    for page in pages:
        sizes = [len(hit.model_dump_json(exclude_none=True).encode()) for hit in page.results]
        assert sum(sizes) <= MAX_PAGE_BYTES

    hits = collect_hits(pages)
    assert [hit.rank for hit in hits] == [*range(1, 31)]
    assert len({hit.chunk_id for hit in hits}) == 30
    texts = {source.sections[0].text for source in make_long_sources()}
    assert {hit.content for hit in hits} == texts


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
async def test_pages_reach_the_end_of_a_deep_ranking(
    base_with_deep_ranking: Context, mode: str
) -> None:
    min_hits = MAX_LEXICAL_HITS if mode == "lexical" else DENSE_POOL
    for filters in ({}, {"tags": ["sea"]}, {"tags": ["sea"], "author": "Ann"}):
        arguments = {"query": "anchor storm", "mode": mode, "filters": filters}
        ids = collect_chunk_ids(await search_all_pages(base_with_deep_ranking, 50, **arguments))
        assert len(ids) == len(set(ids))
        assert len(ids) >= min_hits


async def test_passages_of_the_same_date_are_all_listed(ctx: Context) -> None:
    sources = [
        make_source_of_text(f"Passage {number}.", f"s{number:02}", tags=("x",))
        for number in range(25)
    ]
    await Ingestion(ctx.database).save(list(map(chunk_source, sources)), ctx.clock())
    await embed_all(ctx)
    await index_all(ctx)

    for filters in ({"tags": ["x"]}, {"period": "today"}):
        ids = collect_chunk_ids(await search_all_pages(ctx, 4, filters=filters))
        assert len(set(ids)) == 25

    await truncate_postings(ctx, "facets", cap=10)
    for more_filters in ({"tags": ["x"]}, {"tags": ["x"], "category": "books"}):
        ids = collect_chunk_ids(await search_all_pages(ctx, 4, filters=more_filters))
        assert len(ids) == len(set(ids)) == 25
