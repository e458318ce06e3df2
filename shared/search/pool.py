"""Candidate retrieval: the documents that a lexical search and a vector search find, merged.

Posting lists can be truncated, so a lexical search may miss documents. If the filters leave only a
few documents, all of them become candidates.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic

from shared.index.searchable import DocumentT
from shared.search.meaning import DENSE_POOL
from shared.search.plan import FEW, Scope
from shared.search.time_limit import in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.index.vector_index import Neighbour
    from shared.search.candidate import Candidate
    from shared.search.corpus import DocumentReader
    from shared.search.meaning import Meaning
    from shared.search.plan import Plan
    from shared.search.selection import Selection
    from shared.search.words import Words

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
    plan: Plan
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
    if plan.scope is Scope.FEW and words.truncated:
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
    if query.plan.scope in (Scope.EVERYTHING, Scope.FEW) or hits >= MAX_LEXICAL_HITS:
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
    if plan.scope is Scope.EVERYTHING:
        return await _nearest_unfiltered(query, vector, documents)
    if plan.scope is Scope.FEW:
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
    if plan.scope is Scope.SURE and 2 * len(plan.ids) < limit:
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
