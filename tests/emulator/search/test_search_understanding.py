"""What a question says about dates, authors and order lifts passages and sorts them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from functions.tools.knowledge.search_kb.messages import NO_PERIOD
from functions.tools.knowledge.search_kb.tool import In, format_result, search_kb
from shared.core.errors import InvalidInput
from shared.knowledge.chunk_repository import UNDATED
from shared.runtime.context import App, Context
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL
from shared.search.lifts import MAX_LIFTED
from shared.search.understanding import DateOrder
from shared.writer.ingestion import Ingestion
from tests.support.clock import SettableClock
from tests.support.knowledge import chunk_source, embed_all, index_all, store_sources
from tests.support.read_cost import get_read_cost, make_call_context
from tests.support.searches import (
    collect_chunk_ids,
    collect_hits,
    date_source,
    make_source_of_text,
    make_source_of_texts,
    search_all_pages,
    update_and_index_chunk,
)

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
ANCHORS = [f"anchor, anchors and an anchor {number}" for number in range(130)]
FAR_TEXT = "a long story of bread in which at last one anchor is let down " * 3
"""A text that is not among the candidates for `anchors`, since all others are better."""
every_mode = pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


@pytest.mark.parametrize("in_period", [1, 60])
async def test_passages_of_a_period_come_first(ctx: Context, app: App, in_period: int) -> None:
    """They are read beside the other candidates; the third round trip is for notes about hits."""
    texts = [FAR_TEXT, *(f"bread {number}" for number in range(in_period - 1))]
    await store_sources(
        ctx,
        date_source(make_source_of_texts(ANCHORS, "others"), NOW - timedelta(days=60)),
        date_source(make_source_of_texts(texts, "right"), datetime(2024, 5, 31, 23, tzinfo=UTC)),
    )
    call_ctx = make_call_context(app)
    query = "What did I read about anchors in May 2024?"
    out = await search_kb(In(query=query, limit=50), call_ctx)
    hits_of_period = [hit for hit in out.results if hit.source_id == "right"]
    assert out.results[: len(hits_of_period)] == hits_of_period
    assert any(str(hit.snippet).startswith("a long story") for hit in hits_of_period)
    assert (out.matches, out.understood) == (True, "May 2024")
    cost = get_read_cost(call_ctx)
    totals, words, months = 1, 4, 1
    assert cost.round_trips == 3
    assert cost.documents <= DENSE_POOL + LEXICAL_POOL + MAX_LIFTED + totals + words + months


@every_mode
async def test_a_period_without_passages_is_said(ctx: Context, mode: str) -> None:
    await store_sources(ctx, date_source(make_source_of_texts(["anchor", "bread"]), NOW))
    out = await search_kb(In(query="anchor in May 2023", mode=mode), ctx)
    assert out.results[0].snippet == "anchor"
    assert out.understood == "May 2023"
    assert NO_PERIOD.format("May 2023") in str(out.message)
    assert out.matches


async def test_a_passage_that_names_the_period_is_of_it(ctx: Context) -> None:
    texts = "Anchors were sold in May 2024.", "anchors sold, sold anchors", "anchors of last week"
    await store_sources(ctx, date_source(make_source_of_texts(texts), NOW - timedelta(days=60)))
    out = await search_kb(In(query="anchors sold in May 2024"), ctx)
    assert out.results[0].snippet == texts[0]
    assert "No passage found" not in str(out.message)
    relative = await search_kb(In(query="anchors sold last week"), ctx)
    assert NO_PERIOD.format("2024-06-03 to 2024-06-09") in str(relative.message)


async def test_a_question_of_a_period_alone_lists_its_passages(ctx: Context) -> None:
    days = [NOW - timedelta(days=number) for number in range(8)]
    texts = [f"{number} days old" for number in range(8)]
    await store_sources(ctx, date_source(make_source_of_texts(texts), *days))
    pages = await search_all_pages(ctx, 2, query="What did I read last week?")
    assert [hit.snippet for hit in collect_hits(pages)] == texts[6:]
    assert format_result(pages[0]).startswith(
        "Understood: 2024-06-03 to 2024-06-09; newest first.\n\n2 of 2 passages, newest first.\n\n"
    )
    [nothing] = await search_all_pages(ctx, query="What did I read in May 2023?")
    assert (nothing.matches, nothing.understood) == (False, "May 2023")
    assert nothing.message
    assert NO_PERIOD.format("May 2023") in nothing.message


async def test_a_list_by_date_does_not_count_what_has_no_date(ctx: Context) -> None:
    may = datetime(2024, 5, 12, tzinfo=UTC)
    texts = make_source_of_texts(["a", "b", "c"])
    *_, undated = await store_sources(ctx, date_source(texts, may))
    fields = {"dated_at": UNDATED, "date_meaning": None}
    await update_and_index_chunk(ctx, undated.chunk_id, **fields)
    out = await search_kb(In(filters={"date_range": {"end": "2024-12-31"}}, limit=1), ctx)
    assert out.message == "1 of 2 passages, newest first."


async def test_a_question_of_a_period_has_its_sources_once(ctx: Context) -> None:
    may = datetime(2024, 5, 12, tzinfo=UTC)
    for name in ("one", "two"):
        await store_sources(
            ctx, date_source(make_source_of_texts([f"{name} a", f"{name} b"], name), may, may)
        )
    out = await search_kb(In(query="What did I read in May 2024?", by_source=True), ctx)
    assert {hit.source_id: hit.answering for hit in out.results} == {"one": 2, "two": 2}
    with pytest.raises(InvalidInput, match="by_source need a query"):
        await search_kb(In(filters={"tags": ["x"]}, by_source=True), ctx)


@every_mode
@pytest.mark.parametrize("question", ["Ann Helm on anchors", "What does Helm, Ann say of anchors?"])
async def test_passages_of_a_named_author_come_first(
    ctx: Context, mode: str, question: str
) -> None:
    await store_sources(
        ctx,
        make_source_of_texts(ANCHORS, "others", author="Ann Bo"),
        make_source_of_text(FAR_TEXT, "right", author="Ann Helm"),
    )
    out = await search_kb(In(query=question, mode=mode), ctx)
    assert (out.results[0].source_id, out.matches) == ("right", True)
    assert out.understood == "by Ann Helm"


async def test_a_surname_lifts_but_does_not_match(ctx: Context) -> None:
    await store_sources(
        ctx,
        make_source_of_texts(ANCHORS, "others", author="Ann Bo"),
        make_source_of_text(FAR_TEXT, "right", author="Ann Helm"),
    )
    args = In(query="zebras by Helm", mode="lexical", sort=DateOrder.NEWEST)
    out = await search_kb(args, ctx)
    assert (out.understood, out.matches) == ("by Ann Helm; newest first", False)


async def test_the_newest_of_the_good_hits_come_first(ctx: Context) -> None:
    texts = ["anchor in May", "anchor in June", "anchor of no date", "bread of today"]
    dates = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC), None, NOW
    log = replace(date_source(make_source_of_texts(texts), *dates), adds_only=True)
    await store_sources(ctx, log)
    out = await search_kb(In(query="What is the latest on an anchor?"), ctx)
    snippets = [hit.snippet for hit in out.results]
    assert snippets == [texts[1], texts[0], texts[2], texts[3]]
    assert out.understood == "newest first"


async def test_all_that_is_understood_counts_together(ctx: Context) -> None:
    may, june = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
    await store_sources(
        ctx,
        date_source(make_source_of_text("anchor", "may", author="Ann Helm"), may),
        date_source(make_source_of_text("anchor", "june", author="Ann Helm"), june),
        date_source(make_source_of_text("anchor", "other", author="Ida Loaf"), may),
    )
    out = await search_kb(In(query="the latest by Ann Helm in May 2024"), ctx)
    assert out.results[0].source_id == "may"
    assert out.understood == "May 2024; by Ann Helm; newest first"
    newest = await search_kb(In(query="What did Ann Helm write recently?"), ctx)
    assert newest.results[0].source_id == "june"


async def test_a_listing_and_a_search_continue_with_their_cursors(ctx: Context) -> None:
    texts = [f"anchor {number}" for number in range(7)]
    days = [NOW - timedelta(days=number) for number in range(7)]
    await store_sources(ctx, date_source(make_source_of_texts(texts), *days))
    for query in ("this year", "recent notes", "the latest anchor", "anchor 2022 notes"):
        pages = await search_all_pages(ctx, 3, query=query)
        assert len(set(collect_chunk_ids(pages))) == len(texts)


@every_mode
async def test_good_hits_are_sorted_by_date_on_demand(ctx: Context, mode: str) -> None:
    """A passage without a date is the last of them."""
    days = [NOW - timedelta(days=1), None, NOW, NOW - timedelta(days=2)]
    texts = ["an old anchor", "an anchor old", "old an anchor", "anchor an old"]
    source = date_source(make_source_of_texts(texts), *days)
    await Ingestion(ctx.database).save([chunk_source(source)], NOW)
    await embed_all(ctx)
    await index_all(ctx)
    dates = [f"highlighted 2024-06-{day}" for day in (13, 14, 15)]
    for sort, expected in {"newest": dates[::-1], "oldest": dates}.items():
        out = await search_kb(In(query="anchor", sort=sort, mode=mode), ctx)
        assert [hit.date for hit in out.results] == [*expected, None]
        assert out.understood == f"{sort} first"
    with pytest.raises(InvalidInput, match="need a query"):
        await search_kb(In(filters={"source": "many"}, sort="oldest"), ctx)
