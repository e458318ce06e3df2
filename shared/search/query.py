"""A search query, the candidates that may answer it, and their ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic

from shared.index.searchable import DocumentT
from shared.search.filter_plan import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.dates import DateSpan
    from shared.index.facets import Facet
    from shared.search.filter_plan import FacetFilter
    from shared.search.understanding import Understanding


class Mode(StrEnum):
    """How documents are found: by meaning, by words or by both."""

    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    LEXICAL = "lexical"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query in plain words, with filters.

    Attributes:
        mode: How documents are found: by meaning, by words or by both.
        dense_weight: The weight of similarity, from 0 to 1; BM25 has the rest. By default, the
            weight measured for the embedding model, or more if no hit covers much of the query.
        understanding: What the query says about time and order. None if it is only searched for.
        may_be_far: Whether the whole corpus may be unrelated to the query. If so, small differences
            in similarity count as noise, so that they do not outweigh matching words.
    """

    text: str
    mode: Mode
    selection: Selection
    dense_weight: float | None = None
    understanding: Understanding | None = None
    may_be_far: bool = False

    @property
    def is_semantic(self) -> bool:
        """Whether documents are found by meaning."""
        return self.mode is not Mode.LEXICAL

    @property
    def is_lexical(self) -> bool:
        """Whether documents are found by words."""
        return self.mode is not Mode.SEMANTIC

    @property
    def words(self) -> str:
        """The words to search for: the text without what is understood of its order."""
        return self.understanding.words if self.understanding else self.text

    @property
    def period(self) -> DateSpan | None:
        """The days that the query names, or None."""
        return self.understanding.period if self.understanding else None

    @property
    def period_months(self) -> list[Facet]:
        """The months of the days that the query names."""
        return Selection(span=self.period).months if self.period else []


@dataclass(frozen=True, slots=True)
class Candidate(Generic[DocumentT]):
    """A document to rank.

    Attributes:
        bm25: Its BM25 score, or 0 if it has none of the query's terms. In a hybrid search, words
            that are neighbours in the query and in the document add to it.
        terms: The query's terms that the document is known to contain.
        document: The document, which passes the filters; None if it has not been read yet. An
            unread document may have been deleted, or may fail the filters.
        similarity: Cosine similarity with the query. None if the two were not compared, or if the
            document has no vector yet.
        is_neighbour: Whether the vector search found the document.
        score: The score by which candidates are ranked; 0 until then.
        evidence: By how much it exceeds what a match takes (`measure_evidence`).
        has_all_words: Whether it has all words of the query's subject.
        is_lifted: Whether it has most of what the query lifts, and at least something.
        answers: Whether it is likely to answer the query, or part of it.
    """

    id: str
    bm25: float
    terms: frozenset[str]
    document: DocumentT | None = None
    similarity: float | None = None
    is_neighbour: bool = False
    score: float = 0.0
    evidence: float = -math.inf
    has_all_words: bool = False
    is_lifted: bool = False
    answers: bool = False


class Degradation(Enum):
    """Why a search did less than its mode requires."""

    EMBEDDING_UNAVAILABLE = auto()
    NOTHING_EMBEDDED = auto()
    REEMBEDDING = auto()
    SEMANTIC_TIMED_OUT = auto()
    LEXICAL_TIMED_OUT = auto()
    COMPARISON_TIMED_OUT = auto()

    @property
    def is_lexical_only(self) -> bool:
        """Whether documents were found by words alone, although meaning should count, too."""
        return self not in TIMEOUT_MESSAGES


TIMEOUT_MESSAGES: Final[Mapping[Degradation, str]] = MappingProxyType(
    {
        Degradation.LEXICAL_TIMED_OUT: "The search by words did not finish in time. Only meaning"
        " was searched.",
        Degradation.COMPARISON_TIMED_OUT: "Results found only by words could not be compared by"
        " meaning in time. Their order is less certain.",
    }
)
"""Messages for searches that timed out in part, although the vector search succeeded."""


@dataclass(frozen=True, slots=True)
class Ranking(Generic[DocumentT]):
    """The result of a search.

    Attributes:
        unknown: The filter values that no document has, each with its filter.
        degradation: Why the search did less than its mode requires, or None if it was complete.
        hits: Candidates with their scores, best first.
        matches: Whether any hit is likely to answer the query.
        truncated: Whether documents that pass the filters may be missing.
        is_exact: Whether the postings showed which documents pass the filters.
        absent_phrases: The phrases in quotation marks that no hit has.
        word_counts: The words of the query's subject, as written, each with the number of documents
            that have it.
        all_words_count: How many documents that pass the filters have all these words, or None if
            the postings do not show it.
        is_semantic: Whether texts were compared by meaning.
        is_multilingual: Whether texts in other languages than English were, too.
        authors: The authors of hits whom the query names.
        has_period: Whether a hit is of the period that the query names.
        hidden_count: The number of documents that have words of the query but are found only on
            request, as far as postings show.
    """

    terms: frozenset[str]
    documents: int
    unknown: tuple[tuple[FacetFilter, str], ...]
    degradation: Degradation | None
    hits: tuple[Candidate[DocumentT], ...]
    matches: bool
    truncated: bool
    is_exact: bool = True
    absent_phrases: tuple[str, ...] = ()
    word_counts: Mapping[str, int] = field(default_factory=dict)
    all_words_count: int | None = None
    is_semantic: bool = False
    is_multilingual: bool = False
    authors: tuple[str, ...] = ()
    has_period: bool = False
    hidden_count: int = 0

    @property
    def nearest(self) -> list[Candidate[DocumentT]]:
        """The hits that do not answer, those with the most evidence first."""
        hits = [hit for hit in self.hits if not hit.answers]
        return sorted(hits, key=lambda hit: -hit.evidence)

    @property
    def is_lexical_only(self) -> bool:
        """Whether documents were found by words alone, although meaning should count, too."""
        return self.degradation is not None and self.degradation.is_lexical_only

    @property
    def timeout_message(self) -> str | None:
        """The message about a half of the search that timed out, or None."""
        return TIMEOUT_MESSAGES.get(self.degradation) if self.degradation else None
