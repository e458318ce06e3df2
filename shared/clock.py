"""What time it is, as a capability: a test brings its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], datetime]
"""Returns the current time, with its time zone."""


def utc_now() -> datetime:
    """The system's time, in UTC."""
    return datetime.now(UTC)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970: as exact as Firestore keeps it."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(count: int) -> datetime:
    """The moment that many microseconds after 1970 began, in UTC."""
    return _EPOCH + timedelta(microseconds=count)
