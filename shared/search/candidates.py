"""Retrieves candidates by words and by meaning, and merges them.

Truncated postings may make a lexical search miss documents. If the filters leave only a few
documents, all of them become candidates.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic

from shared.index import bm25
from shared.index.searchable import DocumentT
from shared.search.filter_plan import SMALL_SCOPE_SIZE, FilterScope
from shared.search.query import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from shared.ai.vector_halves import WeightedVector
    from shared.index.postings import SearchPostings
    from shared.index.vector_index import Neighbour
    from shared.search.corpus import DocumentReader
    from shared.search.filter_plan import FilterPlan, Selection
    from shared.search.lifts import LiftPlan
    from shared.text.term_counts import TermCounts

DENSE_POOL: Final = 50
"""The number of documents that a vector search without filters fetches."""
MAX_RANKED_NEIGHBOURS: Final = SMALL_SCOPE_SIZE
"""The maximum number of neighbours that are ranked in addition to lexical hits. A vector search may
fetch more, so that enough of them pass the filters."""
LEXICAL_POOL: Final = 30
"""The number of lexical hits that are compared with the query's vector."""
UNCHECKED_POOL: Final = 120
"""The number of lexical hits that are compared with the query's vector if the postings do not show
which of them pass the filters."""
SPARE: Final = 1.5
"""The factor by which a filtered vector search fetches more documents than estimated. The database
applies at most one filter, and the share of hits that pass the other filters is only an
estimate."""
UNKNOWN_SHARE: Final = 0.5
"""The assumed share of documents that pass the filters if no postings show it."""
MAX_LEXICAL_HITS: Final = bm25.CAP
"""The maximum number of hits of a search by words alone, over all pages."""
MAX_CHECKED: Final = 1_000
"""The maximum number of documents checked against the filters, which is also the maximum of
Firestore's vector search."""
MAX_CHECKED_ANONYMOUS: Final = 150
"""The same maximum for anonymous callers. It is lower because the owner pays for every document
read."""


@dataclass(frozen=True, slots=True)
class CandidateSearch(Generic[DocumentT]):
    """The second round trip of a search, which fetches the candidates.

    Attributes:
        plan: How to find the documents that pass the filters.
        terms: The query's terms, repeats included. Empty for a semantic search.
        scores: The BM25 scores of the documents that the terms' postings list and that may pass
            the filters, by document id.
        max_checked: The maximum number of documents checked against the filters.
        lifts: What the question may lift. Documents with a phrase come before all others in the
            pool of lexical hits, and those of a period are added to it.
        first_ids: The documents that come before others with more impact.
    """

    selection: Selection
    plan: FilterPlan
    terms: Sequence[str]
    postings: SearchPostings
    scores: Mapping[str, float]
    documents: DocumentReader[DocumentT]
    max_checked: int
    lifts: LiftPlan
    first_ids: AbstractSet[str] = frozenset()

    async def fetch_lexical_candidates(self) -> tuple[list[Candidate[DocumentT]], bool]:
        """Fetch the documents with the highest BM25 scores.

        Costs one round trip, or none if the postings show which documents pass the filters.

        Returns:
            The candidates, and whether documents that pass the filters may be missing.
        """
        if self.plan.scope is FilterScope.SMALL and self._postings_truncated:
            counted = await self.documents.get_all_counted(self.plan.small_scope_ids, self.terms)
            hits = [
                self._score_by_counts(item.document, item.counts)
                for item in counted
                if self.selection.admits(item.document)
            ]
        elif self.plan.is_exact:
            hits = [
                self._score_by_postings(document_id)
                for document_id in self._pick_top(MAX_LEXICAL_HITS)
            ]
        else:
            documents = await self.documents.get_all(self._pick_top(self.max_checked))
            hits = [
                self._score_by_postings(document.id, document)
                for document in documents
                if self.selection.admits(document)
            ]
        matching_hits = [hit for hit in hits if hit.bm25]
        best_hits = heapq.nsmallest(
            MAX_LEXICAL_HITS,
            matching_hits,
            key=lambda hit: (hit.id not in self.first_ids, -hit.bm25, hit.id),
        )
        return best_hits, self._may_miss_hits(len(best_hits))

    def pick_lexical_pool(self) -> list[str]:
        """Return the ids of the documents that become candidates of a hybrid search.

        They are lexical hits, and documents that may be lifted.
        """
        hits = self._pick_top(LEXICAL_POOL if self.plan.is_exact else UNCHECKED_POOL)
        return list(dict.fromkeys([*hits, *self.lifts.period_ids]))

    async def find_lifted(self, vector: WeightedVector) -> list[Neighbour[DocumentT]]:
        """Find the nearest of the documents that may be lifted. Costs one round trip, or none."""
        groups = await asyncio.gather(
            *(
                self.documents.find_nearest(
                    vector, self.lifts.group_size, facets, self._counted_terms
                )
                for facets in self.lifts.facets
            )
        )
        return [neighbour for group in groups for neighbour in group]

    async def compare(
        self,
        vector: WeightedVector,
        lexical_pool: Sequence[str],
        unfiltered: Sequence[Neighbour[DocumentT]],
    ) -> list[Neighbour[DocumentT]]:
        """Measure the similarity of the lexical hits that the vector search may not return.

        Afterwards, every candidate with a vector has both scores. Costs one round trip.
        """
        ids_in_vector_search = {
            *_get_ids(unfiltered),
            *(self._get_passing_ids(self._estimate_filtered_pool()) or ()),
        }
        return await self.documents.measure_similarities(
            vector,
            [
                document_id
                for document_id in lexical_pool
                if document_id not in ids_in_vector_search
            ],
            self._counted_terms,
        )

    async def find_nearest(
        self, vector: WeightedVector, unfiltered: Sequence[Neighbour[DocumentT]]
    ) -> Sequence[Neighbour[DocumentT]]:
        """Run the vector search, and widen it until enough of its hits pass the filters.

        Costs one round trip, or up to three if too few of the nearest documents pass. Without
        filters, it costs none if `unfiltered` suffices.
        """
        if self.plan.scope is FilterScope.EVERYTHING and self._is_enough(unfiltered, DENSE_POOL):
            return unfiltered
        pool = self._estimate_filtered_pool()
        hits = await self._find_nearest_filtered(vector, pool)
        for limit in (min(self.max_checked, 3 * pool), self.max_checked):
            if pool < limit and not self._is_enough(hits, pool):
                pool = limit
                hits = await self._find_nearest_filtered(vector, pool)
        return hits

    def _estimate_filtered_pool(self) -> int:
        """Estimate how many documents to fetch so that DENSE_POOL of them pass the filters."""
        plan = self.plan
        if self.selection.is_single_filter and plan.prefilter.facets:
            return DENSE_POOL
        # With a prefilter, the database searches only the documents that pass it.
        searched_count = plan.prefilter.size or self.postings.totals.documents
        if plan.max_passing is not None:
            passing_count: float = plan.max_passing
        elif plan.is_exact:  # The filters only exclude.
            passing_count = searched_count - len(plan.excluded_ids)
        else:
            passing_count = searched_count * UNKNOWN_SHARE
        pool = SPARE * DENSE_POOL * max(1.0, searched_count / max(passing_count, 1))
        return min(self.max_checked, math.ceil(pool))

    async def _find_nearest_filtered(
        self, vector: WeightedVector, limit: int
    ) -> Sequence[Neighbour[DocumentT]]:
        """Compare all passing documents if they are known and at most `limit`; otherwise search."""
        ids = self._get_passing_ids(limit)
        if ids is not None:
            return await self.documents.measure_similarities(vector, ids, self._counted_terms)
        return await self.documents.find_nearest(
            vector, limit, self.plan.prefilter.facets, self._counted_terms
        )

    def _get_passing_ids(self, limit: int) -> list[str] | None:
        """Return the ids of all passing documents, or None if they are unknown or too many."""
        plan = self.plan
        if plan.scope is FilterScope.SMALL:
            return plan.ids
        return plan.ids if plan.scope is FilterScope.LARGE and len(plan.ids) <= limit else None

    def merge(
        self,
        nearest: Sequence[Neighbour[DocumentT]],
        lexical_pool: Sequence[str],
        compared: Sequence[Neighbour[DocumentT]],
    ) -> tuple[list[Candidate[DocumentT]], bool]:
        """Merge the hits of both searches into candidates.

        Args:
            compared: The lexical hits whose similarity was measured.

        Returns:
            The candidates, and whether documents that pass the filters may be missing.
        """
        neighbours = [hit for hit in nearest if self.selection.admits(hit.document)]
        lexical_hits = [hit for hit in compared if self.selection.admits(hit.document)]
        neighbour_ids = set(_get_ids(neighbours))
        ranked_hits = neighbours[:MAX_RANKED_NEIGHBOURS]
        # A neighbour beyond the limit is still ranked if it is also a lexical hit.
        ranked_hits += [hit for hit in neighbours if hit.document.id in lexical_pool]
        hits_by_id = {hit.document.id: hit for hit in [*ranked_hits, *lexical_hits]}
        candidates = [
            replace(
                self._score_by_counts(hit.document, hit.counts),
                similarity=hit.similarity,
                is_neighbour=document_id in neighbour_ids,
            )
            for document_id, hit in hits_by_id.items()
        ]
        # Lexical hits that have no vector, or were not compared in time, remain candidates. They
        # are checked against the filters when the result page is read.
        checked_ids = {*_get_ids(nearest), *_get_ids(compared)}
        candidates += [
            self._score_by_postings(document_id)
            for document_id in lexical_pool
            if document_id not in checked_ids
        ]
        return candidates, len(nearest) >= self.max_checked and len(neighbours) < DENSE_POOL

    @property
    def _postings_truncated(self) -> bool:
        """Whether some documents may be missing from the terms' postings."""
        return not all(postings.is_complete for postings in self.postings.terms.values())

    @property
    def _counted_terms(self) -> Sequence[str]:
        """The terms to count in the documents. There are none if the postings are complete."""
        return self.terms if self._postings_truncated else ()

    def _may_miss_hits(self, hit_count: int) -> bool:
        """Return whether documents that pass may be missing from this many lexical hits.

        Without filters, the best documents are in the postings. In a small scope, all documents
        were examined. With MAX_LEXICAL_HITS hits, no more are needed.
        """
        is_complete = self.plan.scope in (FilterScope.EVERYTHING, FilterScope.SMALL)
        if is_complete or hit_count >= MAX_LEXICAL_HITS:
            return False
        return self._postings_truncated or len(self.scores) > self.max_checked

    def _pick_top(self, limit: int) -> list[str]:
        """Return the ids of the documents with the highest BM25 scores, ties in order of id."""

        def sort_key(document_id: str) -> tuple[bool, bool, float, str]:
            return (
                document_id not in self.lifts.phrase_ids,
                document_id not in self.first_ids,
                -self.scores[document_id],
                document_id,
            )

        return heapq.nsmallest(limit, self.scores, key=sort_key)

    def _is_enough(self, hits: Sequence[Neighbour[DocumentT]], limit: int) -> bool:
        """Return whether enough hits pass the filters, or whether a wider search finds no more."""
        passing_count = sum(self.selection.admits(hit.document) for hit in hits)
        return len(hits) < limit or passing_count >= DENSE_POOL

    def _score_by_postings(
        self, document_id: str, document: DocumentT | None = None
    ) -> Candidate[DocumentT]:
        """Make a candidate with the document's BM25 score from the postings."""
        matching_terms = frozenset(
            term
            for term, postings in self.postings.terms.items()
            if document_id in postings.entries
        )
        return Candidate(document_id, self.scores.get(document_id, 0.0), matching_terms, document)

    def _score_by_counts(
        self, document: DocumentT, counts: TermCounts | None
    ) -> Candidate[DocumentT]:
        """Make a candidate with the document's BM25 score from its own term counts.

        The counts are needed only where postings are truncated and may lack the document.
        """
        if counts is None or not self._postings_truncated:
            return self._score_by_postings(document.id, document)
        query_postings, totals = self.postings.terms, self.postings.totals
        score = bm25.score_document(
            self.terms, counts.by_term, counts.length, query_postings, totals
        )
        matching_terms = frozenset(query_postings.keys() & counts.by_term.keys())
        return Candidate(document.id, score, matching_terms, document)


def _get_ids(neighbours: Sequence[Neighbour[DocumentT]]) -> list[str]:
    return [neighbour.document.id for neighbour in neighbours]
