"""A period such as `last_month` is a span of days, from the first to the last, in UTC."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from shared.core.dates import (
    ALL_DATES,
    DateSpan,
    Period,
    fold_period,
    from_microseconds,
    load_time_zone,
    parse_days,
    resolve_period,
)

NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)
SPAN = DateSpan(date(2024, 1, 30), date(2024, 3, 2))


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        ("today", "2024-03-10", "2024-03-10"),
        ("yesterday", "2024-03-09", "2024-03-09"),
        ("last_3_days", "2024-03-08", "2024-03-10"),
        ("last_7_days", "2024-03-04", "2024-03-10"),
        ("last_14_days", "2024-02-26", "2024-03-10"),
        ("last_30_days", "2024-02-10", "2024-03-10"),
        ("last_90_days", "2023-12-12", "2024-03-10"),
        ("this_week", "2024-03-04", "2024-03-10"),
        ("last_week", "2024-02-26", "2024-03-03"),
        ("this_month", "2024-03-01", "2024-03-10"),
        ("last_month", "2024-02-01", "2024-02-29"),
        ("this_year", "2024-01-01", "2024-03-10"),
        ("last_year", "2023-01-01", "2023-12-31"),
        ("a_year_ago", "2023-03-01", "2023-03-31"),
    ],
)
def test_a_period_is_a_span_of_days(period: Period, first: str, last: str) -> None:
    expected = DateSpan(date.fromisoformat(first), date.fromisoformat(last))
    assert resolve_period(Period(period), NOW) == expected


def test_days_are_those_of_the_zone_and_else_of_utc() -> None:
    expected = DateSpan(date(2023, 12, 1), date(2023, 12, 31))
    assert resolve_period(Period.LAST_MONTH, datetime(2024, 1, 31, tzinfo=UTC)) == expected
    east = timezone(timedelta(hours=14))
    now = datetime(2024, 3, 11, 1, tzinfo=east)
    assert resolve_period(Period.TODAY, now).first == date(2024, 3, 10)
    today = resolve_period(Period.TODAY, now, east)
    assert today.first == date(2024, 3, 11)
    assert [moment in today for moment in (now, now - timedelta(hours=2))] == [True, False]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2024, 3, 31), 23),
        ("Europe/Berlin", date(2024, 10, 27), 25),
        ("America/Havana", date(2024, 11, 3), 25),  # the hour before midnight occurs twice
        ("America/Asuncion", date(2024, 10, 6), 23),  # there is no midnight
    ],
)
def test_a_day_has_its_hours_and_meets_the_next(zone: str, day: date, hours: int) -> None:
    there = load_time_zone(zone)
    span = DateSpan(day, day, there)
    following = DateSpan(day + timedelta(days=1), day + timedelta(days=1), there)
    assert len(span.microseconds) == hours * 3_600_000_000
    assert span.microseconds.stop == following.microseconds.start


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2024-05-31", "2024-05-31", "2024-05-31"),
        ("20240531", "2024-05-31", "2024-05-31"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2024-12", "2024-12-01", "2024-12-31"),
        ("2024", "2024-01-01", "2024-12-31"),
        ("9999-12", "9999-12-01", "9999-12-31"),
        ("2024-06-01T01:30", "2024-06-01", "2024-06-01"),
        ("2024-06-01T01:30:00+08:00", "2024-05-31", "2024-05-31"),
        ("2024-06-01T01:30:00Z", "2024-06-01", "2024-06-01"),
    ],
)
def test_a_bound_may_be_a_day_a_month_a_year_or_a_time(text: str, first: str, last: str) -> None:
    expected = DateSpan(date.fromisoformat(first), date.fromisoformat(last))
    assert parse_days(text, load_time_zone("Europe/Berlin")) == expected


@pytest.mark.parametrize("text", ["", "soon", "2024-13", "2024-02-30", "0001-01-01T00:00+14:00"])
def test_another_bound_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="YYYY-MM-DD"):
        parse_days(text, UTC)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
def test_open_spans_include_every_moment_in_every_zone(zone: str) -> None:
    span = DateSpan(zone=load_time_zone(zone))
    assert span == ALL_DATES
    assert span.microseconds == ALL_DATES.microseconds
    assert datetime.min.replace(tzinfo=UTC) in span
    assert datetime.max.replace(tzinfo=UTC) in span


@pytest.mark.parametrize("text", ["Last week", " last-week ", "LAST_WEEK", "past week"])
def test_a_period_may_be_written_as_people_do(text: str) -> None:
    assert fold_period(text) == Period.LAST_WEEK


def test_a_span_includes_its_first_and_last_moment() -> None:
    microsecond = timedelta(microseconds=1)
    moments = SPAN.microseconds
    assert from_microseconds(moments[0]) == SPAN.start
    assert from_microseconds(moments[-1]) == SPAN.end
    west = timezone(timedelta(hours=-5))
    inside = [SPAN.start, SPAN.end, datetime(2024, 1, 29, 23, tzinfo=west)]
    outside = [SPAN.start - microsecond, SPAN.end + microsecond]
    outside.append(datetime(2024, 3, 2, 23, tzinfo=west))
    assert [moment in SPAN for moment in [*inside, *outside]] == [True] * 3 + [False] * 3


def test_spans_intersect() -> None:
    other_span = DateSpan(date(2024, 2, 1), date(2024, 12, 31))
    assert SPAN & other_span == DateSpan(date(2024, 2, 1), date(2024, 3, 2))
    assert SPAN & ALL_DATES == SPAN
    assert (SPAN & DateSpan(date(2025, 1, 1), date(2025, 1, 2))).is_empty
    assert not SPAN.is_empty


def test_the_months_of_a_span_include_partial_ones() -> None:
    assert SPAN.months == ["2024-01", "2024-02", "2024-03"]
    assert DateSpan(date(2023, 12, 31), date(2024, 1, 1)).months == ["2023-12", "2024-01"]


def test_a_time_zone_is_loaded_by_name() -> None:
    """UTC needs no database of time zones, which some systems lack."""
    assert str(load_time_zone("Europe/Berlin")) == "Europe/Berlin"
    assert load_time_zone("UTC") is UTC


@pytest.mark.parametrize(
    "name", ["", "Berlin", "America", "europe/berlin", "..", "/etc/localtime", "a\0b", "\ud800"]
)
def test_other_names_of_time_zones_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a time zone of the IANA database"):
        load_time_zone(name)
