"""The similarity of a vector is the weighted mean of the cosines of the halves."""

import math

import pytest

from shared.ai.vector_halves import (
    ENGLISH_DIMENSION,
    MULTILINGUAL,
    MULTILINGUAL_DIMENSION,
    QUERY_WEIGHTS,
    TWO_HALVES,
    Weights,
    join_halves,
    weigh,
)


def make_vector(english: float, multilingual: float) -> tuple[float, ...]:
    """Make a vector whose halves have these angles with the first axis."""
    return join_halves(
        [math.cos(english), math.sin(english), *[0.0] * (ENGLISH_DIMENSION - 2)],
        [math.cos(multilingual), math.sin(multilingual), *[0.0] * (MULTILINGUAL_DIMENSION - 2)],
    )


QUERY = make_vector(0, 0)
STORED = make_vector(0.5, 1.2)


@pytest.mark.parametrize("weights", [*QUERY_WEIGHTS.values(), Weights(1, 1)])
def test_a_similarity_is_the_weighted_mean_of_cosines(weights: Weights) -> None:
    vector = weigh(QUERY, TWO_HALVES, weights)
    assert math.hypot(*vector.values) == pytest.approx(1)
    english, multilingual = weights
    mean = (english * math.cos(0.5) + multilingual * math.cos(1.2)) / (english + multilingual)
    distance = vector.measure_distance(STORED)
    assert vector.to_similarity(distance) == pytest.approx(mean)
    assert vector.to_distance(mean) == pytest.approx(distance)


def test_a_whole_vector_keeps_its_cosine() -> None:
    vector = weigh((0.6, 0.8), "other-model", MULTILINGUAL)
    assert vector.values == (0.6, 0.8)
    assert vector.to_similarity(vector.measure_distance((1.0, 0.0))) == pytest.approx(0.6)
    assert vector.to_similarity(vector.measure_distance((-1.0, 0.0))) == 0
