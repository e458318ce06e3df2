"""A clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
"""A moment for tests that need a fixed one."""


class SettableClock:
    """Stands still, but where a test moves it; or runs with the system's until then."""

    def __init__(self, now: datetime | None = None, *, running: bool = False) -> None:
        """Stand at `now`, by default at the present second, unless it is to run."""
        self._now = None if running else now or datetime.now(UTC).replace(microsecond=0)

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
