"""A clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


class SettableClock:
    """Shows the system's time until it is set, and then stands."""

    def __init__(self, now: datetime | None = None) -> None:
        """Stand at a moment, if one is given."""
        self._now = now

    @property
    def now(self) -> datetime:
        """What it shows. Setting it stops the clock there."""
        return self._now or datetime.now(UTC)

    @now.setter
    def now(self, moment: datetime) -> None:
        self._now = moment

    def __call__(self) -> datetime:
        """What it shows, for who takes a function."""
        return self.now

    def advance(self, **passed: float) -> None:
        """Let time pass, in `timedelta`'s units, and stand there."""
        self._now = self.now + timedelta(**passed)


class SettableSeconds:
    """Shows a number of seconds that a test changes, in place of `time.monotonic`.

    Attributes:
        now: What it shows.
    """

    def __init__(self) -> None:
        """Show some number that is not 0."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """What it shows, for who takes a function."""
        return self.now
