"""`rank` ranks the passages that match a query, by their words, their meaning or both.

BM25 is the score for words. It comes from postings, the lists of passages by word, which are
truncated when they grow too long. The similarity of vectors is the score for meaning.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from functions.tools.knowledge.search_kb.messages import TRUNCATED
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.ai.vector_halves import WeightedVector
from shared.core.errors import Conflict, PlatformFault
from shared.index.facets import Facet, Kind, make_named_facet
from shared.index.postings import SearchPostings
from shared.index.stored_vector import to_compact
from shared.index.vector_index import Documents, Neighbour
from shared.knowledge.chunk import Chunk
from shared.knowledge.corpus import get_knowledge_corpus
from shared.runtime.context import Context
from shared.search.candidates import DENSE_POOL, MAX_LEXICAL_HITS, SPARE
from shared.search.corpus import Corpus
from shared.search.filter_plan import SMALL_SCOPE_SIZE, FacetFilter, Selection
from shared.search.hybrid import rank as rank_in
from shared.search.query import Degradation, Mode, Ranking, SearchQuery
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import set_fields, store_sources
from tests.support.monotonic_clock import MonotonicClock
from tests.support.search_brute_force import compute_bm25, read_embedded_chunks
from tests.support.searches import make_source_of_text, make_source_of_texts, truncate_postings

SEA = make_named_facet(Kind.TAG, "sea")
"""The tag `sea` as a filter."""
ANN = make_named_facet(Kind.AUTHOR, "Ann")
"""The author Ann as a filter."""


def make_query(text: str, mode: Mode = Mode.HYBRID, *facets: Facet) -> SearchQuery:
    groups = tuple(FacetFilter("tags", {facet.id: (facet,)}) for facet in facets)
    return SearchQuery(text, mode, Selection(groups))


async def rank(query: SearchQuery, ctx: Context) -> Ranking[Chunk]:
    return await rank_in(query, get_knowledge_corpus(ctx.database), ctx)


async def test_truncated_postings_do_not_change_scores(ctx: Context) -> None:
    texts = [f"anchor anchor {number}" for number in range(30)]
    await store_sources(ctx, make_source_of_texts([*texts, "rye and one anchor"], tags=("sea",)))
    expected = compute_bm25(await read_embedded_chunks(ctx), "anchor rye")
    await truncate_postings(ctx, "lexicon", cap=3)
    for mode, facets in ((Mode.HYBRID, ()), (Mode.HYBRID, (SEA,)), (Mode.LEXICAL, (SEA,))):
        ranking = await rank(make_query("anchor rye", mode, *facets), ctx)
        assert {hit.id: hit.bm25 for hit in ranking.hits} == pytest.approx(expected)
        assert all(hit.similarity is not None for hit in ranking.hits) is (mode is Mode.HYBRID)
        assert ranking.terms == frozenset({"anchor", "rye"})
        assert ranking.documents == 31


async def test_a_ranking_has_a_depth_by_mode_and_filters(ctx: Context) -> None:
    texts = [f"anchor {number}" for number in range(MAX_LEXICAL_HITS + 10)]
    await store_sources(ctx, make_source_of_texts(texts, tags=("sea",), author="Ann"))
    depths = {
        (mode, len(facets)): len((await rank(make_query("anchor", mode, *facets), ctx)).hits)
        for mode in (Mode.SEMANTIC, Mode.LEXICAL)
        for facets in ((), (SEA,), (SEA, ANN))
    }
    assert depths == {
        (Mode.SEMANTIC, 0): DENSE_POOL,
        (Mode.SEMANTIC, 1): DENSE_POOL,
        (Mode.SEMANTIC, 2): int(SPARE * DENSE_POOL),
        (Mode.LEXICAL, 0): MAX_LEXICAL_HITS,
        (Mode.LEXICAL, 1): MAX_LEXICAL_HITS,
        (Mode.LEXICAL, 2): MAX_LEXICAL_HITS,
    }


async def test_a_lexical_hit_with_a_distant_vector_is_ranked(ctx: Context) -> None:
    """All 131 passages that pass are compared by id, and the farthest has a rare word."""
    passing_texts = [
        *(f"anchor {number}" for number in range(130)),
        "A storm, far from all else here.",
    ]
    await store_sources(
        ctx,
        make_source_of_texts(passing_texts, "both", tags=("sea",), author="Ann"),
        make_source_of_texts(["a bell"] * 120, "tagged", tags=("sea",)),
        make_source_of_texts(["a bell"] * 120, "written", author="Ann"),
    )
    ranking = await rank(make_query("anchor storm", Mode.HYBRID, SEA, ANN), ctx)
    [storm_hit] = [hit for hit in ranking.hits if "storm" in hit.terms]
    assert storm_hit.is_neighbour
    assert storm_hit.similarity is not None


async def test_a_lexical_search_reports_truncation(ctx: Context) -> None:
    """A list of passages that pass the filter may then be incomplete."""
    better_texts = [f"anchor anchor {number}" for number in range(SMALL_SCOPE_SIZE + 10)]
    tagged_texts = [f"an anchor of page {number}" for number in range(SMALL_SCOPE_SIZE + 10)]
    await store_sources(
        ctx,
        make_source_of_texts(better_texts, "better"),
        make_source_of_texts(tagged_texts, tags=("sea",)),
    )
    assert not (await rank(make_query("anchor", Mode.LEXICAL, SEA), ctx)).truncated
    await truncate_postings(ctx, "lexicon", cap=20)
    assert (await rank(make_query("anchor", Mode.LEXICAL, SEA), ctx)).truncated
    out = await search_kb(In(query="anchor", mode="lexical", filters={"tags": ["sea"]}), ctx)
    assert TRUNCATED in (out.message or "")
    assert not (await rank(make_query("anchor", Mode.LEXICAL), ctx)).truncated
    assert not (await rank(make_query("anchor", Mode.HYBRID, SEA), ctx)).truncated


async def test_an_outage_of_the_embedding_model_is_reported(
    ctx: Context, embedder: WordEmbedder
) -> None:
    await store_sources(ctx, make_source_of_text("anchor"))
    embedder.is_down = True
    ranking = await rank(make_query("anchor"), ctx)
    assert ranking.degradation is Degradation.EMBEDDING_UNAVAILABLE
    assert (ranking.matches, len(ranking.hits)) == (True, 1)
    assert (await rank(make_query("anchor", Mode.LEXICAL), ctx)).degradation is None


class FailingDocuments:
    """Documents whose vector search fails, as with a query vector of another length."""

    def __init__(self, documents: Documents[Chunk]) -> None:
        self.get_all = documents.get_all
        self.get_all_counted = documents.get_all_counted
        self.measure_similarities = documents.measure_similarities

    async def find_nearest(
        self,
        vector: WeightedVector,  # noqa: ARG002 - every search fails
        limit: int,  # noqa: ARG002 - the same
        facets: Sequence[str] = (),  # noqa: ARG002 - the same
        terms: Sequence[str] = (),  # noqa: ARG002 - the same
    ) -> list[Neighbour[Chunk]]:
        raise PlatformFault("The database refused: FailedPrecondition.")


async def test_a_failed_search_reports_another_embedding_model_first(ctx: Context) -> None:
    await store_sources(ctx, make_source_of_text("anchor"))
    base = get_knowledge_corpus(ctx.database)
    corpus = Corpus(FailingDocuments(base.documents), base.index)
    with pytest.raises(PlatformFault):
        await rank_in(make_query("anchor"), corpus, ctx)
    await set_fields(ctx, "meta/embedding", {"model": "other", "dimension": 7})
    ctx.database.cache("embedding_space").clear()
    with pytest.raises(Conflict, match="embedded with other"):
        await rank_in(make_query("anchor"), corpus, ctx)


@pytest.mark.parametrize("facets", [(), (SEA,)], ids=["all", "tagged"])
async def test_a_vector_of_another_length_is_not_compared(
    ctx: Context, facets: tuple[Facet, ...]
) -> None:
    """The passage is ranked by its words alone."""
    near_texts = [f"anchor {number}" for number in range(DENSE_POOL)]
    [chunk, *_] = await store_sources(
        ctx,
        make_source_of_text(
            "It is a storm, and far from anything else that is here.", tags=("sea",)
        ),
        make_source_of_texts(near_texts),
    )
    short_vector = to_compact(ctx.embedder.dimension // 2 * [0.1])
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"embedding_f16": short_vector})
    ranking = await rank(make_query("anchor storm", Mode.HYBRID, *facets), ctx)
    assert [hit.id for hit in ranking.hits if hit.similarity is None] == [chunk.chunk_id]


class SlowDocuments:
    """Documents whose vector search answers in time, while comparisons never end."""

    def __init__(self, documents: Documents[Chunk], monotonic: MonotonicClock) -> None:
        self.get_all = documents.get_all
        self.get_all_counted = documents.get_all_counted
        self.searched = asyncio.Event()
        self._documents = documents
        self._monotonic = monotonic

    async def find_nearest(
        self,
        vector: WeightedVector,
        limit: int,
        facets: Sequence[str] = (),
        terms: Sequence[str] = (),
    ) -> list[Neighbour[Chunk]]:
        neighbours = await self._documents.find_nearest(vector, limit, facets, terms)
        self.searched.set()
        return neighbours

    async def measure_similarities(
        self,
        vector: WeightedVector,  # noqa: ARG002 - they are never compared
        ids: Sequence[str],  # noqa: ARG002 - the same
        terms: Sequence[str] = (),  # noqa: ARG002 - the same
    ) -> list[Neighbour[Chunk]]:
        self._monotonic.advance_soon(60)
        await asyncio.Event().wait()
        return []


async def test_a_search_uses_only_meaning_if_words_take_too_long(
    ctx: Context, monotonic: MonotonicClock
) -> None:
    await store_sources(ctx, make_source_of_text("anchor"))
    base = get_knowledge_corpus(ctx.database)
    documents = SlowDocuments(base.documents, monotonic)

    class EndlessIndex:
        """An index that does not answer before the deadline."""

        async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:  # noqa: ARG002
            await documents.searched.wait()
            monotonic.advance_soon(60)
            await asyncio.Event().wait()
            raise AssertionError

    ctx = replace(ctx, deadline=time.time() + 100)
    ranking = await rank_in(make_query("anchor"), Corpus(documents, EndlessIndex()), ctx)
    assert ranking.degradation == Degradation.LEXICAL_TIMED_OUT
    assert not ranking.is_lexical_only
    assert ranking.matches
    [hit] = ranking.hits
    assert hit.bm25 == 0.0
    assert hit.is_neighbour


async def test_hits_not_compared_in_time_are_returned(
    ctx: Context, monotonic: MonotonicClock
) -> None:
    near_texts = [f"anchor {number}" for number in range(DENSE_POOL)]
    far_text = "It is a storm, and far from anything else that is here."
    await store_sources(ctx, make_source_of_texts(near_texts))
    [far_chunk] = await store_sources(ctx, make_source_of_text(far_text))
    base = get_knowledge_corpus(ctx.database)
    corpus = Corpus(SlowDocuments(base.documents, monotonic), base.index)
    ctx = replace(ctx, deadline=time.time() + 100)

    ranking = await rank_in(make_query("anchor storm"), corpus, ctx)
    assert ranking.degradation is Degradation.COMPARISON_TIMED_OUT
    assert [hit.id for hit in ranking.hits if hit.similarity is None] == [far_chunk.chunk_id]
