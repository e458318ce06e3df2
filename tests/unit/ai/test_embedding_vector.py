"""All embedding providers check vectors and texts in the same way."""

import math

import pytest

from shared.ai.embedding import require_unicode, unit_vector
from shared.core.errors import InvalidInput, PlatformFault


def test_a_vector_is_scaled_to_length_one() -> None:
    assert unit_vector([3.0, -4.0], 2) == (0.6, -0.8)
    assert unit_vector([3e200, 4e200], 2) == pytest.approx((0.6, 0.8))  # too large to square


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *((values, "without a direction") for values in ([0.0, 0.0], [math.nan, 1], [math.inf, 1])),
        *((values, "numbers, not 2") for values in ([], [1.0], [1.0, 0.0, 0.0])),
    ],
)
def test_a_vector_of_no_direction_or_another_dimension_is_a_fault(
    values: list[float], message: str
) -> None:
    with pytest.raises(PlatformFault, match=message):
        unit_vector(values, 2)


def test_a_lone_surrogate_is_refused_with_its_position() -> None:
    with pytest.raises(InvalidInput) as caught:
        require_unicode(["fine \N{SLIGHTLY SMILING FACE}", "ab\ud83d"])
    assert caught.value.details == {"text": 1, "position": 2}
