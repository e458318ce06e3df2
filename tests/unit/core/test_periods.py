"""A period such as `last_month` is a span of days, from the first to the last, in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from shared.core.dates import ALL_DATES, DateSpan, Period, from_microseconds, resolve_period

NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)
SPAN = DateSpan(date(2024, 1, 30), date(2024, 3, 2))


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        ("today", "2024-03-10", "2024-03-10"),
        ("yesterday", "2024-03-09", "2024-03-09"),
        ("last_3_days", "2024-03-08", "2024-03-10"),
        ("last_7_days", "2024-03-04", "2024-03-10"),
        ("last_30_days", "2024-02-10", "2024-03-10"),
        ("last_month", "2024-02-01", "2024-02-29"),
        ("last_year", "2023-01-01", "2023-12-31"),
    ],
)
def test_a_period_is_a_span_of_days(period: Period, first: str, last: str) -> None:
    expected = DateSpan(date.fromisoformat(first), date.fromisoformat(last))
    assert resolve_period(Period(period), NOW) == expected


def test_every_period_has_a_span() -> None:
    assert all(not resolve_period(period, NOW).is_empty for period in Period)


def test_last_month_in_january_is_december() -> None:
    expected = DateSpan(date(2023, 12, 1), date(2023, 12, 31))
    assert resolve_period(Period.LAST_MONTH, datetime(2024, 1, 31, tzinfo=UTC)) == expected


def test_days_are_counted_in_utc() -> None:
    east = timezone(timedelta(hours=14))
    today = resolve_period(Period.TODAY, datetime(2024, 3, 11, 1, tzinfo=east))
    assert today.first == date(2024, 3, 10)


def test_a_span_includes_its_first_and_last_moment() -> None:
    microsecond = timedelta(microseconds=1)
    assert SPAN.start in SPAN
    assert SPAN.end in SPAN
    assert SPAN.start - microsecond not in SPAN
    assert SPAN.end + microsecond not in SPAN


def test_a_moment_of_another_time_zone_is_compared_in_utc() -> None:
    west = timezone(timedelta(hours=-5))
    assert datetime(2024, 3, 2, 23, tzinfo=west) not in SPAN
    assert datetime(2024, 1, 29, 23, tzinfo=west) in SPAN


def test_the_microseconds_of_a_span_are_its_moments() -> None:
    moments = SPAN.microseconds
    assert from_microseconds(moments[0]) == SPAN.start
    assert from_microseconds(moments[-1]) == SPAN.end


def test_spans_intersect() -> None:
    other_span = DateSpan(date(2024, 2, 1), date(2024, 12, 31))
    assert SPAN & other_span == DateSpan(date(2024, 2, 1), date(2024, 3, 2))
    assert SPAN & ALL_DATES == SPAN


def test_disjoint_spans_have_an_empty_intersection() -> None:
    assert (SPAN & DateSpan(date(2025, 1, 1), date(2025, 1, 2))).is_empty
    assert not SPAN.is_empty


def test_the_months_of_a_span_include_partial_ones() -> None:
    assert SPAN.months == ["2024-01", "2024-02", "2024-03"]
    assert DateSpan(date(2023, 12, 31), date(2024, 1, 1)).months == ["2023-12", "2024-01"]


def test_all_dates_include_every_moment() -> None:
    assert datetime.min.replace(tzinfo=UTC) in ALL_DATES
    assert datetime.max.replace(tzinfo=UTC) in ALL_DATES
