"""`search_kb`: pages of an unchanged and of a changing base."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.errors import InvalidInput
from shared.knowledge.ingestion import ChunkedSource, Ingestion
from shared.runtime.pagination import MAX_PAGE_BYTES, decode_cursor, encode_cursor
from shared.search.candidates import DENSE_POOL, MAX_LEXICAL_HITS, UNCHECKED_POOL
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from shared.search.listing import FINGERPRINTS
from tests.support.knowledge import chunk_source, embed_all, index_all, store_sources
from tests.support.search_brute_force import WORDS
from tests.support.searches import (
    collect_hits,
    collect_ids,
    make_source_of_text,
    make_source_of_texts,
    search_all_pages,
    truncate_postings,
    update_and_index_chunk,
)

if TYPE_CHECKING:
    from functions.tools.knowledge.search_kb.tool import Out
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from tests.emulator.conftest import NewBase

pytestmark = pytest.mark.anyio

CALLS: list[dict[str, Any]] = [
    {"query": "anchor storm", "mode": "semantic"},
    {"query": "anchor storm", "mode": "lexical"},
    {"query": "anchor storm", "mode": "hybrid"},
    {"query": "anchor storm", "filters": {"tags": ["sea"]}},
    {"filters": {"tags": ["sea"]}},
    {"filters": {"period": "last_30_days"}},
]
CALLS_SOME_SLOW = [
    call_arguments
    if call_arguments in (CALLS[2], CALLS[4])
    else pytest.param(call_arguments, marks=pytest.mark.slow)
    for call_arguments in CALLS
]
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
async def base_of_nine(new_base: NewBase) -> Context:
    """Nine passages."""
    ctx = new_base(None)
    chance = random.Random(2)  # noqa: S311 - no secret
    await store_sources(ctx, *(make_passage(number, chance) for number in range(9)))
    return ctx


@pytest.fixture(scope="module", params=[None, 50], ids=["complete postings", "truncated postings"])
async def base_with_deep_ranking(new_base: NewBase, request: pytest.FixtureRequest) -> Context:
    """A source with more passages than any ranking."""
    ctx = new_base(None)
    texts = [
        f"anchor storm {number}" for number in range(max(MAX_LEXICAL_HITS, SMALL_SCOPE_SIZE) + 20)
    ]
    await store_sources(ctx, make_source_of_texts(texts, "deep", tags=("sea",), author="Ann"))
    if request.param:
        await truncate_postings(ctx, "facets", request.param)
    return ctx


@pytest.fixture(scope="module")
async def base_with_long_texts(new_base: NewBase) -> tuple[Context, list[str]]:
    """Thirty passages that together are too long for a page, and their texts."""
    ctx = new_base(None)
    chance = random.Random(5)  # noqa: S311 - no secret
    texts = [" ".join(["anchor", "storm", *chance.choices(WORDS, k=430)]) for _ in range(30)]
    sources = [
        make_source_of_text(text, f"s{number}", tags=("sea",)) for number, text in enumerate(texts)
    ]
    await store_sources(ctx, *sources)
    return ctx, texts


async def page(ctx: Context, **arguments: Any) -> Out:
    """One page."""
    return await search_kb(In.model_validate(arguments), ctx)


def make_passage(number: int, chance: random.Random) -> Source:
    """Return a source with one passage about an anchor in a storm."""
    text = " ".join(["anchor storm", *chance.choices(WORDS, k=8), str(number)])
    return make_source_of_text(text, f"s{number}", tags=("sea",))


async def remove(ctx: Context, source: Source) -> None:
    """Delete a source without indexing the deletion."""
    await Ingestion(ctx.database).save([ChunkedSource(source, [])], ctx.clock())


@pytest.mark.parametrize("call_arguments", CALLS_SOME_SLOW)
async def test_unchanged_passages_appear_once_over_changing_pages(
    ctx: Context, call_arguments: dict[str, Any]
) -> None:
    chance = random.Random(str(call_arguments))  # noqa: S311 - no secret
    sources = [make_passage(number, chance) for number in range(14)]
    unchanged_ids = {chunk.chunk_id for chunk in await store_sources(ctx, *sources[:9])}
    await store_sources(ctx, *sources[9:])
    returned_ids: list[str] = []
    cursor = None
    for number in range(100, 200):
        out = await page(ctx, limit=2, cursor=cursor, **call_arguments)
        returned_ids += [hit.chunk_id for hit in out.results]
        cursor = out.next_cursor
        if cursor is None:
            break
        await _disturb(ctx, number, chance, sources)
    assert len(returned_ids) == len(set(returned_ids))
    assert unchanged_ids <= set(returned_ids)


async def _disturb(ctx: Context, number: int, chance: random.Random, sources: list[Source]) -> None:
    """Add a passage, delete one and give one a card."""
    [chunk] = await store_sources(ctx, make_passage(number, chance))
    if len(sources) > 9:
        await remove(ctx, sources.pop())
    await update_and_index_chunk(
        ctx, chunk.chunk_id, knowledge_card={"summary": "S.", "takeaways": []}
    )


@pytest.mark.parametrize("call_arguments", CALLS)
async def test_a_page_is_full_although_first_hits_are_gone(
    ctx: Context, call_arguments: dict[str, Any]
) -> None:
    chance = random.Random(1)  # noqa: S311 - no secret
    sources = [make_passage(number, chance) for number in range(12)]
    await store_sources(ctx, *sources)
    best = [hit.source_id for hit in (await page(ctx, limit=12, **call_arguments)).results]
    for source in sources:
        if source.source_id in best[:5]:
            await remove(ctx, source)
    out = await page(ctx, limit=5, **call_arguments)
    assert best[5:10] == [hit.source_id for hit in out.results]
    assert out.matches


@pytest.mark.parametrize("call_arguments", CALLS)
async def test_limit_and_detail_may_change_between_pages(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    long_page = await page(base_of_nine, limit=9, **call_arguments)
    first_page = await page(base_of_nine, limit=2, **call_arguments)
    second_page = await page(
        base_of_nine, limit=50, detail="full", cursor=first_page.next_cursor, **call_arguments
    )
    assert collect_ids([long_page]) == collect_ids([first_page, second_page])
    assert [*range(1, 10)] == [hit.rank for hit in collect_hits([first_page, second_page])]
    assert all(hit.content for hit in second_page.results)
    assert second_page.next_cursor is None


@pytest.mark.parametrize(
    "other_arguments",
    [
        {"query": "anchors storm"},
        {"mode": "semantic"},
        {"filters": {"tags": ["sea", "land"]}},
        {"search_cards_only": True},
        {"query": None},
    ],
)
async def test_a_cursor_belongs_to_its_arguments(
    base_of_nine: Context, other_arguments: dict[str, Any]
) -> None:
    arguments = {"query": "anchor storm", "filters": {"tags": ["sea"]}, "limit": 1}
    cursor = (await page(base_of_nine, **arguments)).next_cursor
    with pytest.raises(InvalidInput, match="other arguments"):
        await page(base_of_nine, **(arguments | other_arguments), cursor=cursor)


@pytest.mark.parametrize("call_arguments", [CALLS[1], CALLS[4], CALLS[5]])
async def test_a_damaged_cursor_is_refused_or_harmless(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    chance = random.Random(4)  # noqa: S311 - no secret
    cursor = (await page(base_of_nine, limit=1, **call_arguments)).next_cursor
    assert cursor
    for place in range(0, len(cursor), 3):
        changed_cursor = cursor[:place] + chance.choice("AQgw_z9-") + cursor[place + 1 :]
        for invalid_cursor in (changed_cursor, cursor[:place] or "A"):
            await _require_refused_or_harmless(base_of_nine, invalid_cursor, call_arguments)


@pytest.mark.parametrize("call_arguments", [CALLS[1], CALLS[4], CALLS[5]])
async def test_a_forged_cursor_is_refused_or_harmless(
    base_of_nine: Context, call_arguments: dict[str, Any]
) -> None:
    for position in FORGED_POSITIONS:
        forged_cursor = encode_cursor(In.model_validate(call_arguments), position)
        await _require_refused_or_harmless(base_of_nine, forged_cursor, call_arguments)


def test_the_longest_possible_cursor_is_accepted() -> None:
    fingerprints = [
        f"{number:08x}"
        for number in range(max(MAX_LEXICAL_HITS, SMALL_SCOPE_SIZE + UNCHECKED_POOL))
    ]
    args = In.model_validate(
        {"query": "anchor", "cursor": encode_cursor(In(query="anchor"), fingerprints)}
    )
    assert decode_cursor(args, args.cursor, FINGERPRINTS) == fingerprints


async def _require_refused_or_harmless(
    ctx: Context, cursor: str, call_arguments: dict[str, Any]
) -> None:
    try:
        out = await page(ctx, limit=1, cursor=cursor, **call_arguments)
    except InvalidInput as refusal:
        assert "cursor" in refusal.message  # noqa: PT017 - either is right
    else:
        assert len(out.results) <= 1


@pytest.mark.parametrize("call_arguments", [CALLS[0], CALLS[1], CALLS[2], CALLS[4]])
async def test_full_hits_come_in_pages_of_bounded_size(
    base_with_long_texts: tuple[Context, list[str]], call_arguments: dict[str, Any]
) -> None:
    ctx, texts = base_with_long_texts
    pages = await search_all_pages(ctx, 50, detail="full", **call_arguments)
    assert len(pages) > 1
    for item in pages:
        sizes = [len(hit.model_dump_json(exclude_none=True).encode()) for hit in item.results]
        assert sum(sizes) <= MAX_PAGE_BYTES
    assert len(collect_ids(pages)) == 30
    assert len(set(collect_ids(pages))) == 30
    assert [*range(1, 31)] == [hit.rank for hit in collect_hits(pages)]
    assert set(texts) == {hit.content for hit in collect_hits(pages)}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
async def test_paging_reaches_the_end_of_a_deep_ranking(
    base_with_deep_ranking: Context, mode: str
) -> None:
    enough = MAX_LEXICAL_HITS if mode == "lexical" else DENSE_POOL
    ways: list[dict[str, Any]] = [{}, {"tags": ["sea"]}, {"tags": ["sea"], "author": "Ann"}]
    for filters in ways:
        returned_ids = collect_ids(
            await search_all_pages(
                base_with_deep_ranking, 50, query="anchor storm", mode=mode, filters=filters
            )
        )
        assert len(returned_ids) == len(set(returned_ids))
        assert enough <= len(returned_ids)


async def test_a_listing_with_equal_dates_is_complete(ctx: Context) -> None:
    sources = [
        make_source_of_text(f"Passage {number}.", f"s{number:02}", tags=("x",))
        for number in range(25)
    ]
    await Ingestion(ctx.database).save(list(map(chunk_source, sources)), ctx.clock())
    await embed_all(ctx)
    await index_all(ctx)
    for alone in ({"tags": ["x"]}, {"period": "today"}):
        assert len(set(collect_ids(await search_all_pages(ctx, 4, filters=alone)))) == 25
    await truncate_postings(ctx, "facets", cap=10)
    ways: list[dict[str, Any]] = [{"tags": ["x"]}, {"tags": ["x"], "category": "books"}]
    for filters in ways:
        returned_ids = collect_ids(await search_all_pages(ctx, 4, filters=filters))
        assert len(returned_ids) == 25
        assert len(set(returned_ids)) == 25
