"""Vectors are stored compactly, as numbers of two bytes, and nearly keep their cosines."""

import math
import random

import pytest

from shared.ai.vector_halves import WeightedVector
from shared.index.stored_vector import from_compact, to_compact
from shared.index.vector_index import compare
from shared.workspaces.model import WorkspacePassage


def make_random_vector(source: random.Random, dimension: int) -> tuple[float, ...]:
    numbers = [source.gauss(0, 1) for _ in range(dimension)]
    return tuple(number / math.hypot(*numbers) for number in numbers)


@pytest.mark.parametrize("dimension", [384, 768])
def test_cosines_of_compact_vectors_are_nearly_exact(dimension: int) -> None:
    """The compared vectors reach from a random one to the query itself."""
    source = random.Random(20261123)  # noqa: S311 - no secret
    query = make_random_vector(source, dimension)
    for percentage in range(101):
        other_vector = make_random_vector(source, dimension)
        mixture = [
            percentage * a + (100 - percentage) * b
            for a, b in zip(query, other_vector, strict=True)
        ]
        vector = [number / math.hypot(*mixture) for number in mixture]
        cosine = sum(a * b for a, b in zip(query, vector, strict=True))
        neighbour = compare(
            WorkspacePassage("p", 1, 0, 1, "x", {}, 0),
            WeightedVector(query),
            from_compact(to_compact(vector)),
        )
        assert 1 - neighbour.distance == pytest.approx(cosine, abs=0.0002)


def test_a_compact_vector_takes_two_bytes_a_number() -> None:
    assert to_compact([0.5, -1.0]) == b"\x00\x38\x00\xbc"
    assert from_compact(b"\x00\x38\x00\xbc") == (0.5, -1.0)
