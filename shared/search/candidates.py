"""Candidate retrieval: the documents that a lexical search and a vector search find, merged.

Posting lists can be truncated, so a lexical search may miss documents. If the filters leave only a
few documents, all of them become candidates.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from shared.core.errors import PlatformFault, RateLimited, Unavailable
from shared.core.log import describe, log
from shared.index import bm25
from shared.index.embedding_space import EmbeddingSpace, ReembeddingInProgress
from shared.index.searchable import DocumentT
from shared.search.filter_plan import FEW, FilterScope
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Mapping, Sequence

    from shared.ai.embedding import Vector
    from shared.index.postings import SearchPostings
    from shared.index.vector_index import Neighbour
    from shared.runtime.context import Context
    from shared.search.corpus import Corpus, DocumentReader
    from shared.search.filter_plan import FilterPlan, Selection


T = TypeVar("T")


class Mode(StrEnum):
    """By what documents are found."""

    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    LEXICAL = "lexical"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is looked for.

    Attributes:
        text: In plain words.
        mode: By what.
        selection: Among which documents.
        dense_weight: What a similarity counts for beside BM25, from 0 to 1; None: what was measured
            of the embedding model.
        may_be_far: Whether all that there is may have nothing to do with the question: noise of
            similarities is then kept from outweighing words.
    """

    text: str
    mode: Mode
    selection: Selection
    dense_weight: float | None = None
    may_be_far: bool = False

    @property
    def by_meaning(self) -> bool:
        """Whether meaning counts."""
        return self.mode is not Mode.LEXICAL

    @property
    def by_words(self) -> bool:
        """Whether words count."""
        return self.mode is not Mode.SEMANTIC


@dataclass(frozen=True, slots=True)
class Candidate(Generic[DocumentT]):
    """A document to rank.

    Attributes:
        id: Which.
        bm25: Its BM25 score; 0 where it holds none of the question's terms.
        held: The question's terms that it holds, as far as is known.
        document: The document, which passes the filters; None while it was not read: whether it
            still is there and passes is then to be seen.
        similarity: Cosine similarity with the question; None where it was not compared, or has no
            vector yet.
        near: Whether the search by meaning brought it.
        score: What it is ranked by; 0 before that.
    """

    id: str
    bm25: float
    held: frozenset[str]
    document: DocumentT | None = None
    similarity: float | None = None
    near: bool = False
    score: float = 0.0


DENSE_POOL: Final = 50
"""Documents that the search by meaning brings."""


class NoMeaning(Enum):
    """Why meaning was left out, though it was asked for."""

    PROVIDER_UNAVAILABLE = auto()
    NOTHING_EMBEDDED = auto()
    EMBEDDED_ANEW = auto()
    OUT_OF_TIME = auto()


@dataclass(frozen=True, slots=True)
class Meaning(Generic[DocumentT]):
    """What is known of a question's meaning.

    Attributes:
        vector: Its vector; None where words alone are searched.
        nearest: The documents nearest to it, where everything is searched: that has to know nothing
            of the lists.
        missing: Why there is no vector; None where there is one, or none was asked for.
    """

    vector: Vector | None = None
    nearest: list[Neighbour[DocumentT]] = field(default_factory=list)
    missing: NoMeaning | None = None


async def meaning_of(
    question: SearchQuery, corpus: Corpus[DocumentT], ctx: Context
) -> Meaning[DocumentT]:
    """Embed the question, and search with it at once where there is no filter. One round trip.

    Raises:
        Unavailable: The embedding provider is down, or everything is being embedded anew, and only
            meaning was asked for.
        RateLimited: It throttles the caller's own key. The same.
        PlatformFault: It is set up wrongly, or answers no vector. The same.
        Conflict: The database is embedded with another model.
    """
    if not question.by_meaning:
        return Meaning()
    try:
        vector, embedded = await asyncio.gather(
            _vector(question, ctx), EmbeddingSpace(ctx.database).expect(ctx.embedder)
        )
    except ReembeddingInProgress:
        if not question.by_words:
            raise
        return Meaning(missing=NoMeaning.EMBEDDED_ANEW)
    if vector is None:
        return Meaning(missing=NoMeaning.PROVIDER_UNAVAILABLE)
    if not embedded:
        return Meaning(missing=NoMeaning.NOTHING_EMBEDDED)
    if not question.selection.everything:
        return Meaning(vector)
    return Meaning(vector, await corpus.documents.nearest(vector, DENSE_POOL))


async def _vector(question: SearchQuery, ctx: Context) -> Vector | None:
    """The question's vector; None where the provider fails and words can do without."""
    try:
        return await ctx.query_vector(question.text)
    except (PlatformFault, RateLimited, Unavailable) as error:
        if not question.by_words:
            raise
        if isinstance(error, PlatformFault):
            log.error("question_not_embedded", **describe(error))
        return None


class Words:
    """A question's terms, and the lists of them.

    Attributes:
        terms: The terms, repeats included; none where only meaning was asked for.
        lists: Their lists, and the totals of the corpus.
        scores: BM25 of the documents that the terms' lists hold and the filters' lists admit.
    """

    def __init__(
        self, question: Sequence[str], lists: SearchPostings, among: Collection[str] | None
    ) -> None:
        """Score what the lists hold; `among` is what may pass the filters, None if unknown."""
        self.terms = question
        self.lists = lists
        scores = bm25.score(question, lists.terms, lists.totals)
        if among is not None:
            scores = {name: scores[name] for name in scores.keys() & among}
        self.scores: Mapping[str, float] = scores

    @property
    def truncated(self) -> bool:
        """Whether the list of any term was cut: a document that it left out may hold the term."""
        return not all(postings.complete for postings in self.lists.terms.values())

    def best(self, limit: int) -> list[str]:
        """The documents of the highest scores."""
        return heapq.nsmallest(limit, self.scores, key=lambda name: (-self.scores[name], name))

    def candidate_from_postings(
        self, name: str, document: DocumentT | None = None
    ) -> Candidate[DocumentT]:
        """A document by what the lists say of it."""
        held = frozenset(term for term, each in self.lists.terms.items() if name in each.entries)
        return Candidate(name, self.scores.get(name, 0.0), held, document)

    def candidate_from_document(self, document: DocumentT) -> Candidate[DocumentT]:
        """A document that was read: by its own text where lists were cut, about 0.5 ms each."""
        if not self.truncated:
            return self.candidate_from_postings(document.id, document)
        counts = Counter(terms(document.indexed_text))
        score = bm25.score_document(
            self.terms, counts, counts.total(), self.lists.terms, self.lists.totals
        )
        return Candidate(document.id, score, frozenset(self.lists.terms.keys() & counts), document)


MAX_RANKED_NEIGHBOURS: Final = FEW
"""Neighbours that are ranked, however many were fetched to find enough that pass the filters."""
LEXICAL_POOL: Final = 30
"""Lexical hits that are compared with the query's vector."""
UNCHECKED_POOL: Final = 120
"""Lexical hits that are compared where the postings cannot tell which of them pass the filters."""
FILTERED_POOL: Final = 150
"""Documents of a first, narrower vector search. The database applies one filter at most; the other
filters are applied in memory."""
MAX_LEXICAL_HITS: Final = 200
"""Hits of a lexical search without a vector search, over all pages."""
MAX_CHECKED: Final = 1_000
"""Documents checked against the filters; Firestore's vector search returns no more."""
MAX_CHECKED_ANONYMOUS: Final = FILTERED_POOL
"""Documents checked for anonymous callers: the owner pays for each document that is read."""


@dataclass(frozen=True, slots=True)
class PreparedQuery(Generic[DocumentT]):
    """The result of the first round trip of a search.

    Attributes:
        selection: The filters.
        plan: What the filters' postings tell about the documents that pass.
        words: The query's terms, and the BM25 scores that follow from their postings.
        meaning: The query's vector and, without filters, its nearest documents.
        max_checked: How many documents are checked against the filters at most.
        vector_seconds: The time limit of the vector search; None: no limit.
    """

    selection: Selection
    plan: FilterPlan
    words: Words
    meaning: Meaning[DocumentT]
    max_checked: int
    vector_seconds: float | None


@dataclass(frozen=True, slots=True)
class Pool(Generic[DocumentT]):
    """The candidates of a search.

    Attributes:
        candidates: Each with its BM25 score, its similarity, or both.
        truncated: Whether documents that pass the filters may be missing.
        vector_search_timed_out: Whether the vector search took too long, so that only words count.
        comparison_timed_out: Whether comparing the lexical hits with the query's vector took too
            long.
    """

    candidates: list[Candidate[DocumentT]]
    truncated: bool
    vector_search_timed_out: bool = False
    comparison_timed_out: bool = False


async def retrieve_candidates(
    query: PreparedQuery[DocumentT], documents: DocumentReader[DocumentT]
) -> Pool[DocumentT]:
    """Fetch the candidates.

    It takes one round trip, two where too few of the nearest documents pass the filters, and none
    where the postings suffice.
    """
    if query.meaning.vector is None:
        return await _by_words(query, documents)
    return await _by_both(query, query.meaning.vector, documents)


async def _by_words(
    query: PreparedQuery[DocumentT], documents: DocumentReader[DocumentT]
) -> Pool[DocumentT]:
    """Rank by BM25 alone. Documents are read only where the postings cannot tell what passes."""
    plan, words = query.plan, query.words
    if plan.scope is FilterScope.FEW and words.truncated:
        read = await documents.get_all(plan.few)
        hits = [
            words.candidate_from_document(document)
            for document in read
            if query.selection.admits(document)
        ]
    elif plan.exact:
        hits = [
            words.candidate_from_postings(document_id)
            for document_id in words.best(MAX_LEXICAL_HITS)
        ]
    else:
        read = await documents.get_all(words.best(query.max_checked))
        hits = [
            words.candidate_from_postings(document.id, document)
            for document in read
            if query.selection.admits(document)
        ]
    scored = [hit for hit in hits if hit.bm25]
    best = heapq.nsmallest(MAX_LEXICAL_HITS, scored, key=lambda hit: (-hit.bm25, hit.id))
    return Pool(best, _may_lack_lexical_hits(query, len(best)))


def _may_lack_lexical_hits(query: PreparedQuery[DocumentT], hits: int) -> bool:
    """Whether later pages may lack documents that pass the filters."""
    if query.plan.scope in (FilterScope.EVERYTHING, FilterScope.FEW) or hits >= MAX_LEXICAL_HITS:
        return False
    return query.words.truncated or len(query.words.scores) > query.max_checked


async def _by_both(
    query: PreparedQuery[DocumentT], vector: Vector, documents: DocumentReader[DocumentT]
) -> Pool[DocumentT]:
    """Run the vector search, and compare the lexical hits with the query's vector as well.

    Every candidate that has a vector therefore gets both scores.
    """
    lexical = query.words.best(LEXICAL_POOL if query.plan.exact else UNCHECKED_POOL)
    in_vector_search = {*_ids(query.meaning.nearest), *query.plan.few}
    only_lexical = [document_id for document_id in lexical if document_id not in in_vector_search]
    neighbours, compared = await asyncio.gather(
        in_time(_nearest(query, vector, documents), query.vector_seconds),
        in_time(documents.similarities(vector, only_lexical), query.vector_seconds),
    )
    nearest, lexical_neighbours = neighbours or [], compared or []
    passing = [hit for hit in nearest if query.selection.admits(hit.document)]
    others = [hit for hit in lexical_neighbours if query.selection.admits(hit.document)]
    near_ids = set(_ids(passing))
    by_id = {hit.document.id: hit for hit in [*passing[:MAX_RANKED_NEIGHBOURS], *others]}
    candidates = [
        replace(
            query.words.candidate_from_document(hit.document),
            similarity=hit.similarity,
            near=document_id in near_ids,
        )
        for document_id, hit in by_id.items()
    ]
    # Lexical hits that have no vector, or were not compared in time, are still candidates. Their
    # filters are checked when the result page is read.
    checked = {*_ids(nearest), *_ids(lexical_neighbours)}
    candidates += [
        query.words.candidate_from_postings(document_id)
        for document_id in lexical
        if document_id not in checked
    ]
    truncated = len(nearest) >= query.max_checked and len(passing) < DENSE_POOL
    return Pool(
        candidates,
        truncated,
        vector_search_timed_out=neighbours is None,
        comparison_timed_out=compared is None,
    )


async def _nearest(
    query: PreparedQuery[DocumentT], vector: Vector, documents: DocumentReader[DocumentT]
) -> Sequence[Neighbour[DocumentT]]:
    """The vector search, wide enough that enough of its hits pass the filters."""
    plan, selection = query.plan, query.selection
    if plan.scope is FilterScope.EVERYTHING:
        return await _nearest_unfiltered(query, vector, documents)
    if plan.scope is FilterScope.FEW:
        return await documents.similarities(vector, plan.few)
    facets, size = plan.prefilter.facets, plan.prefilter.size or query.max_checked
    if selection.single:
        hits = await documents.nearest(vector, DENSE_POOL, facets)
        if len(hits) < DENSE_POOL or all(map(selection.admits, _documents(hits))):
            return hits
    hits = await documents.nearest(vector, min(FILTERED_POOL, size), facets)
    if _is_enough(hits, query):
        return hits
    # Too few of the nearest pass the filters: one more round trip, for all that may pass. Reading a
    # document with its vector takes longer than having the server compare it, but may mean far
    # fewer reads.
    limit = min(query.max_checked, size)
    if plan.scope is FilterScope.SURE and 2 * len(plan.ids) < limit:
        return await documents.similarities(vector, plan.ids)
    return await documents.nearest(vector, limit, facets)


async def _nearest_unfiltered(
    query: PreparedQuery[DocumentT], vector: Vector, documents: DocumentReader[DocumentT]
) -> Sequence[Neighbour[DocumentT]]:
    """The nearest of all documents, and more of them if some do not pass."""
    nearest = query.meaning.nearest
    if len(nearest) < DENSE_POOL or all(map(query.selection.admits, _documents(nearest))):
        return nearest
    hits = await documents.nearest(vector, FILTERED_POOL)
    if _is_enough(hits, query):
        return hits
    return await documents.nearest(vector, query.max_checked)


def _is_enough(hits: Sequence[Neighbour[DocumentT]], query: PreparedQuery[DocumentT]) -> bool:
    """Whether enough of these pass the filters, or no more may be fetched."""
    passing = sum(map(query.selection.admits, _documents(hits)))
    cannot_fetch_more = len(hits) < FILTERED_POOL or query.max_checked <= FILTERED_POOL
    return passing >= DENSE_POOL or cannot_fetch_more


def _documents(neighbours: Sequence[Neighbour[DocumentT]]) -> list[DocumentT]:
    return [neighbour.document for neighbour in neighbours]


def _ids(neighbours: Sequence[Neighbour[DocumentT]]) -> list[str]:
    return [neighbour.document.id for neighbour in neighbours]


async def in_time(part: Awaitable[T], seconds: float | None) -> T | None:
    """The result of a part of a search; None if it takes longer than `seconds` (None: no limit)."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await part
    except TimeoutError:
        if not limit.expired():
            raise
        return None
