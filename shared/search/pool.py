"""Candidate retrieval: the documents that a search by words and a search by vector find, merged.

A posting list that was truncated may lack a document. Where filters leave few documents, all of
them become candidates, so that none is missed.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic

from shared.domain.searchable import DocumentT
from shared.search.meaning import DENSE_POOL
from shared.search.plan import FEW, Scope
from shared.search.time_limit import in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.search.candidate import Candidate
    from shared.search.corpus import DocumentReader
    from shared.search.meaning import Meaning
    from shared.search.plan import Plan
    from shared.search.selection import Selection
    from shared.search.words import Words
    from shared.store.documents import Neighbour

LEXICAL_POOL: Final = 30
"""Hits of the search by words that are compared with the query's vector."""
UNCHECKED_POOL: Final = 120
"""The same where the postings cannot tell which hits pass the filters."""
FILTERED_POOL: Final = 150
"""Documents that one of several filters fetches before the others are applied here."""
MAX_LEXICAL_HITS: Final = 200
"""Hits of a search by words alone, over all pages."""
MAX_CHECKED: Final = 1_000
"""Documents checked against the filters; Firestore's vector search returns no more."""
MAX_CHECKED_ANONYMOUS: Final = FILTERED_POOL
"""The same for callers without an identity: the owner pays for each document that is read."""


@dataclass(frozen=True, slots=True)
class PreparedQuery(Generic[DocumentT]):
    """What the first round trip of a search found out.

    Attributes:
        selection: The filters.
        plan: What the postings of the filters' values say of the documents that pass.
        words: The query's terms, and the BM25 scores that follow from their postings.
        meaning: The query's vector and, without filters, its nearest documents.
        max_checked: How many documents are checked against the filters at most.
        seconds: How long comparing vectors may take; None: no limit.
    """

    selection: Selection
    plan: Plan
    words: Words
    meaning: Meaning[DocumentT]
    max_checked: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Pool(Generic[DocumentT]):
    """The candidates of a search.

    Attributes:
        candidates: Each with both scores, as far as it has them.
        truncated: Whether documents that pass the filters may be missing.
        out_of_time: Whether the vector search took too long, so that only words count.
        uncompared: Whether comparing the hits of the search by words did.
    """

    candidates: list[Candidate[DocumentT]]
    truncated: bool
    out_of_time: bool = False
    uncompared: bool = False


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
    if plan.scope is Scope.FEW and words.cut:
        read = await documents.get_all(plan.few)
        hits = [words.read(document) for document in read if query.selection.admits(document)]
    elif plan.exact:
        hits = [words.listed(document_id) for document_id in words.best(MAX_LEXICAL_HITS)]
    else:
        read = await documents.get_all(words.best(query.max_checked))
        hits = [
            words.listed(document.id, document)
            for document in read
            if query.selection.admits(document)
        ]
    scored = [hit for hit in hits if hit.bm25]
    best = heapq.nsmallest(MAX_LEXICAL_HITS, scored, key=lambda hit: (-hit.bm25, hit.id))
    return Pool(best, _may_lack_lexical_hits(query, len(best)))


def _may_lack_lexical_hits(query: PreparedQuery[DocumentT], hits: int) -> bool:
    """Whether documents that pass may be missing which one could page on to."""
    if query.plan.scope in (Scope.EVERYTHING, Scope.FEW) or hits >= MAX_LEXICAL_HITS:
        return False
    return query.words.cut or len(query.words.scores) > query.max_checked


async def _by_both(
    query: PreparedQuery[DocumentT], vector: Vector, documents: DocumentReader[DocumentT]
) -> Pool[DocumentT]:
    """Search by vector, and compare the hits of the search by words with the vector too.

    So every candidate that has a vector gets both scores.
    """
    lexical = query.words.best(LEXICAL_POOL if query.plan.exact else UNCHECKED_POOL)
    in_vector_search = {*_ids(query.meaning.nearest), *query.plan.few}
    only_lexical = [document_id for document_id in lexical if document_id not in in_vector_search]
    neighbours, compared = await asyncio.gather(
        in_time(_nearest(query, vector, documents), query.seconds),
        in_time(documents.similarities(vector, only_lexical), query.seconds),
    )
    nearest, others = neighbours or [], compared or []
    near = [hit for hit in nearest if query.selection.admits(hit.document)]
    far = [hit for hit in others if query.selection.admits(hit.document)]
    near_ids = set(_ids(near))
    by_id = {hit.document.id: hit for hit in [*near[:FEW], *far]}
    candidates = [
        replace(
            query.words.read(hit.document),
            similarity=hit.similarity,
            near=document_id in near_ids,
        )
        for document_id, hit in by_id.items()
    ]
    # What has no vector, or was not compared in time, words find all the same. Whether it passes
    # the filters is checked when its page is read.
    checked = {*_ids(nearest), *_ids(others)}
    candidates += [
        query.words.listed(document_id) for document_id in lexical if document_id not in checked
    ]
    truncated = len(nearest) >= query.max_checked and len(near) < DENSE_POOL
    return Pool(
        candidates,
        truncated,
        out_of_time=neighbours is None,
        uncompared=compared is None,
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
    # Too few of the nearest pass: one more round trip, for all that may. Reading a document with
    # its vector takes longer than having the server compare it, but may mean far fewer reads.
    limit = min(query.max_checked, size)
    if plan.scope is Scope.SURE and 2 * len(plan.ids) < limit:
        return await documents.similarities(vector, plan.ids)
    return await documents.nearest(vector, limit, facets)


async def _nearest_unfiltered(
    query: PreparedQuery[DocumentT], vector: Vector, documents: DocumentReader[DocumentT]
) -> Sequence[Neighbour[DocumentT]]:
    """The nearest of all documents; more of them where some may not be shown."""
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
    fetched_all = len(hits) < FILTERED_POOL or query.max_checked <= FILTERED_POOL
    return passing >= DENSE_POOL or fetched_all


def _documents(neighbours: Sequence[Neighbour[DocumentT]]) -> list[DocumentT]:
    return [neighbour.document for neighbour in neighbours]


def _ids(neighbours: Sequence[Neighbour[DocumentT]]) -> list[str]:
    return [neighbour.document.id for neighbour in neighbours]
