"""`search_kb` returns hits page by page, also while the knowledge base changes.

A cursor contains the number of hits on earlier pages, and which of them was the last.
"""

import random
from typing import Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, Out, format_result, search_kb
from shared.core.errors import InvalidInput
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.runtime.pagination import MAX_PAGE_BYTES, encode_cursor
from shared.search.candidates import DENSE_POOL, MAX_LEXICAL_HITS
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from shared.writer.chunked_source import ChunkedSource
from shared.writer.ingestion import Ingestion
from tests.support.apps import Apps
from tests.support.knowledge import store_sources
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
CARD = {"summary": "S.", "takeaways": []}
FORGED_POSITIONS: list[list[Any]] = [
    *(
        [],
        [None],
        ["!"],
        [3, "0123abcd"],
        ["AAAAA"],
        ["é"],
        [5],
        [{"a": 1}],
        [True, False, "x"],
        [-5, 0, "x"],
    ),
    *([0, 10**30, "x"], [0, -(10**30), "x"]),
    *([0, 0, name] for name in ("", "a/b", ".", "__x__", "x" * 1_600)),
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


async def search_page(ctx: Context, **arguments: Any) -> Out:
    return await search_kb(In.model_validate(arguments), ctx)


def make_passage(number: int, rng: random.Random) -> Source:
    text = " ".join(["anchor storm", *rng.choices(WORDS, k=8), str(number)])
    return make_source_of_text(text, f"s{number}", tags=("sea",))


async def delete_source(ctx: Context, source: Source) -> None:
    """Delete a source, and leave it in the index."""
    await Ingestion(ctx.database).save([ChunkedSource(source, [])], ctx.clock())


@pytest.mark.parametrize("call_arguments", CALLS[4:])
async def test_unchanged_passages_appear_once_over_changing_pages(
    ctx: Context, call_arguments: dict[str, Any]
) -> None:
    """Between two pages of a listing, a passage is added and another one deleted."""
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
        [chunk] = await store_sources(ctx, make_passage(number, rng))
        await update_and_index_chunk(ctx, chunk.chunk_id, knowledge_card=CARD)
        if sources_to_delete:
            await delete_source(ctx, sources_to_delete.pop())

    assert cursor is None
    assert len(returned_ids) == len(set(returned_ids))
    assert unchanged_ids <= set(returned_ids)


@pytest.mark.parametrize("call_arguments", CALLS)
async def test_a_page_is_full_although_the_best_hits_are_deleted(
    ctx: Context, call_arguments: dict[str, Any]
) -> None:
    rng = random.Random(1)  # noqa: S311 - no secret
    sources = [make_passage(number, rng) for number in range(12)]
    await store_sources(ctx, *sources)
    all_hits = (await search_page(ctx, limit=12, **call_arguments)).results
    ranked_ids = [hit.source_id for hit in all_hits if not hit.near]
    for source in sources:
        if source.source_id in ranked_ids[:5]:
            await delete_source(ctx, source)
    out = await search_page(ctx, limit=5, **call_arguments)
    answers = [hit.source_id for hit in out.results if not hit.near]
    assert answers[:1] == ranked_ids[5:6]
    assert not {hit.source_id for hit in out.results}.intersection(ranked_ids[:5])
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
    hits = collect_hits([first_page, second_page])
    assert [hit.rank for hit in hits] == [*range(1, len(hits) + 1)]
    assert all(hit.content for hit in second_page.results if not hit.near)
    assert second_page.next_cursor is None


@pytest.mark.parametrize("call_arguments", [CALLS[1], CALLS[4], CALLS[5]])
async def test_a_forged_cursor_is_refused_or_harmless(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    """So is one of which a character was lost or changed."""
    rng = random.Random(4)  # noqa: S311 - no secret
    cursor = (await search_page(base_of_nine, limit=1, **call_arguments)).next_cursor or ""
    args = In.model_validate(call_arguments)
    cursors = [encode_cursor(args, position) for position in FORGED_POSITIONS]
    for index in range(0, len(cursor), 3):
        changed = cursor[:index] + rng.choice("AQgw_z9-") + cursor[index + 1 :]
        cursors += [changed, cursor[:index] or "A"]
    for forged in cursors:
        try:
            out = await search_page(base_of_nine, limit=1, cursor=forged, **call_arguments)
        except InvalidInput as refusal:
            assert "cursor" in refusal.message  # noqa: PT017 - either is right
        else:
            assert len(out.results) <= 1


async def test_a_cursor_is_short(base_of_nine: Context) -> None:
    for call_arguments in CALLS:
        out = await search_page(base_of_nine, limit=2, **call_arguments)
        assert 0 < len(out.next_cursor or "") <= 80


@pytest.mark.parametrize("call_arguments", [CALLS[1], CALLS[2], CALLS[4]])
async def test_pages_in_full_detail_have_a_bounded_size(
    shared_apps: Apps, call_arguments: dict[str, Any]
) -> None:
    """These passages together are too long for a page."""
    ctx = shared_apps.context()
    rng = random.Random(5)  # noqa: S311 - no secret
    texts = [" ".join(["anchor", "storm", *rng.choices(WORDS, k=215)]) for _ in range(30)]
    sources = [make_source_of_text(text, f"s{n}", tags=("sea",)) for n, text in enumerate(texts)]
    await store_sources(ctx, *sources, provider="vertex")
    pages = await search_all_pages(ctx, 50, detail="full", **call_arguments)
    assert len(pages) > 1
    for page in pages:
        sizes = [len(hit.model_dump_json(exclude_none=True).encode()) for hit in page.results]
        assert sum(sizes) <= MAX_PAGE_BYTES
    hits = collect_hits(pages)
    assert [hit.rank for hit in hits] == [*range(1, len(texts) + 1)]
    assert sorted(hit.content or "" for hit in hits) == sorted(texts)


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
    names = [f"s{number:02}" for number in range(25)]
    sources = [make_source_of_text(f"Passage {name}.", name, tags=("x",)) for name in names]
    await store_sources(ctx, *sources)
    for filters in ({"tags": ["x"]}, {"period": "today"}, {"tags": ["x"], "category": "books"}):
        hits = collect_hits(await search_all_pages(ctx, 4, filters=filters))
        assert sorted(hit.source_id for hit in hits) == names
        if "period" in filters:
            await truncate_postings(ctx, "facets", cap=10)
            hits = collect_hits(await search_all_pages(ctx, 4, filters={"tags": ["x"]}))
            assert sorted(hit.source_id for hit in hits) == names


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
async def test_a_search_by_source_has_each_source_once(ctx: Context, mode: str) -> None:
    """Each source is shown by its best passage, with the number of its passages that answer."""
    await store_sources(
        ctx,
        make_source_of_texts(["anchor", "anchor and chain", "tea"], "one"),
        make_source_of_texts(["anchor and rope", "coffee"], "two"),
        make_source_of_texts(["an anchor " * 3, "juice"], "three"),
        make_source_of_texts(["milk", "water"], "four"),
    )
    query: dict[str, Any] = {"query": "anchor", "mode": mode}
    all_hits = collect_hits(await search_all_pages(ctx, **query))
    best = dict.fromkeys(hit.source_id for hit in all_hits if not hit.near)
    pages = await search_all_pages(ctx, limit=2, by_source=True, **query)
    hits = collect_hits(pages)
    rows = {hit.source_id: hit.answering for hit in hits if not hit.near}
    assert list(rows) == list(best)
    assert rows == {"one": 2, "two": 1, "three": 1}
    assert len({hit.source_id for hit in hits}) == len(hits)
    assert "Answers: 2 of 3." in str(pages[0].message)
    assert "Answering passages: 2" in format_result(pages[0])
