"""Duplicates: whether two extractions of a type say the same.

The same question answered otherwise is none, and neither is the same procedure for something else:
taking it for one hides what somebody wrote, so a doubt counts against it. Two are duplicates if

- the cosine of their vectors reaches what was measured for the embedding model, and
- what they answer (the approach recommended, the solution, the description, the titles of the
  steps) has a resemblance of at least 0.25 in its terms: `shared.text.terms`.

Either alone fails. With all-MiniLM-L6-v2, “which latency goes on the wall? The 99th percentile” and
“... The median” have a cosine of 0.84, more than most that are told anew; and “renaming a column”
and “splitting a table” share most of their steps. Called duplicates, of pairs around the 66
extractions of the sample:

| | all | cosine of 0.8 | 0.25 of the terms | both |
|---|---|---|---|---|
| told anew in other words | 40 | 14 | 37 | 14 |
| made to be confused: another answer, another matter | 62 | 5 | 9 | 0 |
| of the sample, of one type | 522 | 0 | 0 | 0 |

Of what is made to be confused, no pair with 0.25 of the terms has a cosine above 0.77, and none
with a cosine of 0.8 has more than 0.21 of the terms. The rule was chosen on these pairs. Told anew,
two extractions have a cosine of 0.50 to 0.90 (median 0.78): those it finds are such as the same
model makes of the same words in another source, and most that two authors say in their own are left
apart. Every model has another scale: one that was not measured needs 0.9.

To measure again: `python -m benchmarks.extraction_duplicates`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.extractions.model import Content, Decision, Extraction, Methodology, Pattern, Pitfall
from shared.text.terms import resemblance, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.ai.embedding import Vector

    Embedded = tuple[Extraction, Vector]
    Similar = tuple[Extraction, float]
    """An extraction, and the cosine of its vector with another one's."""

CANDIDATES: Final = 5
"""How many of the nearest extractions are worth comparing."""

_UNMEASURED: Final = 0.9
_MEASURED: Final = {"all-MiniLM-L6-v2-onnx-int8": 0.8}
_SAME_ANSWER: Final = 0.25
_DECIMALS: Final = 6
"""Of a similarity: the database computes it in another way than we do."""


def least_similarity(model: str) -> float:
    """The cosine from which on two extractions may say the same, by this embedding model."""
    return _MEASURED.get(model, _UNMEASURED)


def resemblance_of(one: Content, other: Content) -> float:
    """How much two contents of a type share of what they answer, 0 to 1.

    An answer of common words alone, such as “No.”, has no terms: it is like the same answer.
    """
    answers = _answer(one), _answer(other)
    if answers[0].casefold().split() == answers[1].casefold().split():
        return 1.0
    return resemblance(*(frozenset(terms(each)) for each in answers))


def similar(new: Embedded, others: Iterable[Embedded]) -> list[Similar]:
    """Other extractions, each with its similarity to this one."""
    return [
        (other, sum(a * b for a, b in zip(new[1], vector, strict=True))) for other, vector in others
    ]


def original_of(new: Extraction, others: Iterable[Similar], model: str) -> Extraction | None:
    """The one among others that says the same, the closest if several do.

    Args:
        new: What may be a duplicate.
        others: What it may repeat.
        model: The embedding model.
    """
    least = least_similarity(model)
    alike = [
        (round(similarity, _DECIMALS), other.extraction_id, other)
        for other, similarity in others
        if other.type is new.type
        and similarity >= least
        and resemblance_of(other.content, new.content) >= _SAME_ANSWER
    ]
    return max(alike, key=lambda each: each[:2])[2] if alike else None


def distinct(made: Sequence[Embedded], model: str) -> list[Embedded]:
    """Those of one passage that say different things: of two that say the same, the surer one."""
    kept: list[Embedded] = []
    for each in sorted(made, key=lambda pair: -pair[0].confidence):
        if original_of(each[0], similar(each, kept), model) is None:
            kept.append(each)
    ids = {extraction.extraction_id for extraction, _ in kept}
    return [each for each in made if each[0].extraction_id in ids]


def _answer(content: Content) -> str:
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
