"""Functions and types for moments, time zones and spans of days."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Final

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


def format_utc_day(count: int) -> str:
    """Format the UTC day of a moment, given in microseconds since 1970, as YYYY-MM-DD."""
    return from_microseconds(count).date().isoformat()


def format_day(moment: datetime, zone: tzinfo) -> str:
    """Format the day of a moment in a time zone as YYYY-MM-DD."""
    try:
        return moment.astimezone(zone).date().isoformat()
    except OverflowError:  # the first or the last day of the calendar
        return moment.date().isoformat()


def localize(moment: datetime, zone: tzinfo) -> datetime:
    """Return a moment in UTC. One without a time zone is of the given zone."""
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:  # the first or the last day of the calendar
        return moment.replace(tzinfo=UTC)


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
    """A span of days relative to today. Weeks begin on Monday."""

    TODAY = "today"
    YESTERDAY = "yesterday"
    LAST_3_DAYS = "last_3_days"
    LAST_7_DAYS = "last_7_days"
    LAST_14_DAYS = "last_14_days"
    LAST_30_DAYS = "last_30_days"
    LAST_90_DAYS = "last_90_days"
    THIS_WEEK = "this_week"
    LAST_WEEK = "last_week"
    THIS_MONTH = "this_month"
    LAST_MONTH = "last_month"
    THIS_YEAR = "this_year"
    LAST_YEAR = "last_year"
    A_YEAR_AGO = "a_year_ago"


def fold_period(text: Any) -> Any:
    """Fold a period as people write it, such as `Last week` or `past 7 days`, to its name."""
    if not isinstance(text, str):
        return text
    return _SEPARATORS.sub("_", text.strip().casefold()).replace("past_", "last_", 1)


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A span of days of a time zone. The first and the last day are included."""

    first: date = date.min
    last: date = date.max
    zone: tzinfo = field(default=UTC, compare=False)

    def __and__(self, other: DateSpan) -> DateSpan:
        """Return the days that are in both spans; the result may be empty."""
        return DateSpan(max(self.first, other.first), min(self.last, other.last), self.zone)

    def __contains__(self, moment: datetime) -> bool:
        """Return whether a moment is in the span."""
        return self.start <= moment <= self.end

    def describe(self) -> str:
        """Name the days for people: `2024`, `May 2024`, `2024-05-12`, or the first and the last."""
        first, last = self.first, self.last
        if first == date.min:
            return f"until {last}"
        for form, pattern in (("%Y-%m-%d",) * 2, ("%B %Y", "%Y-%m"), ("%Y",) * 2):
            if parse_days(first.strftime(pattern), UTC) == self:
                return first.strftime(form)
        return f"{first} to {last}"

    @property
    def is_empty(self) -> bool:
        """Whether the span has no days."""
        return self.first > self.last

    @property
    def start(self) -> datetime:
        """The first moment of the span, in UTC."""
        return _to_midnight(self.first, self.zone)

    @property
    def end(self) -> datetime:
        """The last moment of the span, in UTC, at Firestore's precision."""
        if self.last == date.max:
            return datetime.max.replace(tzinfo=UTC)
        # A day may end with an hour that occurs twice, but the next one begins at one moment.
        return _to_midnight(self.last + timedelta(days=1), self.zone) - timedelta(microseconds=1)

    @property
    def microseconds(self) -> range:
        """The moments of the span in microseconds since 1970."""
        return range(to_microseconds(self.start), to_microseconds(self.end) + 1)

    @property
    def months(self) -> list[str]:
        """The months of UTC that overlap the span in order, as YYYY-MM."""
        first = self.start.year * 12 + self.start.month - 1
        last = self.end.year * 12 + self.end.month - 1
        return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in range(first, last + 1)]


ALL_DATES: Final = DateSpan()


def _to_midnight(day: date, zone: tzinfo) -> datetime:
    if day == date.min:  # In a zone to the east, it begins before the first moment.
        return datetime.min.replace(tzinfo=UTC)
    return datetime.combine(day, time.min, zone).astimezone(UTC)


def parse_days(text: str, zone: tzinfo) -> DateSpan:
    """Return the days of a zone that a text names: a day, a month, a year, or the day of a time.

    They are written as in ISO 8601: `2024-06-01`, `2024-06`, `2024`, `2024-06-01T20:00-07:00`.

    Raises:
        ValueError: The text is none of these.
    """
    try:
        if match := _MONTH_OR_YEAR.fullmatch(text):
            year, month = match.groups()
            first = date(int(year), int(month or 1), 1)
            last = date(first.year, int(month or 12), 1)
            following = (last + timedelta(days=31)).replace(day=1) if last < _LAST_MONTH else None
            return DateSpan(first, following - timedelta(days=1) if following else date.max, zone)
        moment = datetime.fromisoformat(text)  # at midnight, if the text is a day
        day = (moment.astimezone(zone) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        raise ValueError("not a date: YYYY-MM-DD, YYYY-MM or an ISO 8601 time") from None
    return DateSpan(day, day, zone)


_MONTH_OR_YEAR: Final = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")
_LAST_MONTH: Final = date(9999, 12, 1)
_SEPARATORS: Final = re.compile(r"[\s_-]+")


def resolve_period(period: Period, now: datetime, zone: tzinfo = UTC) -> DateSpan:
    """Return the days of a period, in a time zone.

    `last_3_days` and its like include today. `last_week`, `last_month` and
    `last_year` are the previous ones of the calendar; `this_week` and its like end today;
    `a_year_ago` is this month of the previous year.
    """
    today = now.astimezone(zone).date()
    return DateSpan(*_find_days(period, today), zone)


def _find_days(period: Period, today: date) -> tuple[date, date]:
    day = timedelta(days=1)
    monday = today - today.weekday() * day
    month, year = today.replace(day=1), today.replace(month=1, day=1)
    year_ago = month.replace(year=month.year - 1)
    return {
        Period.TODAY: (today, today),
        Period.YESTERDAY: (today - day, today - day),
        Period.LAST_3_DAYS: (today - 2 * day, today),
        Period.LAST_7_DAYS: (today - 6 * day, today),
        Period.LAST_14_DAYS: (today - 13 * day, today),
        Period.LAST_30_DAYS: (today - 29 * day, today),
        Period.LAST_90_DAYS: (today - 89 * day, today),
        Period.THIS_WEEK: (monday, today),
        Period.LAST_WEEK: (monday - 7 * day, monday - day),
        Period.THIS_MONTH: (month, today),
        Period.LAST_MONTH: ((month - day).replace(day=1), month - day),
        Period.THIS_YEAR: (year, today),
        Period.LAST_YEAR: ((year - day).replace(month=1, day=1), year - day),
        Period.A_YEAR_AGO: (year_ago, (year_ago + 31 * day).replace(day=1) - day),
    }[period]
