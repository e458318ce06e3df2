"""No text takes more time to screen than in proportion to its length."""

from __future__ import annotations

import time

import pytest

from shared.screening.screen import screen_texts
from tests.support.secret_samples import HOSTILE

SHORT, TIMES = 5_000, 4
FLOOR = 0.005
"""Seconds beside which a measurement says nothing."""


def seconds(part: str, length: int) -> float:
    """The least processor time that a text of repeated parts took in three turns."""
    text = (part * (length // len(part) + 1))[:length]
    taken: list[float] = []
    for _ in range(3):
        started = time.process_time()
        screen_texts({"text": text})
        taken.append(time.process_time() - started)
    return min(taken)


@pytest.mark.slow
@pytest.mark.parametrize("part", HOSTILE)
def test_time_is_proportional_to_length(part: str) -> None:
    """The square of it would be sixteen times."""
    screen_texts({"text": ""})
    short, long = seconds(part, SHORT), seconds(part, SHORT * TIMES)
    assert long + FLOOR < (short + FLOOR) * TIMES * 2.5
