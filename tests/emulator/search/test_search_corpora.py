"""Searching a second corpus with its own documents and index."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.core.dates import DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.index.posting_changes import PostingsTruncation
from shared.knowledge.corpus import get_knowledge_corpus
from shared.search.filter_plan import FacetFilter, Selection
from shared.search.fusion import Scores, fuse
from shared.search.hybrid import rank
from shared.search.listing import list_newest
from shared.search.query import Degradation, Mode, SearchQuery
from tests.support.fakes.embedder import WordEmbedder, compute_similarity
from tests.support.jottings import (
    INDEX_COLLECTIONS,
    NOON,
    Jotting,
    delete_jotting,
    make_corpus,
    make_jottings,
    save_jottings,
)
from tests.support.knowledge import set_fields, store_sources
from tests.support.query_recorder import record_queries
from tests.support.searches import make_source_of_text, make_source_of_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.meter import Meter
    from shared.runtime.context import Context
    from shared.search.query import Ranking

pytestmark = pytest.mark.anyio

TEXTS = ("anchor rye rye", "rye bread in the oven", "anchor and storm", "a gull on the pier")


@pytest.fixture(autouse=True)
def exempt_queries() -> Iterator[None]:
    """Exempt queries that only tests make from the index proof."""
    with record_queries():
        yield


def select_by_tags(*tags: str) -> Selection:
    """Return a selection of documents with all of these tags."""
    return Selection(
        tuple(FacetFilter("tags", {tag: (make_named_facet(Kind.TAG, tag),)}) for tag in tags)
    )


async def search(
    ctx: Context, text: str, mode: Mode = Mode.HYBRID, selection: Selection | None = None
) -> Ranking[Jotting]:
    """Return the ranking of the jottings."""
    return await rank(SearchQuery(text, mode, selection or Selection()), make_corpus(ctx), ctx)


def list_hit_ids(ranking: Ranking[Any]) -> list[str]:
    """Return the ids of the hits, best first."""
    return [hit.id for hit in ranking.hits]


async def compute_similarities(
    ctx: Context, text: str, documents: list[Jotting]
) -> dict[str, float]:
    """Return the similarity of each jotting to a text."""
    vector = await ctx.query_vector(text)
    return {
        document.id: compute_similarity(vector, await ctx.query_vector(document.text))
        for document in documents
    }


async def test_each_corpus_is_searched_alone(ctx: Context) -> None:
    await store_sources(ctx, make_source_of_texts(["anchor rye rye", "a storm"]))
    await save_jottings(ctx, *make_jottings(TEXTS))
    ranking = await search(ctx, "anchor rye")
    assert (set(list_hit_ids(ranking)), ranking.documents) == ({"j00", "j01", "j02", "j03"}, 4)
    base = await rank(
        SearchQuery("anchor rye", Mode.HYBRID, Selection()), get_knowledge_corpus(ctx.database), ctx
    )
    assert ({hit.id[:4] for hit in base.hits}, base.documents) == ({"many"}, 2)


async def test_a_hit_has_the_score_it_is_ranked_by(ctx: Context) -> None:
    documents = make_jottings(TEXTS)
    await save_jottings(ctx, *documents)
    expected_similarities = await compute_similarities(ctx, "anchor rye", documents)
    lexical = await search(ctx, "anchor rye", Mode.LEXICAL)
    bm25_scores = {hit.id: hit.score for hit in lexical.hits}
    assert (list_hit_ids(lexical)[0], {hit.id: hit.bm25 for hit in lexical.hits}) == (
        "j00",
        bm25_scores,
    )
    semantic = await search(ctx, "anchor rye", Mode.SEMANTIC)
    assert {hit.id: hit.score for hit in semantic.hits} == pytest.approx(
        expected_similarities, abs=1e-6
    )
    expected_scores = {
        name: Scores(expected_similarities[name], bm25_scores.get(name, 0.0))
        for name in expected_similarities
    }
    hybrid = await search(ctx, "anchor rye")
    assert {hit.id: hit.score for hit in hybrid.hits} == pytest.approx(
        dict(fuse(expected_scores)), abs=1e-6
    )
    for ranking in (lexical, semantic, hybrid):
        scores = [hit.score for hit in ranking.hits]
        assert sorted(scores, reverse=True) == scores


async def test_filters_must_all_pass(ctx: Context) -> None:
    await save_jottings(
        ctx, Jotting("both", "rye", ("sea", "food")), Jotting("sea", "rye", ("sea",))
    )
    assert list_hit_ids(await search(ctx, "rye", selection=select_by_tags("sea", "food"))) == [
        "both"
    ]
    assert set(list_hit_ids(await search(ctx, "rye", selection=select_by_tags("sea")))) == {
        "both",
        "sea",
    }
    ranking = await search(ctx, "rye", selection=select_by_tags("sea", "fire"))
    assert (list_hit_ids(ranking), [value for _, value in ranking.unknown]) == ([], ["fire"])


async def test_writes_and_deletions_are_searchable_at_once(ctx: Context) -> None:
    await save_jottings(ctx, Jotting("a", "rye bread", ("food",)), Jotting("b", "anchor"))
    await save_jottings(ctx, Jotting("a", "a storm", ("sea",)))
    assert list_hit_ids(await search(ctx, "storm", Mode.LEXICAL)) == ["a"]
    assert list_hit_ids(await search(ctx, "rye", Mode.LEXICAL)) == []
    assert list_hit_ids(await search(ctx, "storm", selection=select_by_tags("food"))) == []
    await delete_jotting(ctx, "a")
    assert list_hit_ids(await search(ctx, "storm")) == ["b"]
    ranking = await search(ctx, "storm", selection=select_by_tags("sea"))
    assert (list_hit_ids(ranking), [value for _, value in ranking.unknown]) == ([], ["sea"])
    assert ranking.documents == 1
    assert await make_corpus(ctx).documents.get_all(["a", "nobody"]) == []


async def test_words_are_searched_while_the_provider_is_down(
    ctx: Context, embedder: WordEmbedder
) -> None:
    await save_jottings(ctx, *make_jottings(TEXTS))
    embedder.is_down = True
    ranking = await search(ctx, "storm")
    assert (list_hit_ids(ranking), ranking.degradation) == (
        ["j02"],
        Degradation.EMBEDDING_UNAVAILABLE,
    )


async def test_truncated_postings_do_not_change_scores(ctx: Context) -> None:
    await save_jottings(
        ctx, *make_jottings([f"anchor rye {'rye ' * number}" for number in range(8)], "sea")
    )
    query_arguments = [
        (Mode.HYBRID, None),
        (Mode.HYBRID, select_by_tags("sea")),
        (Mode.LEXICAL, select_by_tags("sea")),
    ]
    rankings_before = [await search(ctx, "rye", *arguments) for arguments in query_arguments]
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=3, slack=0)
    await truncation.truncate([(INDEX_COLLECTIONS.lexicon, "rye")])
    for arguments, ranking_before in zip(query_arguments, rankings_before, strict=True):
        ranking = await search(ctx, "rye", *arguments)
        assert list_hit_ids(ranking_before) == list_hit_ids(ranking)
        assert [hit.bm25 for hit in ranking.hits] == pytest.approx(
            [hit.bm25 for hit in ranking_before.hits]
        )


class UnreadJotting(Jotting):
    """A jotting whose text must not be analysed."""

    @property
    def indexed_text(self) -> str:
        """Fail, because analysing the texts of 80 candidates takes longer than all requests."""
        raise AssertionError("its text is analysed")


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.LEXICAL])
@pytest.mark.parametrize("tags", [(), ("sea",)], ids=["all", "tagged"])
async def test_no_text_is_analysed_to_score_a_hit(
    ctx: Context, mode: Mode, tags: tuple[str, ...]
) -> None:
    texts = [f"naïve_rye rye {'rye ' * number} 3.5 Straße" for number in range(8)]
    await save_jottings(ctx, *make_jottings(texts, "sea"))
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=3, slack=0)
    await truncation.truncate(
        [(INDEX_COLLECTIONS.lexicon, "rye"), (INDEX_COLLECTIONS.lexicon, "3")]
    )
    query = SearchQuery("naïve_rye, rye: 3.5 Straße", mode, select_by_tags(*tags))
    expected = await rank(query, make_corpus(ctx), ctx)
    ranking = await rank(query, make_corpus(ctx, UnreadJotting), ctx)
    assert [(hit.id, hit.terms) for hit in ranking.hits] == [
        (hit.id, hit.terms) for hit in expected.hits
    ]
    assert ranking.hits


async def test_a_document_indexed_before_has_the_score_of_postings(ctx: Context) -> None:
    """Documents of the layout before have no length; they wait to be indexed again."""
    await save_jottings(ctx, *make_jottings([f"rye {'rye ' * number}" for number in range(4)]))
    before = await search(ctx, "rye")
    for hit in before.hits:
        await set_fields(ctx, f"jottings/{hit.id}", {"indexed": {"length": DELETE_FIELD}})
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=3, slack=0)
    await truncation.truncate([(INDEX_COLLECTIONS.lexicon, "rye")])
    scores = sorted(hit.bm25 for hit in before.hits)
    ranking = await search(ctx, "rye")
    assert sorted(hit.bm25 for hit in ranking.hits) == pytest.approx([0.0, *scores[1:]])


async def test_without_a_query_the_newest_are_listed_in_pages(ctx: Context, meter: Meter) -> None:
    await store_sources(ctx, make_source_of_text("A storm.", tags=("sea",)))
    await save_jottings(ctx, *make_jottings(TEXTS, "sea"), Jotting("other", "rye", ("food",)))
    read_before, ids, cursor = meter.documents_read, list[str](), None
    while not ids or cursor:
        page = await list_newest(select_by_tags("sea"), 3, cursor, make_corpus(ctx))
        ids += [document.id for document in page.documents]
        cursor = page.next
    assert ids == ["j03", "j02", "j01", "j00"]
    assert meter.documents_read - read_before == 2 * (1 + 1) + 4
    two_days = Selection(span=DateSpan(NOON.date(), NOON.date() + timedelta(days=1)))
    page = await list_newest(two_days, 5, None, make_corpus(ctx))
    assert [item.id for item in page.documents] == ["j01", "other", "j00"]


async def test_a_changed_date_moves_a_document_in_the_listing(ctx: Context) -> None:
    first_document, second_document, *_ = make_jottings(TEXTS, "sea")
    await save_jottings(ctx, first_document, second_document)
    await save_jottings(ctx, replace(first_document, dated_at=NOON + timedelta(days=60)))
    page = await list_newest(select_by_tags("sea"), 5, None, make_corpus(ctx))
    assert [document.id for document in page.documents] == [first_document.id, second_document.id]
