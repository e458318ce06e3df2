"""Functions and types for moments, time zones and spans of days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Final

Clock = Callable[[], datetime]
"""Returns the current time, with its time zone."""


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_microseconds(moment: datetime) -> int:
    """Convert a moment to microseconds since 1970; Firestore has the same precision."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(count: int) -> datetime:
    """Convert microseconds since 1970 to a moment in UTC."""
    return _EPOCH + timedelta(microseconds=count)


def format_day(count: int) -> str:
    """Format the UTC day of a moment, given in microseconds since 1970, as YYYY-MM-DD."""
    return from_microseconds(count).date().isoformat()


def load_time_zone(name: str) -> tzinfo:
    """Load a time zone by its name, such as `UTC` or `Europe/Berlin`.

    Raises:
        ValueError: There is no such time zone.
    """
    if name == "UTC":  # This saves cold starts an import and reading a file.
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError("not a time zone of the IANA database, such as Europe/Berlin") from None


class Period(StrEnum):
    """A span of days relative to today."""

    TODAY = "today"
    YESTERDAY = "yesterday"
    LAST_3_DAYS = "last_3_days"
    LAST_7_DAYS = "last_7_days"
    LAST_30_DAYS = "last_30_days"
    LAST_MONTH = "last_month"
    LAST_YEAR = "last_year"


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A span of days in UTC. The first and the last day are included."""

    first: date = date.min
    last: date = date.max

    def __and__(self, other: DateSpan) -> DateSpan:
        """Return the days that are in both spans; the result may be empty."""
        return DateSpan(max(self.first, other.first), min(self.last, other.last))

    def __contains__(self, moment: datetime) -> bool:
        """Return whether a moment is in the span."""
        return self.first <= moment.astimezone(UTC).date() <= self.last

    @property
    def is_empty(self) -> bool:
        """Whether the span has no days."""
        return self.first > self.last

    @property
    def start(self) -> datetime:
        """The first moment of the span."""
        return datetime.combine(self.first, time.min, UTC)

    @property
    def end(self) -> datetime:
        """The last moment of the span, at Firestore's precision."""
        return datetime.combine(self.last, time.max, UTC)

    @property
    def microseconds(self) -> range:
        """The moments of the span in microseconds since 1970."""
        return range(to_microseconds(self.start), to_microseconds(self.end) + 1)

    @property
    def months(self) -> list[str]:
        """The months of the span in order, as YYYY-MM."""
        first = self.first.year * 12 + self.first.month - 1
        last = self.last.year * 12 + self.last.month - 1
        return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in range(first, last + 1)]


ALL_DATES: Final = DateSpan()
_DAYS_ENDING_TODAY: Final = {
    Period.TODAY: 1,
    Period.LAST_3_DAYS: 3,
    Period.LAST_7_DAYS: 7,
    Period.LAST_30_DAYS: 30,
}


def resolve_period(period: Period, now: datetime) -> DateSpan:
    """Return the days of a period, in UTC.

    `last_3_days`, `last_7_days` and `last_30_days` include today. `last_month` and `last_year` are
    the previous calendar month and year.
    """
    today = now.astimezone(UTC).date()
    if period in _DAYS_ENDING_TODAY:
        return DateSpan(today - timedelta(days=_DAYS_ENDING_TODAY[period] - 1), today)
    if period is Period.YESTERDAY:
        return DateSpan(today - timedelta(days=1), today - timedelta(days=1))
    if period is Period.LAST_YEAR:
        return DateSpan(date(today.year - 1, 1, 1), date(today.year - 1, 12, 31))
    last = today.replace(day=1) - timedelta(days=1)
    return DateSpan(last.replace(day=1), last)
