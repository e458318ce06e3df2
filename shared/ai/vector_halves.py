"""The halves of the local model's vectors: one for English, one for texts of any language.

A stored vector joins the unit vectors of both halves, each divided by √2, so that its length is 1.
Whoever compares it with another vector chooses how much each half counts. The vectors of all other
models are whole, and weights do not change them.

| compared with stored vectors | English half | multilingual half |
|---|---|---|
| a query in English, while all texts are in English | 1 | 0 |
| a query in English | 1 | 2 |
| a query in another language | 0 | 1 |
| passages: clusters, the map, related passages, near notes | 0 | 1 |
| related passages that are both in English | 2 | 1 |
| extractions and traces: duplicates | 1 | 0 |

To measure weights again: `python -m benchmarks.halves`. At 1 : 2, 19 of 20 English questions rank
their German passage first, and all 20 their English one; at 1 : 0, they are 6 and 20, and at 0 : 1,
19 and 19. English texts alone are found best by the English half: the nDCG@10 of
SciFact's training claims by similarity is 0.661 with 1 : 0, 0.654 with 1 : 1, 0.617 with 1 : 2 and
0.429 with 0 : 1. In both bases of `benchmarks.everyday`, 1 : 1 ranks the right passage first for 61
per cent of the questions about passages in another language, instead of 70, and for 83 per cent of
the others, instead of 82.

These thresholds belong to the halves:

| threshold | half | fitted by |
|---|---|---|
| `shared.search.relevance`: the calibrations | by query | `benchmarks.relevance`, `.everyday` |
| `shared.writer.note_duplicates`: near notes | multilingual | `benchmarks.halves` |
| `shared.knowledge.chunk_repository`: related passages | both | 78 passages, by hand |
| `shared.extractions.deduplication`: duplicates | English | the table there |

The thresholds of clusters adapt to the stored vectors, so they hold for any model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from shared.ai.embedding import Purpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector

TWO_HALVES: Final = "all-MiniLM-L6-v2-onnx-int8+use-multilingual-v3"
"""The only model whose vectors have two halves."""
ENGLISH_DIMENSION: Final = 384
MULTILINGUAL_DIMENSION: Final = 512


class Weights(NamedTuple):
    """How much each half of a vector counts. Only their ratio matters."""

    english: float
    multilingual: float


ENGLISH: Final = Weights(1, 0)
MULTILINGUAL: Final = Weights(0, 1)
QUERY_WEIGHTS: Final = {
    Purpose.QUERY: Weights(1, 2),
    Purpose.ENGLISH_QUERY: ENGLISH,
    Purpose.FOREIGN_QUERY: MULTILINGUAL,
}


@dataclass(frozen=True, slots=True)
class WeightedVector:
    """A vector to compare stored vectors with, whose halves may have different weights.

    Attributes:
        values: A unit vector.
        scale: The factor that turns its cosine with a stored vector into their similarity, which is
            the weighted mean of the cosines of the halves.
    """

    values: Vector
    scale: float = 1.0

    def measure_distance(self, stored: Sequence[float]) -> float:
        """Return the cosine distance of a stored vector, from 0 to 2, as the database measures."""
        cosine: float = sum(map(mul, self.values, stored))
        return 1.0 - cosine

    def to_similarity(self, distance: float) -> float:
        """Return the similarity at a cosine distance, from 0 to 1. A negative one becomes 0."""
        return min(1.0, max(0.0, self.scale * (1.0 - distance)))

    def to_distance(self, similarity: float) -> float:
        """Return the cosine distance at a similarity."""
        return 1.0 - similarity / self.scale


def join_halves(english: Sequence[float], multilingual: Sequence[float]) -> Vector:
    """Join the vectors of two halves, each of which has length 1 or is zero, to a unit vector."""
    length = math.hypot(*english, *multilingual)
    return tuple(value / length for value in (*english, *multilingual))


def weigh(vector: Vector, model: str, weights: Weights) -> WeightedVector:
    """Weigh the halves of a vector that a model made. A half of weight 0 may be all zeros."""
    if model != TWO_HALVES:
        return WeightedVector(vector)
    english, multilingual = vector[:ENGLISH_DIMENSION], vector[ENGLISH_DIMENSION:]
    factors = [
        weight / math.hypot(*half) if weight else 0.0
        for half, weight in zip((english, multilingual), weights, strict=True)
    ]
    length = math.hypot(*weights)
    values = (
        *(value * factors[0] / length for value in english),
        *(value * factors[1] / length for value in multilingual),
    )
    return WeightedVector(values, math.sqrt(2) * length / sum(weights))
