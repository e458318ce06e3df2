"""Finds the days that a question names: `in May 2024`, `letzte Woche`, `hace tres días`, `去年5月`.

Reads English, German, Spanish, French, Chinese and Japanese. A month without a year is the latest
that is not in the future. Words that have other meanings, such as `may`, `mars` or a bare number,
count only in a context that excludes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from shared.core.dates import parse_days
from shared.search import question_words as words
from shared.text.terms import fold_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Days = tuple[date, date]
    """The first and the last day of a period."""
    Reader = Callable[[re.Match[str], date], Days | None]
    """Reads a period from a match, given today. Returns None if it is none after all."""

FIRST_YEAR: Final = 1990
"""The first year that a question may mean. Earlier numbers are history or no years."""
_MAY_NAME_DAYS: Final = re.compile(r"\d|[\u3000-\u9fff]|-hier|'hui|-end\b")
_WORD: Final = re.compile(r"[a-z]+")
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PeriodMention:
    """A part of a question that names days."""

    start: int
    end: int
    first: date
    last: date


def find_periods(question: str, today: date) -> list[PeriodMention]:
    """Find the parts of a question that name days, in order.

    A range, such as `from March to May 2024`, is one part, as is `since May 2024`.
    """
    text = fold_letters(question)
    if not _MAY_NAME_DAYS.search(text) and words.DATE_WORDS.isdisjoint(_WORD.findall(text)):
        return []
    mentions: list[PeriodMention] = []
    for pattern, read in _compile_grammar():
        for match in pattern.finditer(text):
            # The group `before` shows what is meant, and is no part of the mention.
            start = match.end("before") if "before" in pattern.groupindex else match.start()
            is_taken = any(start < other.end and other.start < match.end() for other in mentions)
            if not is_taken and (days := _read_past(read, match, today)):
                mentions.append(PeriodMention(start, match.end(), *days))
    mentions.sort(key=lambda mention: mention.start)
    return [_apply_bound(mention, text, today) for mention in _join_ranges(mentions, text)]


def _read_past(read: Reader, match: re.Match[str], today: date) -> Days | None:
    """Read a match. Return None if its days do not exist, are too early or in the future."""
    try:
        days = read(match, today)
    except (ValueError, OverflowError):
        return None
    return days if days and days[0].year >= FIRST_YEAR and days[0] <= today else None


def _join_ranges(mentions: Iterable[PeriodMention], text: str) -> Iterator[PeriodMention]:
    """Join mentions with only a word such as `to` between them."""
    previous: PeriodMention | None = None
    for mention in mentions:
        if previous and _TO.fullmatch(text[previous.end : mention.start]):
            days = previous.first, previous.last, mention.first, mention.last
            previous = PeriodMention(previous.start, mention.end, min(days), max(days))
            continue
        if previous:
            yield previous
        previous = mention
    if previous:
        yield previous


def _apply_bound(mention: PeriodMention, text: str, today: date) -> PeriodMention:
    """Turn a period beside a word such as `since` or `until` into all days since or until it."""
    before, after = text[: mention.start], text[mention.end :]
    latest = max(mention.last, today)
    if match := _SINCE.search(before):
        return replace(mention, start=match.start(), last=latest)
    if match := _BOUND_AFTER.match(after):
        mention = replace(mention, end=mention.end + match.end())
        is_start = bool(match["since"])
        return replace(mention, last=latest) if is_start else replace(mention, first=date.min)
    if match := _UNTIL.search(before):
        return replace(mention, start=match.start(), first=date.min)
    if match := _BEFORE.search(before):
        return replace(mention, start=match.start(), first=date.min, last=mention.first - _DAY)
    if (match := _AFTER.search(before)) and mention.last < today:
        return replace(mention, start=match.start(), first=mention.last + _DAY, last=today)
    return mention


def _any_of(alternatives: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest first."""
    return "|".join(sorted(alternatives, key=lambda word: (-len(word), word)))


_ARTICLE: Final = r"(?:(?:the|in|im|dem|der|zum|el|la|le|en)\s+)?"
_AND_WORDS: Final = "and|und|y|et|or|oder|o|ou"
_TO_WORDS: Final = r"to|until|till|through|bis|a|hasta|au|jusqu'en|[-\u2013\u2014]"
_TO: Final = re.compile(
    rf"\s*(?:{_TO_WORDS}|{_AND_WORDS}|[~\u301c\uff5e到至と和]|から)\s*{_ARTICLE}"
)
_SINCE: Final = re.compile(rf"\b(?:since|seit|desde|depuis|ab)\s+{_ARTICLE}$")
_BOUND_AFTER: Final = re.compile("(?P<since>以来|以後|以后|以降|起)|まで|为止|為止")
_UNTIL: Final = re.compile(
    rf"\b(?:until|till|through|up to|bis|hasta|jusqu['\u2019](?:en|au|a))\s+{_ARTICLE}$"
)
_BEFORE: Final = re.compile(rf"\b(?:before|vor|antes de|avant)\s+{_ARTICLE}$")
_AFTER: Final = re.compile(rf"\b(?:after|nach|despues de|apres)\s+{_ARTICLE}$")

_YEARS: Final = r"(?:19|20)\d\d"
_YEAR: Final = rf"(?<![\d.,:#-])(?P<year>{_YEARS})(?![\da-z'\u2019]|[.,:-]\d|\s*%)"
_DAY_NUMBER: Final = r"(?<![\d.,:])(?P<day>[0-3]?\d)(?:\.|st|nd|rd|th|er|[ºª°])?"
_OF: Final = r",?\s+(?:(?:of|del?|des)\s+(?:the\s+|l')?)?"
_MONTH: Final = rf"(?P<month>{_any_of(words.MONTH_NUMBERS)})\b\.?"
_FULL_MONTH: Final = rf"(?P<month>{_any_of(words.FULL_MONTHS)})\b(?!['\u2019-])"
_EAST_MONTH: Final = r"(?P<month>\d\d?|十[一二]?|[一二三四五六七八九])\s*月"
_EAST_DAY: Final = r"(?P<day>\d\d?)\s*[日号號]"
_UNIT: Final = rf"(?P<unit>{_any_of(words.UNITS)})\b"
_EAST_UNIT: Final = _any_of(words.EAST_ASIAN_UNITS)
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{_any_of(filter(str.isascii, words.COUNTS))})"
_EAST_COUNT: Final = r"(?P<count>\d{1,3}|[一二三四五六七八九十两兩])"
_SEASON: Final = _any_of(words.SEASONS)
_WEEKDAY: Final = _any_of(filter(str.isascii, words.WEEKDAYS))
_PART: Final = _any_of(filter(str.isascii, words.YEAR_PARTS))
_BACK: Final = rf"(?P<back>{_any_of(words.EAST_ASIAN_YEARS)})"
_SINGULAR_UNIT: Final = rf"(?P<unit>{words.SINGULAR_UNITS})\b"
_PLURAL_UNIT: Final = rf"(?P<unit>{words.PLURAL_UNITS})\b(?!\s+(?:of|der|des|de|del|du)\b)"
_YEAR_WORD: Final = "(?:year|jahr|jahres|ano|annee|an)"
_RELATIVE_YEAR: Final = (
    rf"(?:(?P<last_year>(?:{words.LAST})\s+{_YEAR_WORD}|{_YEAR_WORD}\s+(?:{words.LAST_AFTER}))"
    rf"|(?:{words.THIS})\s+{_YEAR_WORD})\b"
)
_TO_MONTH: Final = rf"\s*(?:{_TO_WORDS}|(?P<is_list>{_AND_WORDS}))\s*"
_MONTHS_WITHOUT_YEAR: Final = [
    rf"(?P<before>\b(?:{prepositions}|between|zwischen|von|entre|de)\s+)"
    rf"(?P<first_month>{_any_of(names)}){_TO_MONTH}(?P<month>{_any_of(names)})\b(?!['\u2019-])"
    for prepositions, names in words.MONTHS_AFTER.values()
] + [
    rf"(?P<before>\b(?:{prepositions})\s+)(?P<month>{_any_of(names)})\b(?!['\u2019-]|{_OF}\d)"
    for prepositions, names in words.MONTHS_AFTER.values()
]
_BEFORE_DAY: Final = (
    r"(?P<before>\b(?:on|of|from|since|until|am|vom|seit|el|del|le|du|au)\s+(?:the\s+)?)"
)
_BEFORE_YEAR: Final = rf"(?P<before>\b(?:{words.BEFORE_YEAR})\s+)"


def _read_date(match: re.Match[str], today: date) -> Days | None:
    """Read a year, a month or a day, or a range of years or of the months of a year."""
    groups = match.groupdict()
    month = _read_month(groups.get("month"))
    first_month = _read_month(groups.get("first_month")) or month
    crosses_years = month and first_month and first_month > month
    if crosses_years and groups.get("is_list"):
        first_month, month, crosses_years = month, first_month, False
    day = int(groups["day"]) if groups.get("day") else None
    last_year = _read_year(groups, today)
    if last_year is None:
        # The latest such month or day that is not in the future.
        last_year = today.year - (date(today.year, month or 1, day or 1) > today)
    first_year = int(groups.get("first_year") or last_year - bool(crosses_years))
    return _name_days(first_year, first_month, day)[0], _name_days(last_year, month, day)[1]


def _read_east_asian_period(match: re.Match[str], today: date) -> Days:
    return _step_back(*words.EAST_ASIAN_PERIODS[match[0]], today)


def _read_year(groups: dict[str, str | None], today: date) -> int | None:
    if year := groups.get("year"):
        return int(year)
    if short_year := groups.get("short_year"):
        return 2000 + int(short_year)
    if back := groups.get("back"):
        return today.year - words.EAST_ASIAN_PERIODS[back][1]
    if "last_year" in groups:  # It is None if the words mean this year.
        return today.year - bool(groups["last_year"])
    return None


def _read_month(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    return words.MONTH_NUMBERS.get(text) or words.MONTH_NUMBERS[f"{text}月"]


def _name_days(year: int, month: int | None = None, day: int | None = None) -> Days:
    """Return the first and the last day of a year, of a month or of a day."""
    numbers = (f"{number:02}" for number in (month, day) if number is not None)
    span = parse_days("-".join([f"{year:04}", *numbers]), UTC)
    return span.first, span.last


def _span_months(year: int, month: int, count: int = 3) -> Days:
    """Return the first and the last day of several months."""
    last_year, last_month = divmod(year * 12 + month + count - 2, 12)
    return date(year, month, 1), _name_days(last_year, last_month + 1)[1]


def _read_quarter(match: re.Match[str], _: date) -> Days:
    return _span_months(int(match["year"]), 3 * int(match["quarter"]) - 2)


def _read_part_of_year(match: re.Match[str], _: date) -> Days:
    """Read `early 2024`, which is its first third."""
    return _span_months(int(match["year"]), words.YEAR_PARTS[match["part"]], 4)


def _read_season(match: re.Match[str], today: date) -> Days:
    """Read a season of a year, or else the latest that has begun."""
    month = words.SEASONS[match["season"]]
    year = _read_year(match.groupdict(), today)
    return _span_months(year or today.year - (month > today.month), month)


def _read_year_beside_request(match: re.Match[str], _: date) -> Days | None:
    is_request = re.search(words.BESIDE_YEAR, match.string)
    return _name_days(int(match["year"])) if is_request else None


def _read_day_name(match: re.Match[str], today: date) -> Days | None:
    if match["name"] == "hier" and not re.search(words.FRENCH, match.string):
        return None
    return _step_back(words.DAY, words.DAY_NAMES[match["name"]], today)


def _read_count(match: re.Match[str]) -> int:
    return int(match["count"]) if match["count"].isdecimal() else words.COUNTS[match["count"]]


def _read_unit(match: re.Match[str]) -> int:
    unit = match["unit"]
    return words.UNITS[unit] if unit in words.UNITS else words.EAST_ASIAN_UNITS[unit]


def _read_last_units(match: re.Match[str], today: date) -> Days:
    """Read `the last three weeks` or `the last weeks`, which end today."""
    count = _read_count(match) if "count" in match.re.groupindex else words.FEW
    return today - (count * _read_unit(match) - 1) * _DAY, today


def _read_units_ago(match: re.Match[str], today: date) -> Days:
    return _step_back(_read_unit(match), _read_count(match), today)


def _step_back(unit: int, count: int, today: date) -> Days:
    """Return the day, week, month or year of the calendar that many units before this one."""
    if unit == words.DAY:
        return today - count * _DAY, today - count * _DAY
    if unit == words.WEEK:
        monday = today - (today.weekday() + 7 * count) * _DAY
        return monday, monday + 6 * _DAY
    if unit == words.YEAR:
        return _name_days(today.year - count)
    year, month = divmod(today.year * 12 + today.month - 1 - count, 12)
    return _name_days(year, month + 1)


def _read_weekend(_: re.Match[str], today: date) -> Days:
    """Return the latest weekend that has begun."""
    saturday = today - (today.weekday() + 2) % 7 * _DAY
    return saturday, saturday + _DAY


def _read_weekday(match: re.Match[str], today: date) -> Days:
    """Return the latest such day before today, or that of last week."""
    weekday = words.WEEKDAYS[match["weekday"]]
    if match.groupdict().get("last"):
        monday, _ = _step_back(words.WEEK, 1, today)
        return monday + weekday * _DAY, monday + weekday * _DAY
    day = today - ((today.weekday() - weekday - 1) % 7 + 1) * _DAY
    return day, day


_GRAMMAR: Final[list[tuple[str, Reader]]] = [
    # Numbers.
    (rf"(?<!\d)(?P<year>{_YEARS})([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?!\d)", _read_date),
    (rf"(?<![\d.])(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?(?P<year>{_YEARS})", _read_date),
    (
        r"(?<![\d.])(?P<day>[0-3]\d)\.(?P<month>[01]\d)\.(?P<short_year>\d\d)(?!\.?\d)",
        _read_date,
    ),
    (rf"(?<![\d-])(?P<year>{_YEARS})-(?P<month>[01]\d)(?![\d-])", _read_date),
    (rf"(?<![\d/])(?P<month>0\d|1[0-2])/(?P<year>{_YEARS})(?![\d/])", _read_date),
    (rf"(?:(?P<year>{_YEARS})\s*年|{_BACK})の?{_EAST_MONTH}(?:{_EAST_DAY})?", _read_date),
    (rf"(?P<year>{_YEARS})\s*年の?(?P<season>{_SEASON})", _read_season),
    (rf"\bq(?P<quarter>[1-4])(?:{_OF}|\s*/\s*){_YEAR}", _read_quarter),
    (rf"(?<!\d)(?P<year>{_YEARS})\s*[/-]?\s*q(?P<quarter>[1-4])\b", _read_quarter),
    # Names of months and seasons beside a year.
    (
        rf"\b(?P<first_month>{_any_of(words.FULL_MONTHS)}){_TO_MONTH}{_MONTH}{_OF}{_YEAR}",
        _read_date,
    ),
    (rf"{_DAY_NUMBER}{_OF}{_MONTH}{_OF}{_YEAR}", _read_date),
    (rf"\b{_MONTH}\s+{_DAY_NUMBER},?\s+{_YEAR}", _read_date),
    (rf"\b{_MONTH}{_OF}{_YEAR}", _read_date),
    (rf"\b{_FULL_MONTH}{_OF}{_RELATIVE_YEAR}", _read_date),
    (rf"\b(?P<season>{_SEASON}){_OF}{_YEAR}", _read_season),
    (rf"\b(?P<part>{_PART})(?:{_OF}|-)(?P<year>{_YEARS})(?![\da-z'\u2019-])", _read_part_of_year),
    (rf"(?P<year>{_YEARS})\s*年(?P<part>[初中末底])(?!国|國)", _read_part_of_year),
    (rf"\b(?:{words.LAST}|{words.THIS})\s+(?P<season>{_SEASON})\b", _read_season),
    (rf"\b(?P<season>{_SEASON})\s+(?:{words.LAST_AFTER})\b", _read_season),
    # Months and days without a year.
    (rf"{_BEFORE_DAY}{_DAY_NUMBER}{_OF}{_FULL_MONTH}", _read_date),
    (rf"{_BEFORE_DAY}{_FULL_MONTH}\s+{_DAY_NUMBER}(?!\d)", _read_date),
    (rf"(?<!\d){_EAST_MONTH}{_EAST_DAY}", _read_date),
    (rf"(?<![\d年个個か一二三四五六七八九十]){_EAST_MONTH}(?!\d|間|球|天)", _read_date),
    (rf"\b{_FULL_MONTH}\s+(?:pasado|dernier)\b", _read_date),
    *((pattern, _read_date) for pattern in _MONTHS_WITHOUT_YEAR),
    # Years.
    (
        rf"{_BEFORE_YEAR}(?P<first_year>{_YEARS})\s*(?:{_TO_WORDS}|{_AND_WORDS})\s*(?P<year>{_YEARS})(?![\d-])",
        _read_date,
    ),
    (rf"(?P<year>{_YEARS})\s*年(?!間|前)", _read_date),
    (_BEFORE_YEAR + _YEAR, _read_date),
    (_YEAR, _read_year_beside_request),
    # Relative to today.
    (r"\bthe day before yesterday\b", lambda _, today: _step_back(words.DAY, 2, today)),
    (rf"\b(?P<name>{_any_of(filter(str.isascii, words.DAY_NAMES))})\b(?!-)", _read_day_name),
    (rf"(?P<name>{_any_of(words.EAST_ASIAN_DAYS)})", _read_day_name),
    (rf"\b(?:{words.LAST})\s+{_COUNT}\s+{_UNIT}", _read_last_units),
    (rf"\b{_COUNT}\s+derni(?:ers|eres)\s+{_UNIT}", _read_last_units),
    (rf"(?:最近|过去|過去|近|この|ここ)的?{_EAST_COUNT}(?P<unit>{_EAST_UNIT})", _read_last_units),
    (
        rf"\b(?:{words.LAST}|derni(?:ers|eres))\s+(?:few\s+|paar\s+|couple of\s+)?{_PLURAL_UNIT}",
        _read_last_units,
    ),
    (
        rf"(?:最近|过去|過去|近|この|ここ)的?[几幾数數](?P<unit>{_EAST_UNIT})",
        _read_last_units,
    ),
    (rf"\b{_COUNT}\s+{_UNIT}\s+ago\b", _read_units_ago),
    (rf"\b(?:vor|hace|il y a)\s+{_COUNT}\s+{_UNIT}", _read_units_ago),
    (rf"{_EAST_COUNT}(?P<unit>{_EAST_UNIT})(?:之?前|以前)", _read_units_ago),
    (
        rf"\b(?:{words.LAST})\s+{_SINGULAR_UNIT}",
        lambda match, today: _step_back(_read_unit(match), 1, today),
    ),
    (
        rf"\b{_SINGULAR_UNIT}\s+(?:{words.LAST_AFTER})",
        lambda match, today: _step_back(_read_unit(match), 1, today),
    ),
    (
        rf"\b(?:{words.THIS})\s+{_SINGULAR_UNIT}",
        lambda match, today: _step_back(_read_unit(match), 0, today),
    ),
    (_any_of(words.EAST_ASIAN_PERIODS), _read_east_asian_period),
    (words.WEEKEND, _read_weekend),
    (
        rf"(?P<before>\b(?:on|last|since|am|letzten|el|seit)\s+)(?P<weekday>{_WEEKDAY})\b",
        _read_weekday,
    ),
    (rf"\b(?P<weekday>{_WEEKDAY})\s+(?:{words.LAST_AFTER})\b", _read_weekday),
    (r"(?P<last>上)?(?:周|週|星期|礼拜)(?P<weekday>[一二三四五六日天])", _read_weekday),
    (r"(?P<weekday>[月火水木金土日])曜", _read_weekday),
]
"""The expressions that name days, longer ones first, each with its reader."""


@lru_cache(maxsize=1)
def _compile_grammar() -> list[tuple[re.Pattern[str], Reader]]:
    """Compile the grammar. Takes a few ms."""
    return [(re.compile(pattern), read) for pattern, read in _GRAMMAR]
