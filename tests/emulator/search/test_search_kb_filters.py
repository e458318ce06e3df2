"""`search_kb` filters passages, with one filter or several, with a query or without.

The index keeps postings for each word and each value of a filter: the list of passages that have
it. Long postings are truncated. A filter must find passages that these lists have lost, too.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.knowledge import chunk_source, store_sources
from tests.support.searches import (
    collect_chunk_ids,
    collect_hits,
    make_source_of_text,
    make_source_of_texts,
    search_all_pages,
    truncate_postings,
    update_and_index_chunk,
)

NOW = datetime(2024, 3, 15, 12, tzinfo=UTC)
MODES = ["semantic", "lexical", "hybrid", None]
"""The modes of a query. None stands for a call without a query, which lists the newest passages."""
OFF_TOPIC_TEXT = "a long story of bread in which at last one anchor is let down " * 3
"""A text that ranks low for the query `anchor`, by meaning and by words."""
NEAR_COUNT = 300
"""The number of better hits behind which a passage must be found. A search without filters never
ranks that many."""
DATES = {
    "today": datetime(2024, 3, 15, 0, tzinfo=UTC),
    "yesterday": datetime(2024, 3, 14, 23, 59, 59, 999_999, tzinfo=UTC),
    "last_week": datetime(2024, 3, 9, 0, tzinfo=UTC),
    "mid_february": datetime(2024, 2, 15, 0, tzinfo=UTC),
    "first_of_february": datetime(2024, 2, 1, 0, tzinfo=UTC),
    "last_year": datetime(2023, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "long_ago": datetime(2019, 5, 1, tzinfo=UTC),
}
"""The date of each source of `dated_base`, newest first. Some are the first or the last microsecond
of a day, because that is where a wrong time zone or comparison shows."""


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


async def find_matching_sources(ctx: Context, mode: str | None, **arguments: Any) -> set[str]:
    """Return the source ids of all hits for the query `anchor`; without a mode, for no query."""
    query_arguments = {"query": "anchor", "mode": mode} if mode else {}
    pages = await search_all_pages(ctx, 50, **query_arguments, **arguments)
    return {hit.source_id for hit in collect_hits(pages)}


def copy_with_date(source: Source, date: datetime) -> Source:
    """Return a copy of a source whose passages were all highlighted at one time."""
    sections = [replace(section, highlighted_at=date) for section in source.sections]
    return replace(source, sections=tuple(sections))


@pytest.fixture(scope="module")
async def library(shared_apps: Apps) -> Context:
    """A book in two clusters, a book with a knowledge card, and an article, all about anchors."""
    ctx = shared_apps.context(NOW)
    anchor_book = make_source_of_text(
        "An anchor.", "anchor-book", author="Ida Loaf", tags=("Sea", "iron"), title="On Anchors"
    )
    rope_book = make_source_of_text(
        "An anchor too.", "rope-book", author="Ann Bo", tags=("sea", "gift"), title="Ropes"
    )
    article = make_source_of_text(
        "Anchor or not.", "article", author=None, tags=("news",), category="articles"
    )
    [anchor_chunk, rope_chunk, _] = await store_sources(ctx, anchor_book, rope_book, article)
    await update_and_index_chunk(ctx, anchor_chunk.chunk_id, cluster_id=["c2", "c1"])
    card = {"summary": "S.", "takeaways": []}
    await update_and_index_chunk(ctx, rope_chunk.chunk_id, knowledge_card=card)
    return ctx


@pytest.fixture(scope="module")
async def dated_base(shared_apps: Apps) -> Context:
    """A source for each date, stored in another order than that of the dates."""
    ctx = shared_apps.context(NOW)
    sources = [
        copy_with_date(make_source_of_text(f"An anchor of {source_id}.", source_id), date)
        for source_id, date in reversed(DATES.items())
    ]
    await store_sources(ctx, *sources)
    return ctx


@pytest.fixture(
    scope="module", params=[False, True], ids=["complete postings", "truncated postings"]
)
async def base_with_low_ranked_passage(
    shared_apps: Apps, request: pytest.FixtureRequest
) -> Context:
    """A passage with a rare tag, and 300 that match the query better."""
    ctx = shared_apps.context(NOW)
    near_source = make_source_of_texts(
        [f"anchor anchor anchor {number}" for number in range(NEAR_COUNT)], "near", tags=("big",)
    )
    far_source = make_source_of_text(OFF_TOPIC_TEXT, "far", tags=("rare", "big"))
    await store_sources(ctx, near_source, far_source)
    if request.param:
        await truncate_postings(ctx, "lexicon", cap=50)
    return ctx


@pytest.fixture(scope="module")
async def base_with_truncated_facets(shared_apps: Apps) -> Context:
    """A passage that passes two filters, but is missing from the truncated postings of both.

    There are 300 newer passages that match the query better and pass one of the filters.
    """
    ctx = shared_apps.context(NOW)
    texts = ["anchor anchor " * 2 + f"{number}" for number in range(NEAR_COUNT // 2)]
    tagged_source = make_source_of_texts(texts, "tagged", tags=("big",))
    authored_source = make_source_of_texts(texts, "authored", author="Ann")
    both_source = copy_with_date(
        make_source_of_text(OFF_TOPIC_TEXT, "both", tags=("big",), author="Ann"), DATES["long_ago"]
    )
    await store_sources(ctx, tagged_source, authored_source, both_source)
    await truncate_postings(ctx, "facets", cap=20)
    return ctx


@pytest.fixture(scope="module")
async def base_with_low_ranked_scope(shared_apps: Apps) -> Context:
    """A large set of passages that pass two filters, and nearer ones that pass only one."""
    ctx = shared_apps.context(NOW)
    near_texts = [f"anchor anchor {number}" for number in range(250)]
    far_texts = [f"bread and butter and jam {number}" for number in range(SMALL_SCOPE_SIZE + 90)]
    await store_sources(
        ctx,
        make_source_of_texts(near_texts, "near", tags=("big",)),
        make_source_of_texts(far_texts, "far", tags=("big",), author="Ann"),
    )
    return ctx


@pytest.fixture(scope="module")
async def base_with_long_book(shared_apps: Apps) -> Context:
    """A source with more passages than a small scope has, and another source."""
    ctx = shared_apps.context(NOW)
    texts = [f"anchor of {number}" for number in range(SMALL_SCOPE_SIZE + 10)]
    await store_sources(
        ctx,
        make_source_of_texts(texts, "book", title="A Long Book"),
        make_source_of_text("anchor", "other"),
    )
    return ctx


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tags": ["SEA"]}, {"anchor-book", "rope-book"}),
        ({"tags": ["gift", "news"]}, {"rope-book", "article"}),
        ({"tags": ["nobody", "news"]}, {"article"}),
        ({"author": "ida  LOAF"}, {"anchor-book"}),
        ({"source": "on anchors"}, {"anchor-book"}),
        ({"source": "rope-book"}, {"rope-book"}),
        ({"category": "Books"}, {"anchor-book", "rope-book"}),
        ({"cluster_id": "c1"}, {"anchor-book"}),
        (
            {"tags": ["sea"], "author": "Ann Bo", "category": "books", "source": "ropes"},
            {"rope-book"},
        ),
        ({"tags": ["sea"], "author": "Ann Bo", "source": "anchor-book"}, set()),
        ({"tags": ["sea"], "cluster_id": "c2", "period": "today"}, {"anchor-book"}),
        ({"tags": ["sea"], "period": "last_month"}, set()),
    ],
)
async def test_hits_pass_all_filters(
    library: Context, mode: str | None, filters: dict[str, Any], expected: set[str]
) -> None:
    assert await find_matching_sources(library, mode, filters=filters) == expected


@pytest.mark.parametrize("mode", MODES)
async def test_only_passages_with_a_card_are_found(library: Context, mode: str | None) -> None:
    arguments: dict[str, Any] = {"search_cards_only": True}
    assert await find_matching_sources(library, mode, **arguments) == {"rope-book"}
    arguments["filters"] = {"author": "Ida Loaf"}  # of the book without a card
    assert await find_matching_sources(library, mode, **arguments) == set()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"period": "today"}, ["today"]),
        ({"period": "yesterday"}, ["yesterday"]),
        ({"period": "last_3_days"}, ["today", "yesterday"]),
        ({"period": "last_7_days"}, ["today", "yesterday", "last_week"]),
        ({"period": "last_30_days"}, ["today", "yesterday", "last_week", "mid_february"]),
        ({"period": "last_month"}, ["mid_february", "first_of_february"]),
        ({"period": "last_year"}, ["last_year"]),
        ({"date_range": {"start": "2024-03-14", "end": "2024-03-14"}}, ["yesterday"]),
        ({"date_range": {"start": "2024-03-15"}}, ["today"]),
        ({"date_range": {"end": "2023-12-31"}}, ["last_year", "long_ago"]),
        (
            {"date_range": {"start": "2019-05-01", "end": "2024-02-01"}},
            ["first_of_february", "last_year", "long_ago"],
        ),
        ({"date_range": {"start": "2030-01-01"}}, []),
        ({"date_range": {"end": "2024-03-13"}, "period": "last_7_days"}, ["last_week"]),
        ({"date_range": {"end": "2020-01-01"}, "period": "today"}, []),
        (
            {"date_range": {"start": "2024-02-01"}, "category": "books"},
            ["today", "yesterday", "last_week", "mid_february", "first_of_february"],
        ),
        ({"date_range": {"start": "2019-01-01"}, "category": "books"}, list(DATES)),
    ],
)
async def test_passages_are_filtered_by_days_in_utc(
    dated_base: Context, mode: str | None, filters: dict[str, Any], expected: list[str]
) -> None:
    assert await find_matching_sources(dated_base, mode, filters=filters) == set(expected)


async def test_days_are_those_of_the_named_time_zone(dated_base: Context) -> None:
    """At 23:59 UTC on the 14th, it is the 15th in Tokyo; at 0:00 UTC, the 14th in California."""
    for zone, source_ids in (
        ("Asia/Tokyo", ["today", "yesterday"]),
        ("America/Los_Angeles", []),
        ("UTC", ["today"]),
    ):
        for days in ({"period": "today"}, {"date_range": {"start": "2024-03-15"}}):
            out = await search_kb(In(filters={**days, "time_zone": zone}), dated_base)
            assert [hit.source_id for hit in out.results] == source_ids


async def test_a_month_may_be_the_bound_of_a_range(dated_base: Context) -> None:
    out = await search_kb(
        In(filters={"date_range": {"start": "2024-02", "end": "2024-02"}}), dated_base
    )
    assert [hit.source_id for hit in out.results] == ["mid_february", "first_of_february"]


async def test_hits_without_a_query_are_listed_newest_first(dated_base: Context) -> None:
    hits = collect_hits(await search_all_pages(dated_base, 3, filters={"category": "books"}))
    assert [hit.source_id for hit in hits] == list(DATES)
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5, 6, 7]
    assert all(hit.similarity is None for hit in hits)
    assert all(hit.found_by == [] for hit in hits)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filters", [{"tags": ["b"]}, {"tags": ["a"], "author": "Ann"}])
async def test_an_edited_passage_is_found_by_its_new_fields(
    ctx: Context, mode: str | None, filters: dict[str, Any]
) -> None:
    """The postings still have the fields from before the edit, which pass the filters."""
    fields: dict[str, Any] = {"tags": ("a", "b"), "author": "Ann"}
    edited_source = make_source_of_text("An anchor.", "edited", **fields)
    unchanged_source = make_source_of_text("An anchor here.", "unchanged", **fields)
    await store_sources(ctx, edited_source, unchanged_source)
    new_source = replace(edited_source, tags=("c",))
    await Ingestion(ctx.database).save([chunk_source(new_source)], ctx.clock())
    assert await find_matching_sources(ctx, mode, filters=filters) == {"unchanged"}


# The mode None is left out, because a call without a query does not rank.
@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
async def test_a_filter_finds_a_passage_behind_300_nearer_passages(
    base_with_low_ranked_passage: Context, mode: str
) -> None:
    for filters in ({"tags": ["rare"]}, {"tags": ["big"], "source": "far"}):
        sources = await find_matching_sources(base_with_low_ranked_passage, mode, filters=filters)
        assert sources == {"far"}


@pytest.mark.parametrize("mode", MODES)
async def test_filters_find_a_passage_missing_from_postings(
    base_with_truncated_facets: Context, mode: str | None
) -> None:
    filters = {"tags": ["big"], "author": "Ann"}
    sources = await find_matching_sources(base_with_truncated_facets, mode, filters=filters)
    assert sources == {"both"}


# In lexical mode, the passages would not be found, since they do not contain the query.
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_two_filters_find_passages_behind_nearer_passages(
    base_with_low_ranked_scope: Context, mode: str
) -> None:
    filters = {"tags": ["big"], "author": "ann"}
    assert await find_matching_sources(base_with_low_ranked_scope, mode, filters=filters) == {"far"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filters", [{"source": "a long book"}, {"source": "book"}])
async def test_a_source_of_many_passages_is_found_by_title_and_id(
    base_with_long_book: Context, mode: str | None, filters: dict[str, Any]
) -> None:
    query_arguments = {"query": "anchor", "mode": mode} if mode else {}
    pages = await search_all_pages(base_with_long_book, 50, filters=filters, **query_arguments)
    assert {hit.source_id for hit in collect_hits(pages)} == {"book"}
    if mode in (None, "lexical"):  # A vector search stops earlier: it ranks its nearest hits only.
        assert len(set(collect_chunk_ids(pages))) == SMALL_SCOPE_SIZE + 10


@pytest.mark.parametrize("mode", MODES)
async def test_passages_are_filtered_by_language(ctx: Context, mode: str | None) -> None:
    await store_sources(
        ctx,
        make_source_of_text("anchor", "english", language="en"),
        make_source_of_text("anchor", "german", language="de"),
        make_source_of_text("anchor", "without-language"),
    )
    assert await find_matching_sources(ctx, mode, filters={"language": "EN"}) == {"english"}
    page, *_ = await search_all_pages(ctx, 5, filters={"language": "eng"})
    assert page.message == "There is no language 'eng'. Nearest: 'en'."


@pytest.mark.parametrize("mode", MODES)
async def test_a_language_filter_finds_its_regions(ctx: Context, mode: str | None) -> None:
    await store_sources(
        ctx,
        make_source_of_text("anchor", "american", language="en-US"),
        make_source_of_text("anchor", "british", language="en-GB"),
    )
    assert await find_matching_sources(ctx, mode, filters={"language": "en"}) == {
        "american",
        "british",
    }
    assert await find_matching_sources(ctx, mode, filters={"language": "en-us"}) == {"american"}
