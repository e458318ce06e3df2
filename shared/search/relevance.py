"""Decides whether any hit answers the query, and weighs similarity against BM25.

Every ranking has a first hit, whether or not it answers the query. Scores are normalised within the
ranking, so they cannot tell. Two other measures of a hit can: its similarity and its coverage,
which is the share of the query's information that the hit contains. A word's information is its
idf, so a word that occurs in no document counts most. A hit matches

- in a hybrid search, if it contains all words of the query, or if
  `similarity + coverage_weight * coverage` reaches `min_weighted_sum`, so that either measure can
  make up for the other,
- in a semantic search, if the similarity reaches `min_similarity`,
- in a lexical search, if the coverage reaches the result of `compute_min_coverage`.

For a question to a base in English alone, the constants were chosen for few false alarms on one
half of the training data, the tuning half. The table lists the errors with the local embedder, in
per cent of the queries in the confirmation half, and in brackets those in the tuning half.

| | base | hybrid | semantic | lexical |
|---|---|---|---|---|
| false alarms: “nothing matches”, but something does | | | | |
| claims | SciFact, 5,183 chunks | 0.7 (0.5) | 0.0 (0.0) | 2.3 (2.7) |
| three words of a claim, answer in the first ten | SciFact | 2.1 (2.7) | 1.0 (2.6) | 0.4 (0.3) |
| claims | 64 chunks of SciFact | 3.1 (2.8) | 3.1 (2.1) | 2.3 (2.5) |
| questions | the sample, 68 chunks | 0.0 (0.0) | 0.0 (3.3) | 0.0 (0.0) |
| misses: nothing can answer, but something seems to | | | | |
| other domains | SciFact | 13 (21) | 22 (29) | 51 (58) |
| software | SciFact | 40 (28) | 40 (30) | 78 (74) |
| other domains | 64 of SciFact | 0.6 (0.2) | 0.8 (0.6) | 53 (53) |
| claims about other biology | 64 of SciFact | 65 (68) | 82 (84) | 83 (83) |
| other domains | the sample | 3.8 (1.3) | 7.7 (2.6) | 54 (55) |
| claims | the sample | 0.3 (0.5) | 2.0 (3.1) | 8.7 (8.3) |
| software the sample does not treat | the sample | 10 (5) | 15 (25) | 70 (70) |

So the lack of an answer is mostly recognised if the query is far from the base's subjects, but not
if it is near them, and seldom in a lexical search. The numbers are the same for the 30, 50 or 100
nearest candidates. The confirmation half was used once. It ruled out one minimum coverage for
bases of all sizes (23 false alarms in 100 with 64 chunks), so a minimum that grows with the base
was then chosen on the tuning half.

Four other signals were tried:

- how far the best similarity exceeds the mean of the candidates: no gain;
- the best similarity plus the best coverage, even of different hits: worse (42 instead of 28 misses
  in 100 for software);
- thresholds that depend on the number of words: a small gain in lexical searches;
- BM25 divided by the idf of the whole query: equal to coverage, but low for a single mention in a
  long passage.

In a base in several languages, the multilingual half of the vectors counts, too. Its similarities
are lower and less telling. A passage in another language than an English question needs less
similarity. The constants were chosen on three bases: both halves of `benchmarks.everyday`; its
`household` base, which has easier questions and 86 without an answer, two thirds of them near the
base's subjects; and XQuAD, with 240 paragraphs in five languages and 711 questions. The table lists
the errors of hybrid searches in per cent.

| | everyday | household | XQuAD |
|---|---|---|---|
| false alarms | 15 | 14 | 4 |
| misses | 23 | 43 | |

If the right passage is ranked first, 10, 9 and 2 per cent of the questions are false alarms.

Easier questions have more evidence, and so do questions near the base's subjects. No signal removed
that difference between bases. The following were tried, on questions with an answer and on the same
questions without the passages that contain it:

- how far the best similarity exceeds the fourth, the tenth, the 26th or the mean of the nearest,
  also in units of their deviation;
- the results for 58 questions about nothing in the base;
- the number of words;
- similarity and coverage of different hits;
- other weights of the halves.

With each of them, a threshold was chosen on all bases but one. On that one, it was no better than a
threshold on similarity and coverage. Three more signals gained a little on one base and lost on
another: coverage without function words, the multilingual half alone for passages in other
languages, and the embeddings of single words.

Each hit is judged separately. It answers if it has all words of the query or something that the
query lifts, such as its author. It also answers if its evidence is at least `MIN_EVIDENCE` and at
most `MAX_GAP` below the best. Both constants were fitted on the tuning half, where 4.0 passages
answer a question on average, and 1.7 per cent of the 118 right passages fall below the threshold;
with a gap of 0.12, 4.2 per cent would. In the reported half, 9.4 per cent of the 117 right passages
fall below. A quarter of these are still shown as near, because they are among the two with the
most evidence.

A query without any letter of a script that the model reads, such as an emoji or a Greek word, is
judged by its words alone.

To measure again: `python -m benchmarks.relevance` and `python -m benchmarks.everyday`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import regex

from shared.ai.embedding import Purpose
from shared.ai.vector_halves import TWO_HALVES
from shared.index.bm25 import idf
from shared.search.fusion import DENSE_WEIGHT
from shared.text.language import is_foreign

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from shared.index.bm25 import Postings, Totals
    from shared.index.searchable import Searchable

_CHANCE_COVERAGE: Final = 0.035
"""The minimum coverage, in units of the idf of a word that occurs in no document. It is just below
the third percentile of the best hits of training claims: 0.039 among 64 abstracts, 0.036 among 500
and among 5,183."""

MIN_EVIDENCE: Final = -0.09
"""The minimum evidence of a hit that answers. Fitted with `MAX_GAP`; see the module's docstring."""
MAX_GAP: Final = 0.15
"""A hit answers if its evidence is at most this much below the best."""
MAX_NEAR: Final = 2
"""The maximum number of hits that are shown though they do not answer."""

_FULL_COVERAGE: Final = 1 - 1e-9
"""The coverage of a hit that contains all words of the query, allowing for rounding errors."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds above which an embedder's similarities indicate a match.

    Attributes:
        min_similarity: The minimum similarity if the coverage is not known.
        min_weighted_sum: The minimum sum of similarity and weighted coverage.
        coverage_weight: The weight of the coverage in that sum.
        foreign_factor: What the similarity of a passage in another language than English is
            multiplied by, because the English half of the vectors says nothing about it.
    """

    min_similarity: float
    min_weighted_sum: float
    coverage_weight: float
    foreign_factor: float = 1.0


MINILM: Final = Calibration(min_similarity=0.28, min_weighted_sum=0.365, coverage_weight=0.3)
"""The calibration of all-MiniLM-L6-v2, quantised, with 256 tokens. The measurements are in the
module's docstring."""

MIXED: Final = Calibration(
    min_similarity=0.23, min_weighted_sum=0.28, coverage_weight=0.2, foreign_factor=1.3
)
"""The calibration of both halves of the local model's vectors, for questions in English."""
MULTILINGUAL: Final = Calibration(min_similarity=0.23, min_weighted_sum=0.24, coverage_weight=0.2)
"""The calibration of the multilingual half, for questions in other languages."""

DEFAULT_CALIBRATION: Final = Calibration(
    min_similarity=0.1, min_weighted_sum=0.1, coverage_weight=1 / 3
)
"""The calibration of models whose similarities were not measured. The similarity of unrelated texts
is 0.0 with one model and 0.7 with another. So a hit is rejected only if its similarity is low by
the standard of any model and its coverage is below 0.3."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to interpret the similarities of an embedding model.

    Attributes:
        dense_weight: The weight of similarity, from 0 to 1; BM25 has the rest.
        noise: The range of the similarities of texts that are unrelated to the query.
        scripts: The scripts that the model can read, or none if it reads all.
        trusted_coverage: From this coverage of the best hit on, words have their full weight. Where
            passages are in several languages, few words may hide the right one in another: of 271
            questions across languages, 60 % are answered first at 0.4, and 66 % at 0.6.
    """

    dense_weight: float
    calibration: Calibration
    noise: float = 0.0
    scripts: Sequence[str] = ()
    trusted_coverage: float = 0.4

    def can_read(self, text: str) -> bool:
        """Return whether the model can read any of a text. If not, all similarities are noise."""
        patterns = [rf"\p{{{script}}}" for script in self.scripts]
        return not patterns or bool(regex.search("|".join(patterns), text))

    def trust_words(self, coverage: float) -> Tuning:
        """Return the tuning for a query of which the best hit covers this share.

        Words that cover less than `trusted_coverage` count less, in proportion.
        """
        trust = min(1.0, coverage / self.trusted_coverage)
        return replace(self, dense_weight=1 - (1 - self.dense_weight) * trust)


_DEFAULT_TUNING: Final = Tuning(dense_weight=DENSE_WEIGHT, calibration=DEFAULT_CALIBRATION)
_MULTILINGUAL_SCRIPTS: Final = (
    *("Latin", "Cyrillic", "Arabic", "Han", "Hiragana", "Katakana", "Hangul", "Thai"),
)
_TUNINGS_OF_HALVES: Final = {
    Purpose.ENGLISH_QUERY: Tuning(DENSE_WEIGHT, MINILM, 0.3, ("Latin",)),
    Purpose.QUERY: Tuning(DENSE_WEIGHT, MIXED, 0.2, _MULTILINGUAL_SCRIPTS, 0.6),
    Purpose.FOREIGN_QUERY: Tuning(DENSE_WEIGHT, MULTILINGUAL, 0.2, _MULTILINGUAL_SCRIPTS, 0.6),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence that a hit matches.

    Attributes:
        similarity: Cosine similarity of query and hit. None in a lexical search, or if the hit
            has no vector yet.
        coverage: The share of the query's information that the hit contains. None in a semantic
            search, if the hit's words are not indexed yet, or if the query has no words.
        document: The hit, whose text tells its language. None if it was not read.
    """

    similarity: float | None
    coverage: float | None
    document: Searchable | None = None


def compute_information(
    query: Iterable[str], postings: Mapping[str, Postings], totals: Totals
) -> dict[str, float]:
    """Return the information of each query term: its idf times its occurrences in the query.

    Args:
        query: The query's terms, repeats included.
        postings: The terms' postings, without those of terms that occur in no document.
    """
    return {
        term: occurrences * idf(postings[term].df if term in postings else 0, totals.documents)
        for term, occurrences in Counter(query).items()
    }


def compute_coverage(
    information: Mapping[str, float], document_terms: Container[str]
) -> float | None:
    """Return the share of a query's information that a document contains, 0 to 1.

    Args:
        information: The information of each term of the query.

    Returns:
        The share, or None if the query has no information because it consists of stop words.
    """
    total = sum(information.values())
    if not total:
        return None
    return sum(value for term, value in information.items() if term in document_terms) / total


def compute_min_coverage(documents: int) -> float:
    """Return the minimum coverage of a match in a lexical search.

    The minimum grows with the corpus: the more documents there are, the more of the query one of
    them contains by chance.
    """
    return _CHANCE_COVERAGE * idf(0, documents)


def measure_evidence(hit: Evidence, calibration: Calibration, documents: int) -> float:
    """Return by how much a hit exceeds what a match takes: 0 or more if it matches.

    The unit is that of similarities or, if that is not known, that of coverages.
    """
    if hit.similarity is None:
        return (hit.coverage or 0.0) - compute_min_coverage(documents)
    if hit.coverage is None:
        covered = -calibration.min_similarity
    else:
        covered = calibration.coverage_weight * hit.coverage - calibration.min_weighted_sum
    evidence = hit.similarity + covered
    if_foreign = hit.similarity * calibration.foreign_factor + covered
    # Only where it decides, because recognizing a language takes time.
    if (
        if_foreign > max(evidence, MIN_EVIDENCE)
        and hit.document is not None
        and is_foreign(hit.document.indexed_text)
    ):
        evidence = if_foreign
    has_all_words = hit.coverage is not None and hit.coverage >= _FULL_COVERAGE
    return max(0.0, evidence) if has_all_words else evidence


def find_answer_threshold(evidence: Iterable[float], minimum: float = MIN_EVIDENCE) -> float:
    """Return the minimum evidence of a hit that answers, given the evidence of all hits."""
    return max(minimum, max(evidence, default=0.0) - MAX_GAP)


def get_tuning(model: str, purpose: Purpose) -> Tuning:
    """Return the tuning of a model for queries, or a cautious one if it was not measured."""
    return _TUNINGS_OF_HALVES[purpose] if model == TWO_HALVES else _DEFAULT_TUNING
