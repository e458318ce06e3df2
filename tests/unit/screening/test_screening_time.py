"""Screening takes time proportional to the length of a text."""

import time

import pytest

from shared.screening.screen import screen_texts
from tests.support.harmless_texts import SLOW_PIECES

BASE_LENGTH, LENGTH_FACTOR = 5_000, 4
MEASUREMENT_NOISE = 0.005
"""Differences below this many seconds mean nothing."""


def measure_seconds(part: str, length: int) -> float:
    """Return the shortest CPU time of three attempts to screen a text of repeated parts."""
    text = (part * (length // len(part) + 1))[:length]
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        screen_texts({"text": text})
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("part", SLOW_PIECES)
def test_time_is_proportional_to_length(part: str) -> None:
    """Four times the text may take up to ten times the time; quadratic time would be sixteen."""
    screen_texts({"text": ""})  # the first call compiles patterns
    short_time = measure_seconds(part, BASE_LENGTH)
    long_time = measure_seconds(part, BASE_LENGTH * LENGTH_FACTOR)
    max_time = (short_time + MEASUREMENT_NOISE) * LENGTH_FACTOR * 2.5
    assert long_time + MEASUREMENT_NOISE < max_time
