"""How fast embedding goes, and whether a call has time for the rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEASURED_SECONDS: Final = 1.0
"""How long to embed before the pace tells anything: a model may load first."""
RESERVE: Final = 0.2
"""The share of a call's time that is kept for storing and ranking."""
GUESSED_SECONDS: Final = 1e-4
"""For a character, where nothing was measured: about what the local model takes."""


class Pace:
    """Measures while passages are embedded.

    Attributes:
        seconds_left: How long the passages that are left will take, as far as is known.
    """

    def __init__(self, texts: Mapping[str, str], deadline: float | None) -> None:
        """Begin to measure.

        Args:
            texts: The passages to embed, by id.
            deadline: Unix time after which nobody waits; None: there is time.
        """
        self._lengths = {name: len(text) for name, text in texts.items()}
        self._began = time.monotonic()
        seconds = float("inf") if deadline is None else deadline - time.time()
        self._over = self._began + seconds * (1 - RESERVE)
        self._batches = 0
        self.seconds_left = sum(self._lengths.values()) * GUESSED_SECONDS

    def has_time_for_all(self, left: Sequence[str]) -> bool:
        """Whether all that is left can be embedded in time: better said at once than in the end."""
        now = self._measure(left)
        return now - self._began < MEASURED_SECONDS or now + self.seconds_left < self._over

    def has_time_for_more(self, left: Sequence[str]) -> bool:
        """Whether there is time for another batch."""
        now = self._measure(left)
        batch = (now - self._began) / self._batches if self._batches else 0.0
        self._batches += 1
        return now + batch < self._over

    def _measure(self, left: Sequence[str]) -> float:
        now = time.monotonic()
        rest = sum(self._lengths[name] for name in left)
        done = sum(self._lengths.values()) - rest
        each = (now - self._began) / done if done else GUESSED_SECONDS
        self.seconds_left = rest * each
        return now
