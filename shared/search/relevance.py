"""When nothing matches, and how much meaning weighs beside words.

Relevance: whether anything that was found can answer the query at all.

A ranking always has a first; its score, normalised within the ranking, says nothing beyond it. Two
things do, for each hit: its similarity, and its coverage, the share of the query's information
(idf; a word that no document holds counts most) that it holds. A hit matches

- if it holds all words of the query,
- else if `similarity + words * coverage` reaches `together`, so that one makes up for the other,
- where only meaning was looked for, if the similarity reaches a constant of its own,
- where only words were, if the coverage reaches `min_coverage`.

The constants are chosen on training data to give few false alarms. With the local embedder, in per
cent of the queries of the confirming half; in brackets the tuning half, which they were chosen on:

| | base | hybrid | semantic | lexical |
|---|---|---|---|---|
| false alarms: “nothing matches”, but something does | | | | |
| claims | SciFact, 5,183 chunks | 0.7 (0.5) | 0.0 (0.0) | 2.3 (2.7) |
| three words of a claim, answer in the first ten | SciFact | 2.1 (2.7) | 1.0 (2.6) | 0.4 (0.3) |
| claims | 64 chunks of SciFact | 3.1 (2.8) | 3.1 (2.1) | 2.3 (2.5) |
| questions | the sample, 68 chunks | 0.0 (0.0) | 0.0 (3.3) | 0.0 (0.0) |
| misses: nothing can answer, but something is taken to | | | | |
| other domains | SciFact | 13 (21) | 22 (29) | 51 (58) |
| software | SciFact | 40 (28) | 40 (30) | 78 (74) |
| other domains | 64 of SciFact | 0.6 (0.2) | 0.8 (0.6) | 53 (53) |
| claims about other biology | 64 of SciFact | 65 (68) | 82 (84) | 83 (83) |
| other domains | the sample | 3.8 (1.3) | 7.7 (2.6) | 54 (55) |
| claims | the sample | 0.3 (0.5) | 2.0 (3.1) | 8.7 (8.3) |
| software the sample does not treat | the sample | 10 (5) | 15 (25) | 70 (70) |

So it speaks up when a query is far from what the base treats, not when it is near and unanswered;
by words alone it can do little. A pool of the best 30, 50 or 100 by meaning gives the same. The
confirming half was used once: one least coverage for all sizes failed it on 64 chunks (23 false
alarms in 100), and the one that grows was then chosen on the tuning half.

What was tried: the best similarity's lead over the pool's mean gained nothing. The best similarity
and the best coverage of different hits, added, lost: 42 instead of 28 misses in 100 for software. A
dependence on the number of words gained a little by words alone. BM25 over the query's whole idf
did as well as coverage, but a lone mention in a long passage lowers it.

To measure again, and how to for another embedder: `python -m benchmarks.relevance`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.index.bm25 import idf
from shared.search.fusion import DENSE_WEIGHT

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from shared.index.bm25 import Postings, Totals

_BY_CHANCE: Final = 0.035
"""Coverage for each unit of the idf of a word that is in no document. For 97 in 100 training claims
the best hit has more: than 0.039 among 64 abstracts, 0.036 among 500, 0.036 among 5,183."""

_WHOLE: Final = 1 - 1e-9
"""All of it, however its parts were added up."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """From where on an embedder's similarities speak for a match.

    Attributes:
        similarity: What is enough where nothing is known of the words.
        together: What is enough of similarity and words together.
        words: What holding all the words of the query adds to the similarity; holding a part of
            their information adds that part of it.
    """

    similarity: float
    together: float
    words: float


MINILM: Final = Calibration(similarity=0.28, together=0.365, words=0.3)
"""For all-MiniLM-L6-v2, quantised, of 256 tokens: measured as above."""

UNMEASURED: Final = Calibration(similarity=0.1, together=0.1, words=1 / 3)
"""For models whose similarities nobody has measured. Unrelated texts have 0.0 with one model and
0.7 with another: only what is low with all of them speaks against a match, and only together with
a coverage below 0.3."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a hit.

    Attributes:
        similarity: Cosine similarity of query and hit; None where it is not known: only words were
            looked for, or the hit has no vector yet.
        coverage: The hit's `coverage`; None where it is not known: only meaning was looked for, the
            hit's words are not indexed yet, or the query has none.
    """

    similarity: float | None
    coverage: float | None


def term_information(
    query: Iterable[str], postings: Mapping[str, Postings], totals: Totals
) -> dict[str, float]:
    """What each term of a query says: its idf, times its repeats; most where no document holds it.

    Args:
        query: The query's terms, repeats included.
        postings: The lists of those terms that any document holds.
        totals: The collection.
    """
    return {
        term: repeats * idf(postings[term].df if term in postings else 0, totals.documents)
        for term, repeats in Counter(query).items()
    }


def coverage(information: Mapping[str, float], held: Container[str]) -> float | None:
    """The share of a query's information that a document holds, 0 to 1.

    Args:
        information: What each term of the query says.
        held: The document's terms.

    Returns:
        None where the query says nothing: it has stop words only.
    """
    total = sum(information.values())
    if not total:
        return None
    return sum(value for term, value in information.items() if term in held) / total


def anything_matches(hits: Iterable[Evidence], calibration: Calibration, documents: int) -> bool:
    """Tell whether any of the hits can answer the query, by both legs' evidence for the same hit.

    Pass the whole pool: the hit that shows it need not be the one that ranks first.

    Args:
        hits: What speaks for each of them.
        calibration: That of the embedder the similarities come from.
        documents: How many documents were searched.
    """
    return any(_matches(hit, calibration, documents) for hit in hits)


def min_coverage(documents: int) -> float:
    """What a hit must hold of a query's information where words are all there is to go by.

    The larger the base, the more of any query some document holds by chance.
    """
    return _BY_CHANCE * idf(0, documents)


def _matches(hit: Evidence, calibration: Calibration, documents: int) -> bool:
    if hit.similarity is None:
        return hit.coverage is not None and hit.coverage >= min_coverage(documents)
    if hit.coverage is None:
        return hit.similarity >= calibration.similarity
    together = hit.similarity + calibration.words * hit.coverage
    return hit.coverage >= _WHOLE or together >= calibration.together


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to use a model's similarities.

    Attributes:
        dense_weight: What a similarity counts for beside BM25, from 0 to 1.
        calibration: From where on it speaks for a match.
        noise: How far apart the similarities of texts lie that have nothing to do with a question.
    """

    dense_weight: float
    calibration: Calibration
    noise: float = 0.0


_DEFAULT: Final = Tuning(dense_weight=DENSE_WEIGHT, calibration=UNMEASURED)
_MEASURED: Final = {"all-MiniLM-L6-v2-onnx-int8": Tuning(DENSE_WEIGHT, MINILM, noise=0.3)}


def tuning(model: str) -> Tuning:
    """What was measured of this model; cautious values for one that was not."""
    return _MEASURED.get(model, _DEFAULT)
