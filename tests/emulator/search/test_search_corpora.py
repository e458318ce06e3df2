"""Search works on any corpus, here jottings, which have documents and an index of their own.

A corpus is what a search runs over. Its index consists of postings: for each word and each tag, the
list of documents that have it. Long postings are truncated to a part of their documents.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from shared.core.dates import DateSpan
from shared.core.meter import Meter
from shared.index.facets import Kind, make_named_facet
from shared.index.posting_changes import PostingsTruncation
from shared.knowledge.corpus import get_knowledge_corpus
from shared.runtime.context import Context
from shared.search.filter_plan import FacetFilter, Selection
from shared.search.fusion import Scores, fuse
from shared.search.hybrid import rank
from shared.search.listing import list_newest
from shared.search.query import Degradation, Mode, Ranking, SearchQuery
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
from tests.support.searches import make_source_of_text, make_source_of_texts

TEXTS = ("anchor rye rye", "rye bread in the oven", "anchor and storm", "a gull on the pier")
"""The texts of the jottings `j00` to `j03`."""


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


async def truncate_words(ctx: Context, *words: str) -> None:
    """Truncate the postings of words to three jottings."""
    truncation = PostingsTruncation(ctx.database, INDEX_COLLECTIONS, cap=3, slack=0)
    await truncation.truncate([(INDEX_COLLECTIONS.lexicon, word) for word in words])


def list_hit_ids(ranking: Ranking[Any]) -> list[str]:
    """Return the ids of the hits, best first."""
    return [hit.id for hit in ranking.hits]


async def compute_similarities(
    ctx: Context, text: str, documents: list[Jotting]
) -> dict[str, float]:
    """Return the similarity of each jotting to a text."""
    vector = await ctx.embed_query(text)
    return {
        document.id: compute_similarity(vector, await ctx.embed_query(document.text))
        for document in documents
    }


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


async def test_hits_are_ranked_by_the_score_of_the_mode(ctx: Context) -> None:
    jottings = make_jottings(TEXTS)
    await save_jottings(ctx, *jottings)
    expected_similarities = await compute_similarities(ctx, "anchor rye", jottings)

    lexical = await search(ctx, "anchor rye", Mode.LEXICAL)
    bm25_scores = {hit.id: hit.score for hit in lexical.hits}
    assert list_hit_ids(lexical)[0] == "j00"
    assert {hit.id: hit.bm25 for hit in lexical.hits} == bm25_scores

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


async def test_hits_pass_all_filters(ctx: Context) -> None:
    with_both_tags = Jotting("both", "rye", ("sea", "food"))
    await save_jottings(ctx, with_both_tags, Jotting("sea", "rye", ("sea",)))

    ranking = await search(ctx, "rye", selection=select_by_tags("sea", "food"))
    assert list_hit_ids(ranking) == ["both"]
    ranking = await search(ctx, "rye", selection=select_by_tags("sea"))
    assert set(list_hit_ids(ranking)) == {"both", "sea"}
    ranking = await search(ctx, "rye", selection=select_by_tags("sea", "fire"))
    assert list_hit_ids(ranking) == []
    assert [value for _, value in ranking.unknown] == ["fire"]


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


async def test_a_search_uses_only_words_while_the_model_is_down(
    ctx: Context, embedder: WordEmbedder
) -> None:
    await save_jottings(ctx, *make_jottings(TEXTS))
    embedder.is_down = True
    ranking = await search(ctx, "storm")
    assert list_hit_ids(ranking) == ["j02"]
    assert ranking.degradation == Degradation.EMBEDDING_UNAVAILABLE


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

    await truncate_words(ctx, "rye")
    for arguments, ranking_before in zip(query_arguments, rankings_before, strict=True):
        ranking = await search(ctx, "rye", *arguments)
        assert list_hit_ids(ranking_before) == list_hit_ids(ranking)
        scores_before = [hit.bm25 for hit in ranking_before.hits]
        assert [hit.bm25 for hit in ranking.hits] == pytest.approx(scores_before)


class UnreadJotting(Jotting):
    """A jotting whose text must not be analysed."""

    @property
    def indexed_text(self) -> str:
        """Fail, because analysing the texts of 80 candidates takes longer than all requests."""
        raise AssertionError("its text is analysed")


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.LEXICAL])
@pytest.mark.parametrize("tags", [(), ("sea",)], ids=["all", "tagged"])
async def test_scoring_a_hit_does_not_analyse_its_text(
    ctx: Context, mode: Mode, tags: tuple[str, ...]
) -> None:
    texts = [f"naïve_rye rye {'rye ' * number} 3.5 Straße" for number in range(8)]
    await save_jottings(ctx, *make_jottings(texts, "sea"))
    await truncate_words(ctx, "rye", "3")
    query = SearchQuery("naïve_rye, rye: 3.5 Straße", mode, select_by_tags(*tags))
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


async def test_documents_are_listed_newest_first_page_by_page(ctx: Context, meter: Meter) -> None:
    await store_sources(ctx, make_source_of_text("A storm.", tags=("sea",)))
    await save_jottings(ctx, *make_jottings(TEXTS, "sea"), Jotting("other", "rye", ("food",)))
    read_before, ids, cursor = meter.documents_read, list[str](), None
    while not ids or cursor:
        page = await list_newest(select_by_tags("sea"), 3, cursor, make_corpus(ctx))
        ids += [document.id for document in page.documents]
        cursor = page.next
    assert ids == ["j03", "j02", "j01", "j00"]
    pages, documents = 2, 4
    postings_and_totals = 1 + 1  # for each page
    assert meter.documents_read - read_before == pages * postings_and_totals + documents

    two_days = Selection(span=DateSpan(NOON.date(), NOON.date() + timedelta(days=1)))
    page = await list_newest(two_days, 5, None, make_corpus(ctx))
    assert [document.id for document in page.documents] == ["j01", "other", "j00"]


async def test_a_changed_date_moves_a_document_in_the_listing(ctx: Context) -> None:
    older, newer, *_ = make_jottings(TEXTS, "sea")
    await save_jottings(ctx, older, newer)
    await save_jottings(ctx, replace(older, dated_at=NOON + timedelta(days=60)))
    page = await list_newest(select_by_tags("sea"), 5, None, make_corpus(ctx))
    assert [document.id for document in page.documents] == [older.id, newer.id]
