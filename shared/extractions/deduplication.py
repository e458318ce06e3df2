"""Finds duplicates: extractions of one type that make the same statement.

An extraction is a decision, pattern, warning or methodology found in a passage. A different answer
to the same question is not a duplicate, nor is the same procedure for a different purpose. A false
positive hides what an author wrote, so the rule is strict. Two extractions are duplicates if

- the cosine of their vectors reaches a threshold measured for the embedding model, and
- their answers (the recommended approach, the solution, the description, the titles of the steps)
  share at least 0.25 of their terms (`shared.text.terms`), and
- neither corrects the other: numbers and negations are equal, and the same words are in the same
  order (`shared.text.corrections`).

Neither of the first two is enough alone. With all-MiniLM-L6-v2, “which latency goes on the wall?
The 99th percentile” and “... The median” have a cosine of 0.84, more than most paraphrases;
“renaming a column” and “splitting a table” share most of their steps. The 66 extractions of the
sample and their variants form pairs that meet the conditions this often:

| pairs | all | cosine of 0.8 | 0.25 of the terms | both | and no correction |
|---|---|---|---|---|---|
| paraphrases | 40 | 14 | 37 | 14 | 8 |
| confusable: another answer or another subject | 62 | 5 | 9 | 0 | 0 |
| all pairs of one type in the sample | 522 | 0 | 0 | 0 | 0 |

No confusable pair that shares 0.25 of its terms has a cosine above 0.77, and none with a cosine of
0.8 shares more than 0.21. The first two conditions were chosen on these pairs, but none of the
pairs is a correction, such as “Use retries” and “Do not use retries”, which meets both. The third
one costs six paraphrases, because it is better to show a statement twice than to hide its
correction. Paraphrases have a cosine of 0.50 to 0.90 (median 0.78). So the rule recognizes what one
model extracts from the same words in two sources, but misses most statements that two authors
express differently. Models scale similarity differently, so one that was not measured needs a
cosine of 0.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from shared.ai.vector_halves import ENGLISH, TWO_HALVES, weigh
from shared.extractions.model import Content, Decision, Extraction, Methodology, Pattern, Pitfall
from shared.text.corrections import may_correct
from shared.text.folding import fold_text
from shared.text.terms import compute_resemblance, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.ai.embedding import Vector

MAX_CANDIDATES: Final = 5
"""An extraction is compared with at most this many of its nearest neighbours, because duplicates
are among the very nearest."""

_DEFAULT_SIMILARITY: Final = 0.9
"""The minimum cosine of duplicates with a model that was not measured."""
_MEASURED_SIMILARITIES: Final = {TWO_HALVES: 0.8}
"""The minimum cosine of duplicates by model, of the English half where there are two."""
_MIN_RESEMBLANCE: Final = 0.25
"""The answers of duplicates share at least this much of their terms."""
_DECIMALS: Final = 6
"""Similarities are rounded to this many decimals. The database and this module compute them
differently, and the difference must not decide which extraction is the original."""


class EmbeddedExtraction(NamedTuple):
    """An extraction and its vector."""

    extraction: Extraction
    vector: Vector


class SimilarExtraction(NamedTuple):
    """An extraction, and the cosine of its vector with that of another extraction."""

    extraction: Extraction
    similarity: float


def get_min_similarity(model: str) -> float:
    """Return the minimum cosine of two duplicates, which depends on the embedding model."""
    return _MEASURED_SIMILARITIES.get(model, _DEFAULT_SIMILARITY)


def compute_answer_resemblance(first: Content, second: Content) -> float:
    """Return which share of their terms the answers of two contents have in common, from 0 to 1.

    An answer of only common words, such as “No.”, has no terms and resembles only itself.
    """
    first_answer, second_answer = _get_answer(first), _get_answer(second)
    if fold_text(first_answer) == fold_text(second_answer):
        return 1.0
    return compute_resemblance(frozenset(terms(first_answer)), frozenset(terms(second_answer)))


def compute_similarities(
    new: EmbeddedExtraction, others: Iterable[EmbeddedExtraction], model: str
) -> list[SimilarExtraction]:
    """Return the other extractions with their similarities to `new`."""
    vector = weigh(new.vector, model, ENGLISH)
    return [
        SimilarExtraction(
            other.extraction, vector.to_similarity(vector.measure_distance(other.vector))
        )
        for other in others
    ]


def find_original(
    new: Extraction, others: Iterable[SimilarExtraction], model: str
) -> Extraction | None:
    """Return the most similar extraction that `new` duplicates, or None.

    If several are equally similar, the one with the highest id is returned, so that the result does
    not depend on the order.
    """
    threshold = get_min_similarity(model)
    originals = [
        (round(similarity, _DECIMALS), other.extraction_id, other)
        for other, similarity in others
        if other.type is new.type
        and similarity >= threshold
        and compute_answer_resemblance(other.content, new.content) >= _MIN_RESEMBLANCE
        and not may_correct(other.content.text, new.content.text)
        # A paraphrased question hides the order of the words in the answers.
        and not may_correct(_get_answer(other.content), _get_answer(new.content))
    ]
    return max(originals, key=lambda original: original[:2])[2] if originals else None


def drop_duplicates(
    extractions: Sequence[EmbeddedExtraction], model: str
) -> list[EmbeddedExtraction]:
    """Return a passage's extractions without duplicates, in the same order.

    Of the extractions that duplicate each other, the one with the highest confidence is kept.
    """
    unique: list[EmbeddedExtraction] = []
    for embedded in sorted(extractions, key=lambda item: -item.extraction.confidence):
        similarities = compute_similarities(embedded, unique, model)
        if find_original(embedded.extraction, similarities, model) is None:
            unique.append(embedded)
    ids = {embedded.extraction.extraction_id for embedded in unique}
    return [embedded for embedded in extractions if embedded.extraction.extraction_id in ids]


def _get_answer(content: Content) -> str:
    """Return the part of a content that says what to do, without the question or the name."""
    match content:
        case Decision():
            return content.recommended_approach or " ".join(content.options)
        case Pattern():
            return content.solution
        case Pitfall():
            return content.description
        case Methodology():
            return " ".join(step.title for step in content.steps)
        case _:
            return content.text
