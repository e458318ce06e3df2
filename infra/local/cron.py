"""The times of a schedule in cron's format, as far as jobs use it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def find_last_time(schedule: str, now: datetime) -> datetime:
    """Return the last time of a schedule that is not after `now`, in UTC.

    Its fields may have `*`, numbers, ranges and steps: `*/5 * * * *`, `42 3 * * 0`. Days of the
    month and months are not supported, so there is a time in each week.
    """
    minutes, hours, days, months, weekdays = map(_parse, schedule.split(), (60, 24, 32, 13, 7))
    if (len(days), len(months)) != (32, 13):
        raise ValueError(f"{schedule} names days of the month or months.")
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for date in (today - timedelta(days=number) for number in range(8)):
        if date.isoweekday() % 7 in weekdays:
            times = (date.replace(hour=hour, minute=minute) for hour in hours for minute in minutes)
            if past := [time for time in times if time <= now]:
                return past[-1]
    raise ValueError(f"{schedule} never comes.")


def _parse(field: str, count: int) -> range:
    """Return the numbers of a field, whose values are below `count`."""
    numbers, _, step = field.partition("/")
    first, _, last = (f"0-{count - 1}" if numbers == "*" else numbers).partition("-")
    return range(int(first), int(last or first) + 1, int(step or 1))
