"""How fast embedding goes, and whether a call has time for the rest."""

from __future__ import annotations

import time
from typing import Final

from shared.workspaces.embedding import BATCH

MEASURED_SECONDS: Final = 1.0
"""How long to embed before the pace tells anything: a model may load first."""
RESERVE: Final = 0.2
"""The share of a call's time that is kept for storing and ranking."""
GUESSED_SECONDS: Final = 0.08
"""For a passage, where nothing was measured: about what the local model takes."""


class Pace:
    """Measures while passages are embedded.

    Attributes:
        seconds_left: How long the passages that are left will take, as far as is known.
    """

    def __init__(self, passages: int, deadline: float | None) -> None:
        """Begin to measure.

        Args:
            passages: How many there are.
            deadline: Unix time after which nobody waits; None: there is time.
        """
        self.seconds_left = passages * GUESSED_SECONDS
        self._began = time.monotonic()
        seconds = float("inf") if deadline is None else deadline - time.time()
        self._over = self._began + seconds * (1 - RESERVE)
        self._batches = 0

    def has_time_for_all(self, left: int) -> bool:
        """Whether all that is left can be embedded in time: better said at once than in the end."""
        now, each = self._measure()
        self.seconds_left = left * each
        return now - self._began < MEASURED_SECONDS or now + self.seconds_left < self._over

    def has_time_for_more(self, left: int) -> bool:
        """Whether there is time for another batch."""
        now, each = self._measure()
        self.seconds_left = left * each
        return now + BATCH * each < self._over

    def _measure(self) -> tuple[float, float]:
        """The time, and how long a passage takes; asked once for each batch."""
        now, done = time.monotonic(), self._batches * BATCH
        self._batches += 1
        return now, (now - self._began) / done if done else GUESSED_SECONDS
