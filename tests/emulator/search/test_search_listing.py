"""`list_newest` lists the passages that pass filters by date, page by page.

Passages that pass one filter come from its postings, which are the list of passages with a tag or
an author. Truncated postings contain only some of them, and then the database looks for others.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from shared.core.dates import DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.knowledge.chunk import Chunk
from shared.knowledge.corpus import get_knowledge_corpus
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Source
from shared.runtime.context import App, Context
from shared.search.filter_plan import FacetFilter, Selection
from shared.search.listing import MAX_EXAMINED, Listing, list_newest
from tests.support.knowledge import chunk_source, store_sources
from tests.support.read_cost import get_read_cost, make_call_context
from tests.support.search_brute_force import FIRST_DAY
from tests.support.searches import make_source_of_text, make_source_of_texts, truncate_postings

SEA = FacetFilter("tags", {"sea": (make_named_facet(Kind.TAG, "sea"),)})
"""The filter for passages with the tag `sea`."""
ANN = FacetFilter("author", {"Ann": (make_named_facet(Kind.AUTHOR, "Ann"),)})
"""The filter for passages by Ann."""


def make_dated_source(day: int, source_id: str, **fields: object) -> Source:
    """Return a source with a passage that is dated so many days after `FIRST_DAY`."""
    source = make_source_of_text(f"Passage {source_id}.", source_id, **fields)
    section = replace(source.sections[0], highlighted_at=FIRST_DAY + timedelta(days=day))
    return replace(source, sections=(section,))


def make_sea_sources(count: int) -> list[Source]:
    """Return sources `s0`, `s1` and so on with the tag `sea`, each a day newer than the last."""
    return [make_dated_source(day, f"s{day}", tags=("sea",)) for day in range(count)]


async def list_page(
    selection: Selection, limit: int, after: tuple[int, str] | None, ctx: Context
) -> Listing[Chunk]:
    """Return a page of the knowledge base."""
    return await list_newest(selection, limit, after, get_knowledge_corpus(ctx.database))


async def list_pages(ctx: Context, selection: Selection, limit: int) -> list[Listing[Chunk]]:
    """Return all pages."""
    pages: list[Listing[Chunk]] = []
    cursor: tuple[int, str] | None = None
    while not pages or cursor:
        pages.append(await list_page(selection, limit, cursor, ctx))
        cursor = pages[-1].next
    return pages


def get_source_ids(pages: list[Listing[Chunk]]) -> list[str]:
    """Return the source ids of the passages on all pages."""
    return [chunk.source_id for page in pages for chunk in page.documents]


async def test_a_date_changed_while_paging_neither_repeats_nor_skips(ctx: Context) -> None:
    """The changes are not indexed yet."""
    await store_sources(ctx, *make_sea_sources(6))
    pages = [await list_page(Selection((SEA,)), 2, None, ctx)]
    for source_id, day in (("s2", 50), ("s4", -50)):
        changed_source = chunk_source(make_dated_source(day, source_id, tags=("sea",)))
        await Ingestion(ctx.database).save([changed_source], ctx.clock())
    while pages[-1].next:
        pages.append(await list_page(Selection((SEA,)), 2, pages[-1].cursors[-1], ctx))
    assert get_source_ids(pages) == ["s5", "s4", "s3", "s2", "s1", "s0"]


async def test_many_deleted_passages_cost_few_round_trips(ctx: Context, app: App) -> None:
    deleted_source = make_source_of_texts(
        [f"Part {number}." for number in range(120)], "gone", tags=("sea",)
    )
    await store_sources(ctx, *make_sea_sources(5), deleted_source)
    await Ingestion(ctx.database).save(
        [chunk_source(replace(deleted_source, sections=()))], ctx.clock()
    )

    call_ctx = make_call_context(app)
    pages = [await list_page(Selection((SEA,)), 2, None, call_ctx)]
    assert get_read_cost(call_ctx).round_trips <= 8

    while pages[-1].next:
        pages.append(await list_page(Selection((SEA,)), 2, pages[-1].next, ctx))
    assert get_source_ids(pages) == ["s4", "s3", "s2", "s1", "s0"]


async def test_an_empty_span_of_days_reads_nothing(ctx: Context, app: App) -> None:
    await store_sources(ctx, *make_sea_sources(1))
    no_day = DateSpan(date(2024, 2, 2), date(2024, 2, 1))
    call_ctx = make_call_context(app)
    for selection in (Selection(span=no_day), Selection((SEA,), no_day)):
        assert (await list_page(selection, 5, None, call_ctx)).documents == []
    assert get_read_cost(call_ctx).documents == 0


async def test_truncated_postings_list_the_newest_passages(ctx: Context, app: App) -> None:
    await store_sources(ctx, *make_sea_sources(12))
    await truncate_postings(ctx, "facets", cap=5)
    last_days = DateSpan(first=FIRST_DAY.date() + timedelta(days=9))

    call_ctx = make_call_context(app)
    page = await list_page(Selection((SEA,), last_days), 2, None, call_ctx)

    assert get_source_ids([page]) == ["s11", "s10"]
    postings_and_totals, passages = 1 + 1, 2
    assert get_read_cost(call_ctx).documents == postings_and_totals + passages


async def test_a_page_without_passages_may_have_a_next_page(ctx: Context) -> None:
    """Both postings are truncated, and the newest passages of one filter fail the other."""
    tagged_texts = [f"Part {number}." for number in range(MAX_EXAMINED + 5)]
    authored_texts = [f"Page {number}." for number in range(MAX_EXAMINED + 9)]
    passing_sources = [
        make_dated_source(day, f"s{day}", tags=("sea",), author="Ann") for day in range(3)
    ]
    await store_sources(
        ctx,
        make_source_of_texts(tagged_texts, "tagged", tags=("sea",)),
        make_source_of_texts(authored_texts, "authored", author="Ann"),
        *passing_sources,
    )
    await truncate_postings(ctx, "facets", cap=20)

    pages = await list_pages(ctx, Selection((SEA, ANN)), 2)
    assert [len(page.documents) for page in pages] == [0, 2, 1]
    assert get_source_ids(pages) == ["s2", "s1", "s0"]


async def test_a_full_last_page_has_no_next_page(ctx: Context) -> None:
    await store_sources(ctx, *make_sea_sources(4))
    every_day = DateSpan(first=FIRST_DAY.date())
    for selection in (Selection((SEA,)), Selection(span=every_day)):
        pages = await list_pages(ctx, selection, 2)
        assert [len(page.documents) for page in pages] == [2, 2]


async def test_unknown_values_are_returned(ctx: Context) -> None:
    await store_sources(ctx, *make_sea_sources(1))
    page = await list_page(Selection((SEA, ANN)), 2, None, ctx)
    assert page.documents == []
    assert page.unknown == ((ANN, "Ann"),)
