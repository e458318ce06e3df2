"""A question's words, and what they say of a document: its BM25 score, and which it holds."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from shared.index import bm25
from shared.search.candidate import Candidate
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from shared.index.postings import Lists
    from shared.index.searchable import DocumentT


class Words:
    """A question's terms, and the lists of them.

    Attributes:
        terms: The terms, repeats included; none where only meaning was asked for.
        lists: Their lists, and the totals of the corpus.
        scores: BM25 of the documents that the terms' lists hold and the filters' lists admit.
    """

    def __init__(
        self, question: Sequence[str], lists: Lists, among: Collection[str] | None
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
