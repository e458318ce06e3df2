"""A clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


class Watch:
    """Shows the time that was set; at first, noon.

    Attributes:
        now: What it shows.
    """

    def __init__(self) -> None:
        """Show noon."""
        self.now = NOON

    def __call__(self) -> datetime:
        """The time."""
        return self.now
