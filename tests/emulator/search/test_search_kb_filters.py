"""`search_kb`: filters, alone and together, with a query and without."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.errors import InvalidInput
from shared.knowledge.ingestion import Ingestion
from shared.search.filter_plan import FEW
from tests.support.clock import SettableClock
from tests.support.knowledge import store_sources, with_chunks
from tests.support.search_brute_force import (
    all_pages,
    collect_hits,
    collect_ids,
    make_source_of_text,
    make_source_of_texts,
    truncate_postings,
    update_chunk,
)

if TYPE_CHECKING:
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from tests.emulator.conftest import NewBase

pytestmark = pytest.mark.anyio

NOW = datetime(2024, 3, 15, 12, tzinfo=UTC)
MODES = ["semantic", "lexical", "hybrid", None]
FAR = "a long story of bread in which at last one anchor is let down " * 3
PLACES = ("today", "yesterday", "week", "month", "february", "last_year", "old")
DATES = dict(
    zip(
        PLACES,
        (
            datetime(2024, 3, 15, 0, tzinfo=UTC),
            datetime(2024, 3, 14, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2024, 3, 9, 0, tzinfo=UTC),
            datetime(2024, 2, 15, 0, tzinfo=UTC),
            datetime(2024, 2, 1, 0, tzinfo=UTC),
            datetime(2023, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2019, 5, 1, tzinfo=UTC),
        ),
        strict=True,
    )
)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


async def found(ctx: Context, mode: str | None, **arguments: Any) -> set[str]:
    """Return the source ids of all hits."""
    asked = {"query": "anchor", "mode": mode} if mode else {}
    return {hit.source_id for hit in collect_hits(await all_pages(ctx, 50, **asked, **arguments))}


@pytest.fixture(scope="module")
async def library(new_base: NewBase) -> Context:
    """Two books and an article, all about anchors."""
    ctx = new_base(NOW)
    book = make_source_of_text(
        "An anchor.", "a", author="Ida Loaf", tags=("Sea", "iron"), title="On Anchors"
    )
    other = make_source_of_text(
        "An anchor too.", "b", author="Ann Bo", tags=("sea", "gift"), title="Ropes"
    )
    article = make_source_of_text(
        "Anchor or not.", "c", author=None, tags=("news",), category="articles"
    )
    [first, second, _] = await store_sources(ctx, book, other, article)
    await update_chunk(ctx, first.chunk_id, cluster_id=["c2", "c1"])
    await update_chunk(ctx, second.chunk_id, knowledge_card={"summary": "S.", "takeaways": []})
    return ctx


@pytest.fixture(scope="module")
async def dated(new_base: NewBase) -> Context:
    """A passage of each date."""
    ctx = new_base(NOW)
    sources = [make_source_of_text(f"An anchor of {place}.", place) for place in reversed(PLACES)]
    await store_sources(ctx, *(_dated(source, DATES[source.source_id]) for source in sources))
    return ctx


@pytest.fixture(scope="module", params=[None, "lexicon"], ids=["whole lists", "cut lists"])
async def crowded(new_base: NewBase, request: pytest.FixtureRequest) -> Context:
    """A passage behind 300 nearer ones."""
    ctx = new_base(NOW)
    loud = make_source_of_texts(
        [f"anchor anchor anchor {number}" for number in range(300)], "loud", tags=("big",)
    )
    await store_sources(ctx, loud, make_source_of_text(FAR, "far", tags=("rare", "big")))
    if request.param:
        await truncate_postings(ctx, request.param, cap=50)
    return ctx


@pytest.fixture(scope="module")
async def cut(new_base: NewBase) -> Context:
    """Truncated postings, and a passage that passes two filters behind 300 that pass one."""
    ctx = new_base(NOW)
    loud = make_source_of_texts(
        ["anchor anchor " * 2 + f"{number}" for number in range(150)], "x", tags=("big",)
    )
    more = make_source_of_texts(
        ["anchor anchor " * 2 + f"{number}" for number in range(150)], "y", author="Ann"
    )
    both = _dated(make_source_of_text(FAR, "far", tags=("big",), author="Ann"), DATES["old"])
    await store_sources(ctx, loud, more, both)
    await truncate_postings(ctx, "facets", cap=20)
    return ctx


@pytest.fixture(scope="module")
async def many_left(new_base: NewBase) -> Context:
    """Many passages that pass two filters, behind nearer ones that pass one."""
    ctx = new_base(NOW)
    near = make_source_of_texts(
        [f"anchor anchor {number}" for number in range(250)], "near", tags=("big",)
    )
    far = [f"bread and butter and jam {number}" for number in range(FEW + 90)]
    await store_sources(ctx, near, make_source_of_texts(far, "far", tags=("big",), author="Ann"))
    return ctx


@pytest.fixture(scope="module")
async def long_book(new_base: NewBase) -> Context:
    """A source with more passages than a FEW plan reads, and another one."""
    ctx = new_base(NOW)
    texts = [f"anchor of {number}" for number in range(FEW + 10)]
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
        ({"tags": ["SEA"]}, "ab"),
        ({"tags": ["gift", "news"]}, "bc"),
        ({"tags": ["nobody", "news"]}, "c"),
        ({"author": "ida  LOAF"}, "a"),
        ({"source": "on anchors"}, "a"),
        ({"source": "b"}, "b"),
        ({"category": "Books"}, "ab"),
        ({"cluster_id": "c1"}, "a"),
        ({"tags": ["sea"], "author": "Ann Bo", "category": "books", "source": "ropes"}, "b"),
        ({"tags": ["sea"], "author": "Ann Bo", "source": "a"}, ""),
        ({"tags": ["sea"], "cluster_id": "c2", "period": "today"}, "a"),
        ({"tags": ["sea"], "period": "last_month"}, ""),
    ],
)
async def test_filters_select(
    library: Context, mode: str | None, filters: dict[str, Any], expected: str
) -> None:
    assert set(expected) == await found(library, mode, filters=filters)


@pytest.mark.parametrize("mode", MODES)
async def test_only_passages_with_a_card_are_found(library: Context, mode: str | None) -> None:
    assert await found(library, mode, search_cards_only=True) == {"b"}
    filters = {"author": "Ida Loaf"}
    assert await found(library, mode, search_cards_only=True, filters=filters) == set()


@pytest.mark.parametrize("mode", [None, "lexical", "hybrid"])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"period": "today"}, PLACES[:1]),
        ({"period": "yesterday"}, PLACES[1:2]),
        ({"period": "last_3_days"}, PLACES[:2]),
        ({"period": "last_7_days"}, PLACES[:3]),
        ({"period": "last_30_days"}, PLACES[:4]),
        ({"period": "last_month"}, PLACES[3:5]),
        ({"period": "last_year"}, PLACES[5:6]),
        ({"date_range": {"start": "2024-03-14", "end": "2024-03-14"}}, PLACES[1:2]),
        ({"date_range": {"start": "2024-03-15"}}, PLACES[:1]),
        ({"date_range": {"end": "2023-12-31"}}, PLACES[5:]),
        ({"date_range": {"start": "2019-05-01", "end": "2024-02-01"}}, PLACES[4:]),
        ({"date_range": {"start": "2030-01-01"}}, ()),
        ({"date_range": {"end": "2024-03-13"}, "period": "last_7_days"}, PLACES[2:3]),
        ({"date_range": {"end": "2020-01-01"}, "period": "today"}, ()),
        ({"date_range": {"start": "2024-02-01"}, "category": "books"}, PLACES[:5]),
        ({"date_range": {"start": "2019-01-01"}, "category": "books"}, PLACES),
    ],
)
async def test_days_are_days_of_utc(
    dated: Context, mode: str | None, filters: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert set(expected) == await found(dated, mode, filters=filters)


async def test_a_range_that_ends_before_it_starts_is_refused(ctx: Context) -> None:
    filters = {"date_range": {"start": "2024-02-02", "end": "2024-02-01"}}
    with pytest.raises(InvalidInput, match="ends before it starts"):
        await search_kb(In.model_validate({"query": "anchor", "filters": filters}), ctx)


async def test_without_a_query_the_newest_comes_first(dated: Context) -> None:
    pages = await all_pages(dated, 3, filters={"category": "books"})
    assert list(PLACES) == [hit.source_id for hit in collect_hits(pages)]
    assert [*range(1, 8)] == [hit.rank for hit in collect_hits(pages)]
    assert {(hit.similarity, tuple(hit.found_by)) for hit in collect_hits(pages)} == {(None, ())}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filters", [{"tags": ["b"]}, {"tags": ["a"], "author": "Ann"}])
async def test_an_edited_passage_is_found_by_its_new_fields(
    ctx: Context, mode: str | None, filters: dict[str, Any]
) -> None:
    """The postings still have the old fields: by them alone the passage would pass."""
    before = make_source_of_text("An anchor.", "edited", tags=("a", "b"), author="Ann")
    await store_sources(
        ctx, before, make_source_of_text("An anchor here.", "kept", tags=("a", "b"), author="Ann")
    )
    after = replace(before, tags=("c",))
    await Ingestion(ctx.database).save([with_chunks(after)], ctx.clock())
    assert await found(ctx, mode, filters=filters) == {"kept"}


@pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
async def test_a_filter_finds_a_passage_behind_300_nearer_ones(crowded: Context, mode: str) -> None:
    assert await found(crowded, mode, filters={"tags": ["rare"]}) == {"far"}
    assert await found(crowded, mode, filters={"tags": ["big"], "source": "far"}) == {"far"}


@pytest.mark.parametrize("mode", MODES)
async def test_filters_find_a_passage_missing_from_postings(cut: Context, mode: str | None) -> None:
    assert await found(cut, mode, filters={"tags": ["big"], "author": "Ann"}) == {"far"}


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_two_filters_find_passages_behind_nearer_ones(many_left: Context, mode: str) -> None:
    assert await found(many_left, mode, filters={"tags": ["big"], "author": "ann"}) == {"far"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filters", [{"source": "a long book"}, {"source": "book"}])
async def test_a_source_of_many_passages_is_found_by_title_and_id(
    long_book: Context, mode: str | None, filters: dict[str, Any]
) -> None:
    pages = await all_pages(
        long_book, 50, filters=filters, **({"query": "anchor", "mode": mode} if mode else {})
    )
    assert {hit.source_id for hit in collect_hits(pages)} == {"book"}
    if mode in (None, "lexical"):
        assert len(set(collect_ids(pages))) == FEW + 10


def _dated(source: Source, moment: datetime) -> Source:
    sections = [replace(section, highlighted_at=moment) for section in source.sections]
    return replace(source, sections=tuple(sections))


@pytest.mark.parametrize("mode", MODES)
async def test_a_language_is_a_filter(ctx: Context, mode: str | None) -> None:
    english, german = (
        make_source_of_text("anchor", "english", language="en"),
        make_source_of_text("anchor", "german", language="de"),
    )
    await store_sources(ctx, english, german, make_source_of_text("anchor", "silent"))
    assert await found(ctx, mode, filters={"language": "EN"}) == {"english"}
    page, *_ = await all_pages(ctx, 5, filters={"language": "eng"})
    assert page.message == "There is no language 'eng'. Nearest: 'en'."
