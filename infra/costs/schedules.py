"""How often a schedule runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from infra.costs.prices import DAYS

_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""Of the fields of a schedule: minute, hour, day of the month, month, day of the week."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a schedule.

    Attributes:
        a_day: On a day on which it runs.
        days: How many such days a month has.
    """

    a_day: int
    days: float

    @property
    def a_month(self) -> float:
        """All of them."""
        return self.a_day * self.days

    @property
    def daily(self) -> bool:
        """Whether it runs every day."""
        return self.days == DAYS


def runs_of(schedule: str) -> Runs:
    """The runs of a schedule in cron's format; an empty one has none.

    Raises:
        ValueError: It is none, or has both a day of the month and one of the week.
    """
    if not schedule:
        return Runs(0, 0.0)
    fields = schedule.split()
    if len(fields) != len(_RANGES):
        raise ValueError(f"a schedule has five fields: {schedule!r}")
    counts = [_count(text, *ends) for text, ends in zip(fields, _RANGES, strict=True)]
    minutes, hours, days, months, weekdays = counts
    if fields[2] != "*" and fields[4] != "*":
        raise ValueError(f"days of the month and of the week at once: {schedule!r}")
    share = days / 31 * months / 12 * min(weekdays, 7) / 7
    return Runs(minutes * hours, DAYS * share)


def _count(text: str, first: int, last: int) -> int:
    """How many values a field lets through."""
    return len(set().union(*(_values(part, first, last) for part in text.split(","))))


def _values(part: str, first: int, last: int) -> set[int]:
    span, _, step = part.partition("/")
    if span != "*":
        start, _, end = span.partition("-")
        first, last = int(start), int(end or (last if step else start))
    return set(range(first, last + 1, int(step or 1)))
