"""A question's ranking: what it holds, and how wide it looks."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.core.errors import Unavailable
from shared.index.facets import Kind, named_facet
from shared.knowledge.corpus import knowledge
from shared.knowledge.ingestion import Ingestion
from shared.search.candidates import DENSE_POOL, MAX_LEXICAL_HITS
from shared.search.corpus import Corpus
from shared.search.filter_plan import FEW, FacetFilter, Selection
from shared.search.hybrid import rank as rank_in
from shared.search.query import Degradation, Mode, SearchQuery
from tests.support.knowledge import in_chunks, index_all, put_in
from tests.support.search_brute_force import bm25, cut_lists, many, one, stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.index.facets import Facet
    from shared.index.postings import SearchPostings
    from shared.index.vector_index import Documents, Neighbour
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.query import Ranking
    from tests.support.fakes.embedder import WordEmbedder
    from tests.support.monotonic_clock import Monotonic

pytestmark = pytest.mark.anyio

SEA = named_facet(Kind.TAG, "sea")
ANN = named_facet(Kind.AUTHOR, "Ann")


def question(text: str, mode: Mode = Mode.HYBRID, *facets: Facet) -> SearchQuery:
    """What is looked for, among what bears all of these facets."""
    groups = tuple(FacetFilter("tags", {facet.id: (facet,)}) for facet in facets)
    return SearchQuery(text, mode, Selection(groups))


async def rank(asked: SearchQuery, ctx: Context) -> Ranking[Chunk]:
    """What the knowledge base has on it."""
    return await rank_in(asked, knowledge(ctx.database), ctx)


async def test_every_hit_of_a_hybrid_search_has_both_scores(ctx: Context) -> None:
    await put_in(ctx, many(["rye anchor", "anchor oven mast", "bread"]), one("anchor rye rye"))
    found = await rank(question("anchor rye"), ctx)
    expected = bm25(await stored(ctx), "anchor rye")
    assert pytest.approx(expected) == {hit.id: hit.bm25 for hit in found.hits}
    assert all(hit.similarity is not None for hit in found.hits)
    assert (frozenset({"anchor", "rye"}), 4) == (found.terms, found.documents)


async def test_the_scores_are_those_of_the_text_where_lists_were_cut(ctx: Context) -> None:
    texts = [f"anchor anchor {number}" for number in range(30)]
    await put_in(ctx, many([*texts, "rye and one anchor"], tags=("sea",)))
    expected = bm25(await stored(ctx), "anchor rye")
    await cut_lists(ctx, "lexicon", cap=3)
    ways = (Mode.HYBRID, ()), (Mode.HYBRID, (SEA,)), (Mode.LEXICAL, (SEA,))
    for mode, facets in ways:
        found = await rank(question("anchor rye", mode, *facets), ctx)
        assert pytest.approx(expected) == {hit.id: hit.bm25 for hit in found.hits}


async def test_what_lacks_a_vector_is_neither_near_nor_far(ctx: Context) -> None:
    """Its words decide: with more of them than any other it comes first."""
    await put_in(ctx, many([f"anchor {word}" for word in ("rye", "oven", "mast", "rope")]))
    await Ingestion(ctx.database).save([in_chunks(one("anchor anchor storm"))], ctx.clock())
    await index_all(ctx)
    found = await rank(question("anchor storm"), ctx)
    assert ("notes", None) == (found.hits[0].id[:5], found.hits[0].similarity)


async def test_a_pool_is_as_deep_as_it_says(ctx: Context) -> None:
    texts = [f"anchor {number}" for number in range(MAX_LEXICAL_HITS + 10)]
    await put_in(ctx, many(texts, tags=("sea",), author="Ann"))
    depths = {
        (mode, len(facets)): len((await rank(question("anchor", mode, *facets), ctx)).hits)
        for mode in (Mode.SEMANTIC, Mode.LEXICAL)
        for facets in ((), (SEA,), (SEA, ANN))
    }
    assert {
        (Mode.SEMANTIC, 0): DENSE_POOL,
        (Mode.SEMANTIC, 1): DENSE_POOL,
        (Mode.SEMANTIC, 2): FEW,
        (Mode.LEXICAL, 0): MAX_LEXICAL_HITS,
        (Mode.LEXICAL, 1): MAX_LEXICAL_HITS,
        (Mode.LEXICAL, 2): MAX_LEXICAL_HITS,
    } == depths


async def test_what_broad_filters_may_hide_of_a_word_is_admitted(ctx: Context) -> None:
    loud = many([f"anchor anchor {number}" for number in range(FEW + 10)], "loud")
    quiet = many([f"an anchor of page {number}" for number in range(FEW + 10)], tags=("sea",))
    await put_in(ctx, loud, quiet)
    assert not (await rank(question("anchor", Mode.LEXICAL, SEA), ctx)).truncated
    await cut_lists(ctx, "lexicon", cap=20)
    assert (await rank(question("anchor", Mode.LEXICAL, SEA), ctx)).truncated
    assert not (await rank(question("anchor", Mode.LEXICAL), ctx)).truncated
    assert not (await rank(question("anchor", Mode.HYBRID, SEA), ctx)).truncated


async def test_an_unknown_filter_ends_the_search(ctx: Context) -> None:
    await put_in(ctx, one("anchor", tags=("sea",)))
    found = await rank(question("anchor", Mode.HYBRID, SEA, ANN), ctx)
    assert ((), [ANN.id]) == (found.hits, [value for _, value in found.unknown])
    assert not found.matches


async def test_the_provider_s_outage_is_told(ctx: Context, embedder: WordEmbedder) -> None:
    await put_in(ctx, one("anchor"))
    embedder.down = True
    found = await rank(question("anchor"), ctx)
    assert Degradation.EMBEDDING_UNAVAILABLE is found.degradation
    assert (True, 1) == (found.matches, len(found.hits))
    assert (await rank(question("anchor", Mode.LEXICAL), ctx)).degradation is None
    with pytest.raises(Unavailable):
        await rank(question("anchor", Mode.SEMANTIC), ctx)


class SlowDocuments:
    """Documents whose vectors are compared by the server in time, but here never."""

    def __init__(self, documents: Documents[Chunk], monotonic: Monotonic) -> None:
        self.get_all = documents.get_all
        self.searched = asyncio.Event()
        self._documents = documents
        self._monotonic = monotonic

    async def nearest(
        self, vector: Vector, limit: int, facets: Sequence[str] = ()
    ) -> list[Neighbour[Chunk]]:
        neighbours = await self._documents.nearest(vector, limit, facets)
        self.searched.set()
        return neighbours

    async def similarities(
        self,
        vector: Vector,  # noqa: ARG002 - they are never compared
        ids: Sequence[str],  # noqa: ARG002 - the same
    ) -> list[Neighbour[Chunk]]:
        self._monotonic.turn_soon(60)
        await asyncio.Event().wait()
        return []


async def test_meaning_answers_where_words_take_too_long(
    ctx: Context, monotonic: Monotonic
) -> None:
    await put_in(ctx, one("anchor"))
    base = knowledge(ctx.database)
    documents = SlowDocuments(base.documents, monotonic)

    class SlowLists:
        async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:  # noqa: ARG002
            await documents.searched.wait()
            monotonic.turn_soon(60)
            await asyncio.Event().wait()
            raise AssertionError

    ctx = replace(ctx, deadline=time.time() + 100)
    ranking = await rank_in(question("anchor"), Corpus(documents, SlowLists()), ctx)
    assert (Degradation.LEXICAL_TIMED_OUT, False, True) == (
        ranking.degradation,
        ranking.is_lexical_only,
        ranking.matches,
    )
    assert [(0.0, True)] == [(hit.bm25, hit.is_neighbour) for hit in ranking.hits]


async def test_what_is_not_compared_in_time_is_shown(ctx: Context, monotonic: Monotonic) -> None:
    await put_in(ctx, many([f"anchor {number}" for number in range(DENSE_POOL)]))
    await put_in(ctx, one("It is a storm, and far from anything else that is here."))
    base = knowledge(ctx.database)
    ctx = replace(ctx, deadline=time.time() + 100)
    corpus = Corpus(SlowDocuments(base.documents, monotonic), base.index)
    ranking = await rank_in(question("anchor storm"), corpus, ctx)
    assert Degradation.COMPARISON_TIMED_OUT is ranking.degradation
    assert ["notes"] == [hit.id[:5] for hit in ranking.hits if hit.similarity is None]
