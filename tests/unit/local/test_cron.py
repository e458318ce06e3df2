"""The last time of a schedule, compared with a search minute by minute."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.build.discovery import jobs
from infra.local.cron import find_last_time

SCHEDULES = sorted({job.schedule for job in jobs() if job.schedule} | {"0-30/10 8-18 * * 1-5"})
MINUTE = timedelta(minutes=1)


def expand(field: str, count: int) -> set[int]:
    """Return the numbers of a field, by asking of each whether it is one of them."""
    numbers, _, step = field.partition("/")
    first, _, last = numbers.replace("*", f"0-{count - 1}").partition("-")
    return {
        number
        for number in range(count)
        if int(first) <= number <= int(last or first)
        and (number - int(first)) % int(step or 1) == 0
    }


def is_time(schedule: str, moment: datetime) -> bool:
    """Return whether a schedule has a time at the beginning of this minute."""
    minutes, hours, _, _, weekdays = schedule.split()
    return (
        moment.minute in expand(minutes, 60)
        and moment.hour in expand(hours, 24)
        and moment.isoweekday() % 7 in expand(weekdays, 7)
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(moment=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)))  # noqa: DTZ001
def test_the_last_time_is_that_of_a_search_by_minutes(schedule: str, moment: datetime) -> None:
    now = moment.replace(tzinfo=UTC)
    expected = now.replace(second=0, microsecond=0)
    while not is_time(schedule, expected):
        expected -= MINUTE
    assert find_last_time(schedule, now) == expected


def test_a_schedule_is_in_utc() -> None:
    now = datetime(2024, 5, 31, 1, 30, tzinfo=timezone(timedelta(hours=5)))
    assert find_last_time("17 4 * * *", now) == datetime(2024, 5, 30, 4, 17, tzinfo=UTC)


def test_days_of_the_month_are_refused() -> None:
    with pytest.raises(ValueError, match="names days of the month or months"):
        find_last_time("0 0 1 * *", datetime(2024, 5, 31, tzinfo=UTC))
