"""Clocks that a test sets, for dates and for durations, and a fixed time."""

from datetime import UTC, datetime, timedelta
from typing import Final

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
"""A fixed time, earlier than the time of any test run."""


class SettableClock:
    """A clock that a test moves. It may follow the system's clock until the test sets it."""

    def __init__(self, now: datetime | None = None, *, running: bool = False) -> None:
        """Stop at `now`, by default the current second; if `running`, follow the system's clock."""
        self._now = None if running else now or datetime.now(UTC).replace(microsecond=0)

    @property
    def now(self) -> datetime:
        """The current time. Setting it stops the clock."""
        return self._now or datetime.now(UTC)

    @now.setter
    def now(self, moment: datetime) -> None:
        self._now = moment

    def __call__(self) -> datetime:
        """Return the current time, for code that expects a function."""
        return self.now

    def advance(self, **delta: float) -> None:
        """Advance by `timedelta(**delta)`, and stop the clock."""
        self._now = self.now + timedelta(**delta)


class SettableMonotonicClock:
    """A replacement for `time.monotonic` that a test sets.

    Attributes:
        now: The current time in seconds.
    """

    def __init__(self) -> None:
        """Start at 1,000 seconds, as on a machine that has been up for a while."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the current time, for code that expects a function."""
        return self.now
