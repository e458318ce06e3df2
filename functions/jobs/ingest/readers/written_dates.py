"""Parses dates with the names of months, in several languages: `Friday, May 31, 2024 4:41 PM`."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final

from shared.core.month_names import MONTHS

_WORD: Final = re.compile(r"[^\W\d_]+")
_EAST_ASIAN_DATE: Final = re.compile(r"\b(\d{4})[年년]\s*(\d{1,2})[月월]\s*(\d{1,2})[日일]")
_HALF: Final = "上午|下午|午前|午後|오전|오후|早上|凌晨|中午|晚上|öö|ös"
_TIME: Final = re.compile(
    rf"(?P<half>{_HALF})?\s*"
    r"(?<![\d:.])(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    rf"(?:\s*(?P<half_after>{_HALF}|[ap](?=\.?\s?m\b)))?",
    re.IGNORECASE,
)
"""A time of day in digits, with the half of the day before or after it: `3:05 PM`, `下午3:05`."""
_CLOCK_WORDS: Final = re.compile(
    r"(?<![\d:.])(?P<hour>\d{1,2})\s*(?:uhr|uur|h|[时時点點시])\s*(?P<minute>\d{1,2})(?!\d)"
    r"(?:\s*(?:min|m|[分분])(?:\s*(?P<second>\d{1,2})\s*(?:seg|sec|s|[秒초])?)?)?",
    re.IGNORECASE,
)
"""A time of day with words between the numbers: `23h32min06s`, `09时11分28秒`, `오후 4시 41분`."""
_OFFSET: Final = re.compile(
    r"(?:\b(?:GMT|UTC)\b|(?<=:\d\d)(?=\s*[+\-\u2212]\d))"
    r"(?:\s*(?P<sign>[+\-\u2212])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?)?"
)
"""An offset from UTC. It is read before the time, which it would be mistaken for."""
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_SHORT_YEAR: Final = re.compile(r"\b(?P<day>\d{1,2}) [^\W\d_]+ (?P<year>\d\d)(?!\w)")
"""A day and a year of two digits, as Kindles once wrote them in English: `29 April 13`."""
_CENTURY: Final = 2000
_DAY: Final = re.compile(r"\b(\d{1,2})(?:er|st|nd|rd|th|[º°])?(?!\w)")
"""A day. In French and Italian, the first of a month is an ordinal number: `1er août`; in English,
any day may be: `May 31st`."""
_HALF_DAY_HOURS: Final = 12
"""The number of hours on a clock with `am` and `pm`."""
_AFTERNOON: Final = frozenset({"p", "下午", "午後", "오후", "中午", "晚上", "ös"})


def parse_datetime(text: str) -> datetime | None:
    """Return the date in a text, with its time if it has one; None if there is no valid date.

    It is in UTC if the text gives an offset, and otherwise has no zone.
    """
    offset = _OFFSET.search(text)
    text = _CLOCK_WORDS.sub(_format_clock, _OFFSET.sub(" ", text))
    time = _TIME.search(text)
    numbers = _parse_date(text[: time.start()] + " " + text[time.end() :] if time else text)
    if numbers is None:
        return None
    try:
        midnight = datetime.combine(date(*numbers), datetime.min.time())
        return _add_time(midnight, time, _parse_offset(offset)) if time else midnight
    except (ValueError, OverflowError):
        return None


def _parse_date(text: str) -> tuple[int, int, int] | None:
    if match := _EAST_ASIAN_DATE.search(text):
        return int(match[1]), int(match[2]), int(match[3])
    date = unicodedata.normalize("NFC", text).casefold()
    month = next((MONTHS[word] for word in _WORD.findall(date) if word in MONTHS), None)
    if month is None:
        return None
    if short := _SHORT_YEAR.search(date):
        return _CENTURY + int(short["year"]), month, int(short["day"])
    year, day = _YEAR.search(date), _DAY.search(date)
    return (int(year[0]), month, int(day[1])) if year and day else None


def _format_clock(time: re.Match[str]) -> str:
    """Return a time that was written with words as `23:32:06`."""
    return f"{time['hour']}:{time['minute']:0>2}:{time['second'] or '':0>2} "


def _parse_offset(offset: re.Match[str] | None) -> timezone | None:
    if offset is None:
        return None
    distance = timedelta(hours=int(offset["hours"] or 0), minutes=int(offset["minutes"] or 0))
    return timezone(-distance if offset["sign"] in ("-", "\u2212") else distance)


def _add_time(midnight: datetime, time: re.Match[str], zone: timezone | None) -> datetime:
    hour, minute, second = int(time["hour"]), int(time["minute"]), int(time["second"] or 0)
    if half := time["half"] or time["half_after"]:
        is_afternoon = half.lower() in _AFTERNOON
        hour = hour % _HALF_DAY_HOURS + (_HALF_DAY_HOURS if is_afternoon else 0)
    moment = midnight.replace(hour=hour, minute=minute, second=second, tzinfo=zone)
    return moment.astimezone(UTC) if zone else moment
