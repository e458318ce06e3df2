"""Finds the title and the date in the file name of a note.

| name | meaning |
|---|---|
| `2024-05-31 Reefs`, `Reefs 20240531`, `2024_05_31`, `31.05.2024` | the day |
| `May 31, 2024`, `31. Mai 2024`, `2024年5月31日` | the day, in the languages of `MONTHS` |
| `202405311642 Reefs`, `Reefs 20240531164153` | the time, and the title `Reefs` (Zettelkasten) |
| `Reefs 0123456789abcdef0123456789abcdef` | the title `Reefs` (Notion) |
| `Boats___Reefs` | the title `Boats/Reefs` (Logseq) |
"""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.written_dates import parse_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTION_ID: Final = re.compile(r"(?:\A|[ _-])([0-9a-f]{32})(?:_all)?\Z")
"""The id that Notion adds to a file name, with the separator before it."""
_TIME_ID: Final = re.compile(
    r"(?<!\d)((?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d"
    r"(?:[0-5]\d)?)(?!\d)"
)
"""The id of a Zettelkasten note: the minute or second in which it was created."""
_OUTER_TIME_ID: Final = re.compile(
    rf"\A{_TIME_ID.pattern}[ _.-]+(?=\w)|(?<=\w)[ _.-]+{_TIME_ID.pattern}\Z"
)
_DAY: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
_DAY_FIRST: Final = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)(?!\d)")
"""A date such as 31.05.2024. With dots, the day comes first everywhere."""
_GAP, _MONTH, _YEAR = r"[ _.,-]{1,2}(?:de[ _-])?", r"[^\W\d_]{3,12}", r"(?:19|20)\d\d"
_WRITTEN: Final = re.compile(
    rf"(?<!\d)(?:{_MONTH}{_GAP}\d{{1,2}}(?:st|nd|rd|th)?{_GAP}{_YEAR}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º)?{_GAP}{_MONTH}{_GAP}{_YEAR}"
    rf"|{_YEAR}(?:[年년] ?\d{{1,2}}[月월] ?\d{{1,2}}[日일]|{_GAP}{_MONTH}{_GAP}\d{{1,2}}))(?!\d)"
)
"""A date with the name of the month."""


def find_title(stem: str) -> str:
    """Return a name without the ids that programs add, unless that leaves nothing."""
    title = _OUTER_TIME_ID.sub("", NOTION_ID.sub("", stem))
    return title.replace("___", "/") or stem


def find_date(stem: str) -> datetime | None:
    """Return the first date in a name, without a time zone.

    Years before 1900 are ignored: they are more likely to be what the file is about.
    """
    name = unicodedata.normalize("NFC", NOTION_ID.sub("", stem))
    return next(_iterate_dates(name), None)


def _iterate_dates(name: str) -> Iterator[datetime]:
    for match in _TIME_ID.finditer(name):
        with suppress(ValueError):
            yield datetime.strptime(f"{match[1]:0<14}", "%Y%m%d%H%M%S")  # noqa: DTZ007 - the owner's
    for match in _DAY.finditer(name):
        with suppress(ValueError):
            yield datetime.combine(date(int(match[1]), int(match[3]), int(match[4])), time.min)
    for match in _DAY_FIRST.finditer(name):
        with suppress(ValueError):
            yield datetime.combine(date(int(match[3]), int(match[2]), int(match[1])), time.min)
    for match in _WRITTEN.finditer(name):
        if written := parse_datetime(re.sub("[_.,-]", " ", match[0])):
            yield written
