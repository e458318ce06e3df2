"""Ranks documents with a phrase, period or author that a question names above all others.

These lift a document: a phrase that the question quotes, the period that it names, and an author
whom it names. The more of them a document has, the higher is its tier.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.search.names import find_author_facets, find_named_authors, remove_name
from shared.search.phrases import find_phrases, has_phrase
from shared.search.relevance import MIN_EVIDENCE
from shared.search.understanding import DateOrder, find_subject
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from shared.core.dates import DateSpan
    from shared.index.facets import Facet
    from shared.index.postings import SearchPostings
    from shared.index.searchable import DocumentT, Searchable
    from shared.search.query import Candidate, SearchQuery

MAX_LIFTED: Final = 50
"""The number of documents that are read because they may be lifted, beside all other candidates."""
GOOD_SHARE: Final = 0.6
"""Documents with at least this share of the best score of a tier are sorted by date."""

_MIN_SUBJECT_EVIDENCE: Final = MIN_EVIDENCE - 0.13
"""From this evidence on, a document of the period that a question names may be on its subject.
Lower than for an answer, because the period is evidence, too."""


@dataclass(frozen=True, slots=True)
class LiftPlan:
    """What a question may lift, and which candidates this takes.

    Attributes:
        phrases: The phrases that the question quotes.
        phrase_ids: The ids of the documents that have all words of a phrase.
        period_ids: The ids of the documents of the period to read, at most MAX_LIFTED.
        facets: Groups of facets, by which the nearest documents are searched.
        group_size: The number of documents to find by each group.
        is_by_date: Whether the question asks for an order by date.
    """

    phrases: list[str]
    phrase_ids: set[str]
    period_ids: list[str] = field(default_factory=list)
    facets: list[tuple[str, ...]] = field(default_factory=list)
    is_by_date: bool = False
    group_size: int = MAX_LIFTED

    @property
    def reads_hits(self) -> bool:
        """Whether a search by words alone has to read hits to lift or sort them."""
        return bool(self.phrases or self.period_ids or self.facets or self.is_by_date)


def plan_lifts(
    query: SearchQuery, postings: SearchPostings, scores: Mapping[str, float]
) -> LiftPlan:
    """Plan what to read for the lifts of a question.

    Args:
        postings: The postings of the question's terms, and of the months of its period.
        scores: The BM25 score of each document that has words of the question.
    """
    phrases = find_phrases(query.text) if query.is_lexical else []
    phrase_ids = {name for phrase in phrases for name in _list_candidates_of(phrase, postings)}
    if query.understanding is None:
        return LiftPlan(phrases, phrase_ids)
    months = query.period_months
    ids = _list_ids_of_period(query.understanding.period, months, postings, scores)
    groups = [
        tuple(
            facet.id
            for facet in find_author_facets(
                query.text, postings.terms if query.is_lexical else None
            )
        ),
        # The words choose among the documents of a long period, and so does meaning.
        tuple(month.id for month in months) if len(ids) > MAX_LIFTED else (),
    ]
    facets = [group for group in groups if group]
    size = MAX_LIFTED // ((len(facets) + bool(ids)) or 1)
    return LiftPlan(
        phrases, phrase_ids, ids[:size], facets, query.understanding.order is not None, size
    )


def _list_candidates_of(phrase: str, postings: SearchPostings) -> set[str]:
    """Return the ids of the documents that have all words of a phrase but its stop words."""
    entries = [
        postings.terms[term].entries.keys() if term in postings.terms else set[str]()
        for term in terms(phrase)
    ]
    return set.intersection(*map(set, entries)) if entries else set()


def _list_ids_of_period(
    period: DateSpan | None,
    months: Iterable[Facet],
    postings: SearchPostings,
    scores: Mapping[str, float],
) -> list[str]:
    """Return the ids of the documents of a period: those with the best scores, then the newest."""
    if period is None:
        return []
    moments = period.microseconds
    dates = {
        document_id: date
        for month in months
        if month in postings.facets
        for document_id, date in postings.facets[month].entries.items()
        if date in moments
    }
    return sorted(
        dates,
        key=lambda document_id: (-scores.get(document_id, 0.0), -dates[document_id], document_id),
    )


@dataclass(frozen=True, slots=True)
class Lifts:
    """What a question lifts.

    Attributes:
        phrases: The phrases that the question quotes.
        authors: The authors of candidates whom the question names, each with whether it names them
            in full.
        period: The days that the question names, or None if no candidate is of them.
        date_phrase: The words that name these days, as a text may have them. Empty if they mean
            other days in a text, such as `last week`, or no days at all.
        subject: The rest of the question, without what is understood of it.
        order: The order by date in which documents come, or None.
    """

    phrases: Sequence[str]
    authors: Mapping[str, bool]
    period: DateSpan | None
    date_phrase: str
    subject: str
    order: DateOrder | None

    def apply(
        self, hits: Sequence[Candidate[DocumentT]]
    ) -> tuple[tuple[Candidate[DocumentT], ...], tuple[str, ...]]:
        """Raise the hits that the question lifts, and return the phrases that no hit has.

        Args:
            hits: The hits, best first. Those that have not been read are not lifted.
        """
        present_phrases: set[str] = set()
        tiers: defaultdict[int, list[Candidate[DocumentT]]] = defaultdict(list)
        for hit in hits:
            phrases = self._find_phrases(hit.document) if hit.document else []
            present_phrases.update(phrases)
            tiers[len(phrases) + self._count_other_lifts(hit)].append(hit)
        first_tier = max(tiers, default=0)
        # Each score is more than twice those of the tier below, so that the turns of sources
        # (see `shared.search.fusion`) do not mix tiers.
        step = 1 + 2 * max((hit.score for hit in hits), default=0.0)
        lifted: list[Candidate[DocumentT]] = []
        for count, tier in sorted(tiers.items(), reverse=True):
            ordered = self._sort_by_date(tier) if count == first_tier else tier
            lifted += [
                replace(
                    hit,
                    score=hit.score + step * (3**count - 1),
                    is_lifted=0 < count == first_tier,
                )
                for hit in ordered
            ]
        absent = tuple(phrase for phrase in self.phrases if phrase not in present_phrases)
        return tuple(lifted), absent

    def _find_phrases(self, document: Searchable) -> list[str]:
        return [phrase for phrase in self.phrases if has_phrase(document.indexed_text, phrase)]

    def _count_other_lifts(self, hit: Candidate[DocumentT]) -> int:
        """Count the author and the period, which lifts a hit only if it is on the subject, too."""
        document = hit.document
        if document is None:
            return 0
        may_be_on_subject = not self.subject or hit.evidence >= _MIN_SUBJECT_EVIDENCE
        is_of_period = self.period and _is_of_period(document, self.period, self.date_phrase)
        return (document.author in self.authors) + bool(is_of_period and may_be_on_subject)

    def _sort_by_date(self, hits: list[Candidate[DocumentT]]) -> list[Candidate[DocumentT]]:
        """Put the newest or oldest good hits first, if the question asks for an order by date.

        All hits are good if there is no subject by which they could be better or worse.
        """
        is_lifted = bool(self.authors or self.period)
        if not self.order and (self.subject or not is_lifted):
            return hits
        min_score = GOOD_SHARE * hits[0].score if self.subject else 0.0
        good_hits = [hit for hit in hits if hit.score >= min_score]
        good_hits.sort(key=partial(_make_date_key, order=self.order))
        return [*good_hits, *(hit for hit in hits if hit.score < min_score)]


def find_lifts(
    query: SearchQuery, phrases: Sequence[str], candidates: Sequence[Candidate[DocumentT]]
) -> Lifts:
    """Find what a question lifts among the candidates that have been read."""
    understanding = query.understanding
    if understanding is None:
        return Lifts(phrases, {}, None, "", query.text, None)
    documents = [(hit.document, hit.terms) for hit in candidates if hit.document]
    authors = find_named_authors(
        query.text, [(document.author, words) for document, words in documents]
    )
    period, dates = understanding.period, understanding.dates
    date_phrase = dates if _ABSOLUTE_DATE.search(dates) else ""
    if period and not any(
        _is_of_period(document, period, date_phrase) for document, _ in documents
    ):
        period = None
    subject = understanding.subject
    if period is None:
        subject = f"{subject} {dates}".strip()
    for author in authors:
        subject = find_subject(remove_name(subject, author))
    return Lifts(phrases, authors, period, date_phrase, subject, understanding.order)


def _is_of_period(document: Searchable, period: DateSpan, date_phrase: str) -> bool:
    """Return whether a document is dated within a period, or its text names the period."""
    if document.dated_at and document.dated_at in period:
        return True
    return bool(date_phrase) and has_phrase(document.indexed_text, date_phrase)


_ABSOLUTE_DATE: Final = re.compile(r"\w\W+(?:19|20)\d\d|(?:19|20)\d\d(?:\W+|年)\w")
"""A year beside another word of a date."""


def _make_date_key(hit: Candidate[DocumentT], order: DateOrder | None) -> float:
    """Return the sort key of a hit: newest first by default, those without a date last."""
    date = hit.document.dated_at if hit.document else None
    if date is None:
        return math.inf
    return date.timestamp() if order is DateOrder.OLDEST else -date.timestamp()
