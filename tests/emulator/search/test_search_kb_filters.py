"""`search_kb` filters passages, with one filter or several, with a query or without.

The index keeps postings for each word and each value of a filter: the list of passages that have
it. Long postings are truncated. A filter must find passages that these lists have lost, too.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.tools.knowledge.search_kb.messages import UNCHECKED
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.ids import make_passage_id
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.search.filter_plan import SMALL_SCOPE_SIZE
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.knowledge import ingest_sources, store_sources
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
every_mode = pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid", None])
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
    anchor_fields: dict[str, Any] = {
        "author": "Ida Loaf",
        "tags": ("Sea", "iron"),
        "language": "en",
        "folder": "vault/sea",
    }
    rope_fields: dict[str, Any] = {"author": "Ann Bo", "tags": ("sea", "gift"), "language": "en-US"}
    article = make_source_of_text(
        "Anchor.", "article", tags=("news",), category="articles", folder="vault"
    )
    anchor_chunk, rope_chunk, _ = await store_sources(
        ctx,
        make_source_of_text("An anchor.", "anchor-book", title="On Anchors", **anchor_fields),
        make_source_of_text("An anchor too.", "rope-book", title="Ropes", **rope_fields),
        article,
    )
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


@every_mode
async def test_hits_pass_all_filters(library: Context, mode: str | None) -> None:
    """More combinations are compared with brute force."""
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"tags": ["SEA"]}, {"anchor-book", "rope-book"}),
        ({"tags": ["nobody", "news"]}, {"article"}),
        ({"tags_all": ["sea", "GIFT"]}, {"rope-book"}),
        ({"tags": ["-gift"]}, {"anchor-book", "article"}),
        ({"tags": ["sea", "-gift", "-news"]}, {"anchor-book"}),
        ({"category": "-books"}, {"article"}),
        ({"language": "-en"}, {"article"}),
        ({"author": "-Ida Loaf", "source": "-rope-book"}, {"article"}),
        ({"folder": "Vault"}, {"anchor-book", "article"}),
        ({"folder": "vault/sea"}, {"anchor-book"}),
        ({"folder": "-vault/sea"}, {"rope-book", "article"}),
        ({"tags": ["iron", "news"], "tags_all": ["sea"]}, {"anchor-book"}),
        ({"tags_all": ["sea", "news"]}, set()),
        ({"author": "ida  LOAF"}, {"anchor-book"}),
        ({"source": "on anchors"}, {"anchor-book"}),
        ({"source": "rope-book"}, {"rope-book"}),
        ({"source": make_passage_id("rope-book", "An anchor too.")}, {"rope-book"}),
        ({"category": "Books"}, {"anchor-book", "rope-book"}),
        ({"cluster_id": "c1"}, {"anchor-book"}),
        ({"tags": ["sea"], "author": "Ann Bo", "source": "anchor-book"}, set()),
        ({"tags": ["sea"], "cluster_id": "c2", "period": "today"}, {"anchor-book"}),
        ({"tags": ["sea"], "period": "last_month"}, set()),
        ({"language": "EN"}, {"anchor-book", "rope-book"}),
        ({"language": "en-us"}, {"rope-book"}),
    ]
    for filters, expected in cases:
        assert await find_matching_sources(library, mode, filters=filters) == expected, filters
    cards: dict[str, Any] = {"search_cards_only": True}
    assert await find_matching_sources(library, mode, **cards) == {"rope-book"}
    cards["filters"] = {"author": "Ida Loaf"}  # of the book without a card
    assert await find_matching_sources(library, mode, **cards) == set()
    page, *_ = await search_all_pages(library, 5, filters={"language": "eng"})
    assert page.message == "There is no language 'eng'. There are: en, en-US."


@every_mode
async def test_passages_are_filtered_by_days_in_utc(dated_base: Context, mode: str | None) -> None:
    names = list(DATES)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"period": "today"}, ["today"]),
        ({"period": "yesterday"}, ["yesterday"]),
        ({"period": "last_7_days"}, names[:3]),
        ({"period": "last_30_days"}, names[:4]),
        ({"period": "last_month"}, names[3:5]),
        ({"period": "last_year"}, ["last_year"]),
        ({"date_range": {"start": "2024-03-14", "end": "2024-03-14"}}, ["yesterday"]),
        ({"date_range": {"start": "2024-03-15"}}, ["today"]),
        ({"date_range": {"start": "2024-02", "end": "2024-02"}}, names[3:5]),
        ({"date_range": {"start": "2019-05-01", "end": "2024-02-01"}}, names[4:]),
        ({"date_range": {"start": "2030-01-01"}}, []),
        ({"date_range": {"end": "2024-03-13"}, "period": "last_7_days"}, ["last_week"]),
        ({"date_range": {"end": "2020-01-01"}, "period": "today"}, []),
        ({"date_range": {"start": "2024-02-01"}, "category": "books"}, names[:5]),
        ({"date_range": {"start": "2019-01-01"}, "category": "books"}, names),
    ]
    for filters, expected in cases:
        sources = await find_matching_sources(dated_base, mode, filters=filters)
        assert sources == set(expected), filters


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


async def test_hits_without_a_query_are_listed_newest_first(dated_base: Context) -> None:
    hits = collect_hits(await search_all_pages(dated_base, 3, filters={"category": "books"}))
    listed = [(hit.rank, hit.source_id, hit.score, hit.found_by) for hit in hits]
    assert listed == [(rank, name, None, []) for rank, name in enumerate(DATES, 1)]


@every_mode
async def test_an_edited_passage_is_found_by_its_new_fields(ctx: Context, mode: str | None) -> None:
    """The postings still have the fields from before the edit, which pass the filters."""
    fields: dict[str, Any] = {"tags": ("a", "b"), "author": "Ann"}
    edited = make_source_of_text("An anchor.", "edited", **fields)
    await store_sources(ctx, edited, make_source_of_text("An anchor here.", "unchanged", **fields))
    await ingest_sources(ctx, replace(edited, tags=("c",)))
    for filters in ({"tags": ["b"]}, {"tags": ["a"], "author": "Ann"}):
        assert await find_matching_sources(ctx, mode, filters=filters) == {"unchanged"}


# The mode None is left out, because a call without a query does not rank.
@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
async def test_a_filter_finds_a_passage_behind_300_nearer_passages(
    shared_apps: Apps, mode: str
) -> None:
    """It does so with truncated postings, too."""
    ctx = shared_apps.context(NOW)
    near_texts = [f"anchor anchor anchor {number}" for number in range(NEAR_COUNT)]
    await store_sources(
        ctx,
        make_source_of_texts(near_texts, "near", tags=("big",)),
        make_source_of_text(OFF_TOPIC_TEXT, "far", tags=("rare", "big")),
    )
    for is_truncated in (False, True):
        if is_truncated:
            await truncate_postings(ctx, "lexicon", cap=50)
        for filters in ({"tags": ["rare"]}, {"tags": ["big"], "source": "far"}):
            assert await find_matching_sources(ctx, mode, filters=filters) == {"far"}


@every_mode
async def test_filters_find_a_passage_missing_from_postings(
    shared_apps: Apps, mode: str | None
) -> None:
    """It passes two filters, but is missing from the truncated postings of both.

    There are 300 newer passages that match the query better and pass one of the filters.
    """
    ctx = shared_apps.context(NOW)
    texts = ["anchor anchor " * 2 + f"{number}" for number in range(NEAR_COUNT // 2)]
    both = make_source_of_text(OFF_TOPIC_TEXT, "both", tags=("big",), author="Ann")
    await store_sources(
        ctx,
        make_source_of_texts(texts, "tagged", tags=("big",)),
        make_source_of_texts(texts, "authored", author="Ann"),
        copy_with_date(both, DATES["long_ago"]),
    )
    await truncate_postings(ctx, "facets", cap=20)
    filters = {"tags": ["big"], "author": "Ann"}
    assert await find_matching_sources(ctx, mode, filters=filters) == {"both"}


async def test_an_exclusion_that_the_index_lists_in_part_is_said_to_be(shared_apps: Apps) -> None:
    ctx = shared_apps.context(NOW)
    texts = [f"anchor {number}" for number in range(30)]
    await store_sources(
        ctx,
        make_source_of_texts(texts, "draft", tags=("draft",)),
        make_source_of_text("anchor", "final"),
    )
    excluding = In(query="anchor", filters={"tags": ["-draft"]})
    listing = await search_kb(In(filters={"tags": ["-nothing"]}, limit=4), ctx)
    assert "4 of 31 passages, newest first." in str(listing.message)
    exact = await search_kb(excluding, ctx)
    await truncate_postings(ctx, "facets", cap=20)
    checked = await search_kb(excluding, ctx)
    for out, is_said in ((exact, False), (checked, True)):
        assert {hit.source_id for hit in out.results} == {"final"}
        assert (UNCHECKED in str(out.message)) == is_said


# In lexical mode, the passages would not be found, since they do not contain the query.
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_two_filters_find_passages_behind_nearer_passages(
    shared_apps: Apps, mode: str
) -> None:
    """Many passages pass both filters, and nearer ones pass only one."""
    ctx = shared_apps.context(NOW)
    near_texts = [f"anchor anchor {number}" for number in range(250)]
    far_texts = [f"bread and butter and jam {number}" for number in range(SMALL_SCOPE_SIZE + 90)]
    await store_sources(
        ctx,
        make_source_of_texts(near_texts, "near", tags=("big",)),
        make_source_of_texts(far_texts, "far", tags=("big",), author="Ann"),
    )
    filters = {"tags": ["big"], "author": "ann"}
    assert await find_matching_sources(ctx, mode, filters=filters) == {"far"}


@every_mode
async def test_a_source_of_many_passages_is_found_by_title_and_id(
    shared_apps: Apps, mode: str | None
) -> None:
    """It has more passages than a small scope."""
    ctx = shared_apps.context(NOW)
    texts = [f"anchor of {number}" for number in range(SMALL_SCOPE_SIZE + 10)]
    book = make_source_of_texts(texts, "book", title="A Long Book")
    await store_sources(ctx, book, make_source_of_text("anchor", "other"))
    query_arguments = {"query": "anchor", "mode": mode} if mode else {}
    for source in ("a long book", "book"):
        pages = await search_all_pages(ctx, 50, filters={"source": source}, **query_arguments)
        assert {hit.source_id for hit in collect_hits(pages)} == {"book"}
        if mode in (
            None,
            "lexical",
        ):  # A vector search stops earlier: it ranks its nearest hits only.
            assert len(set(collect_chunk_ids(pages))) == SMALL_SCOPE_SIZE + 10
