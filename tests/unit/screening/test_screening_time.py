"""Screening takes time proportional to the length of a text."""

from __future__ import annotations

import time

import pytest

from shared.screening.screen import screen_texts
from tests.support.harmless_texts import SLOW_PIECES

BASE_LENGTH, LENGTH_FACTOR = 5_000, 4
FLOOR = 0.005
"""Seconds below which a measurement means nothing."""


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
    """Quadratic time would be sixteen times."""
    screen_texts({"text": ""})
    short_time, long_time = (
        measure_seconds(part, BASE_LENGTH),
        measure_seconds(part, BASE_LENGTH * LENGTH_FACTOR),
    )
    assert long_time + FLOOR < (short_time + FLOOR) * LENGTH_FACTOR * 2.5
