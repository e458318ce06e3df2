"""Search works on any corpus, and lists the newest documents that pass filters page by page.

A corpus is what a search runs over: the knowledge base, or here jottings, which have documents and
an index of their own. An index consists of postings: for each word and each tag, the list of
documents that have it. Long postings are truncated, and then the database looks for others.
"""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.core.dates import DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.index.posting_changes import PostingsTruncation
from shared.knowledge.chunk import Chunk
from shared.knowledge.corpus import get_knowledge_corpus
from shared.knowledge.source import Source
from shared.runtime.context import App, Context
from shared.search.filter_plan import FacetFilter, Selection
from shared.search.hybrid import rank
from shared.search.listing import MAX_EXAMINED, Listing, list_newest
from shared.search.query import Mode, Ranking, SearchQuery
from tests.support.jottings import (
    INDEX_COLLECTIONS,
    NOON,
    Jotting,
    delete_jotting,
    make_corpus,
    make_jottings,
    save_jottings,
)
from tests.support.knowledge import ingest_sources, set_fields, store_sources
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
    return await list_newest(selection, limit, after, get_knowledge_corpus(ctx.database))


async def list_pages(ctx: Context, selection: Selection, limit: int) -> list[Listing[Chunk]]:
    pages: list[Listing[Chunk]] = []
    cursor: tuple[int, str] | None = None
    while not pages or cursor:
        pages.append(await list_page(selection, limit, cursor, ctx))
        cursor = pages[-1].next
    return pages


def get_source_ids(pages: list[Listing[Chunk]]) -> list[str]:
    return [chunk.source_id for page in pages for chunk in page.documents]


async def test_a_date_changed_while_paging_neither_repeats_nor_skips(ctx: Context) -> None:
    """The changes are not indexed yet."""
    await store_sources(ctx, *make_sea_sources(6))
    pages = [await list_page(Selection((SEA,)), 2, None, ctx)]
    for source_id, day in (("s2", 50), ("s4", -50)):
        await ingest_sources(ctx, make_dated_source(day, source_id, tags=("sea",)))
    while pages[-1].next:
        pages.append(await list_page(Selection((SEA,)), 2, pages[-1].cursors[-1], ctx))
    assert get_source_ids(pages) == ["s5", "s4", "s3", "s2", "s1", "s0"]


async def test_many_deleted_passages_cost_few_round_trips(ctx: Context, app: App) -> None:
    deleted_source = make_source_of_texts(
        [f"Part {number}." for number in range(120)], "gone", tags=("sea",)
    )
    await store_sources(ctx, *make_sea_sources(5), deleted_source)
    await ingest_sources(ctx, replace(deleted_source, sections=()))

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


TEXTS = ("anchor rye rye", "rye bread in the oven", "anchor and storm", "a gull on the pier")
"""The texts of the jottings `j00` to `j03`."""


def select_by_tags(*tags: str) -> Selection:
    return Selection(
        tuple(FacetFilter("tags", {tag: (make_named_facet(Kind.TAG, tag),)}) for tag in tags)
    )


async def search(
    ctx: Context, text: str, mode: Mode = Mode.HYBRID, selection: Selection | None = None
) -> Ranking[Jotting]:
    return await rank(SearchQuery(text, mode, selection or Selection()), make_corpus(ctx), ctx)


async def truncate_words(ctx: Context, *words: str) -> None:
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=3, slack=0)
    await truncation.truncate([(INDEX_COLLECTIONS.lexicon, word) for word in words])


def list_hit_ids(ranking: Ranking[Any]) -> list[str]:
    return [hit.id for hit in ranking.hits]


async def test_a_search_finds_documents_of_its_corpus_only(ctx: Context) -> None:
    await store_sources(ctx, make_source_of_texts(["anchor rye rye", "a storm"]))
    await save_jottings(ctx, *make_jottings(TEXTS))
    ranking = await search(ctx, "anchor rye")
    assert set(list_hit_ids(ranking)) == {"j00", "j01", "j02", "j03"}
    assert ranking.documents == 4

    query = SearchQuery("anchor rye", Mode.HYBRID, Selection())
    ranking_of_base = await rank(query, get_knowledge_corpus(ctx.database), ctx)
    assert {hit.id[:4] for hit in ranking_of_base.hits} == {"many"}
    assert ranking_of_base.documents == 2


async def test_the_next_search_follows_writes_and_deletions(ctx: Context) -> None:
    await save_jottings(ctx, Jotting("a", "rye bread", ("food",)), Jotting("b", "anchor"))
    await save_jottings(ctx, Jotting("a", "a storm", ("sea",)))

    assert list_hit_ids(await search(ctx, "storm", Mode.LEXICAL)) == ["a"]
    assert list_hit_ids(await search(ctx, "rye", Mode.LEXICAL)) == []
    assert list_hit_ids(await search(ctx, "storm", selection=select_by_tags("food"))) == []

    await delete_jotting(ctx, "a")
    assert list_hit_ids(await search(ctx, "storm")) == ["b"]
    ranking = await search(ctx, "storm", selection=select_by_tags("sea"))
    assert list_hit_ids(ranking) == []
    assert [value for _, value in ranking.unknown] == ["sea"]
    assert ranking.documents == 1
    assert await make_corpus(ctx).documents.get_all(["a", "nobody"]) == []


class UnreadJotting(Jotting):
    """A jotting whose text must not be analysed."""

    @property
    def title(self) -> str:
        """No title."""
        return ""

    @property
    def indexed_text(self) -> str:
        """Fail, because analysing the texts of 80 candidates takes longer than all requests."""
        raise AssertionError("its text is analysed")


@pytest.mark.parametrize("tags", [(), ("sea",)], ids=["all", "tagged"])
async def test_scoring_a_hit_does_not_analyse_its_text(ctx: Context, tags: tuple[str, ...]) -> None:
    texts = [f"naïve_rye rye {'rye ' * number} 3.5 Straße" for number in range(8)]
    await save_jottings(ctx, *make_jottings(texts, "sea"))
    await truncate_words(ctx, "rye", "3")
    query = SearchQuery("naïve_rye, rye: 3.5 Straße", Mode.LEXICAL, select_by_tags(*tags))
    expected = await rank(query, make_corpus(ctx), ctx)
    ranking = await rank(query, make_corpus(ctx, UnreadJotting), ctx)
    assert [(hit.id, hit.terms) for hit in ranking.hits] == [
        (hit.id, hit.terms) for hit in expected.hits
    ]
    assert ranking.hits


async def test_a_document_without_a_stored_length_has_the_score_0(ctx: Context) -> None:
    """Its score comes from the postings. If these have lost the document, the score is 0."""
    await save_jottings(ctx, *make_jottings([f"rye {'rye ' * number}" for number in range(4)]))
    before = await search(ctx, "rye")
    for hit in before.hits:
        await set_fields(ctx, f"jottings/{hit.id}", {"indexed": {"length": DELETE_FIELD}})
    await truncate_words(ctx, "rye")
    scores = sorted(hit.bm25 for hit in before.hits)
    ranking = await search(ctx, "rye")
    assert sorted(hit.bm25 for hit in ranking.hits) == pytest.approx([0.0, *scores[1:]])


async def test_a_changed_date_moves_a_document_in_the_listing(ctx: Context) -> None:
    await store_sources(ctx, make_source_of_text("A storm.", tags=("sea",)))
    older, newer, *_ = make_jottings(TEXTS, "sea")
    await save_jottings(ctx, older, newer, Jotting("other", "rye", ("food",)))
    await save_jottings(ctx, replace(older, dated_at=NOON + timedelta(days=60)))
    corpus = make_corpus(ctx)
    page = await list_newest(select_by_tags("sea"), 5, None, corpus)
    assert [document.id for document in page.documents] == [older.id, newer.id]
    two_days = Selection(span=DateSpan(NOON.date(), NOON.date() + timedelta(days=1)))
    page = await list_newest(two_days, 5, None, corpus)
    assert [document.id for document in page.documents] == [newer.id, "other"]
