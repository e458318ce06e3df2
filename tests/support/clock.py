"""A clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
"""A moment for tests that need a fixed one."""


class SettableClock:
    """Shows the system's time until it is set, and then stands still."""

    def __init__(self, now: datetime | None = None) -> None:
        """Start stopped at `now`, if it is given."""
        self._now = now

    @property
    def now(self) -> datetime:
        """The current reading. Setting it stops the clock there."""
        return self._now or datetime.now(UTC)

    @now.setter
    def now(self, moment: datetime) -> None:
        self._now = moment

    def __call__(self) -> datetime:
        """The reading, for code that expects a function."""
        return self.now

    def advance(self, **delta: float) -> None:
        """Move forward by `timedelta(**delta)`, and stop there."""
        self._now = self.now + timedelta(**delta)


class SettableSeconds:
    """Shows a number of seconds that a test changes, for code that is given `time.monotonic`.

    Attributes:
        now: What it shows.
    """

    def __init__(self) -> None:
        """Start like a machine that has been up for a while, not at 0."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """The reading, for code that expects a function."""
        return self.now
