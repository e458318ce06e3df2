"""What time it is, as a capability: a test brings its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the current time, with its time zone."""


def utc_now() -> datetime:
    """The system's time, in UTC."""
    return datetime.now(UTC)
