"""The highlights, notes and bookmarks of a Kindle, and their headings in several languages."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Final

from shared.knowledge.source import Locator, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

LANGUAGES: Final = (
    "English, German, Spanish, French, Italian, Portuguese, Dutch, Japanese and Chinese"
)
"""The languages of the headings that are read."""


class AnnotationKind(Enum):
    """What a reader leaves in a book. The values are the words for it in headings."""

    BOOKMARK = "bookmark lesezeichen marcador signet segnalibro bladwijzer ブックマーク 书签 書籤"
    NOTE = "note notiz nota notitie メモ 笔记 筆記"
    HIGHLIGHT = (
        "highlight clip clipping markierung ausschnitt subrayado resaltado recorte"
        " surlignement surlignage extrait evidenziazione ritaglio destaque markering knipsel"
        " ハイライト クリップ 标注 標註"
    )


_KINDS: Final = {word: kind for kind in AnnotationKind for word in kind.value.split()}
_MONTH_NAMES: Final = """
january february march april may june july august september october november december
januar februar märz april mai juni juli august september oktober november dezember
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
januari februari maart april mei juni juli augustus september oktober november december
"""
_MONTHS: Final = {
    name: number
    for line in _MONTH_NAMES.strip().splitlines()
    for number, name in enumerate(line.split(), start=1)
}
_WORD: Final = re.compile(r"[^\W\d_の的]+")
"""A word. `の` in Japanese and `的` in Chinese join two without blanks: `150-155のハイライト`."""
_PAGE: Final = re.compile(
    r"\b(?:page|seite|p[áa]gina|ページ)\s+(?:(?P<page>\d{1,7})|(?P<numeral>[ivxlcdm]+)\b)"
    r"|(?<!\d)(?P<before>\d{1,7})\s*(?:ページ|[页頁])"
)
_LOCATION: Final = re.compile(
    r"(?:\b(?:location|loc|position|pos|posici[óo]n|emplacement|posizione|posi[çc][ãa]o|locatie)"
    r"|位置(?:no)?)\b"
    r"[.\s]*#?(\d{1,8})(?:\s*[-\u2013]\s*(\d{1,8}))?"
)
_EAST_ASIAN_DATE: Final = re.compile(r"\b(\d{4})年(\d{1,2})月(\d{1,2})日")
_TIME: Final = re.compile(
    r"(?P<half>[上下]午)?(?<![\d:.])(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    r"(?:\s*(?P<m>[ap])\.?\s?m\b)?(?:.*GMT(?P<zone>[+-]\d\d):?(?P<minutes>\d\d))?",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_DAY: Final = re.compile(r"\b(\d{1,2})(?:er|[º°])?(?!\w)")
"""A day. In French and Italian, the first of a month is an ordinal number: `1er août`."""
_NOON: Final = 12
_AFTERNOON: Final = frozenset({"p", "下午"})
_SUFFIX: Final = re.compile(r"(?:inc|ltd|llc|gmbh|co|jr|sr|ph\.?d|m\.?d|[ivx]+)\.?", re.IGNORECASE)
_INITIAL: Final = re.compile(r"[^\W\d_]\.?")
_PARTICLES: Final = frozenset(
    (
        *("af", "al", "av", "ben", "bin", "da", "das", "de", "del", "della", "den", "der", "di"),
        *("do", "dos", "du", "el", "ibn", "la", "las", "le", "los", "te", "ten", "ter", "van"),
        *("vom", "von", "zu", "zur", "De", "Du", "La", "Le", "Van", "Von"),
    )
)
"""Words with which a family name may begin. `Ben` and `Al` in capitals are first names."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a book.

    Attributes:
        page: The page.
        numeral: A Roman page number, in front matter.
        start: The first location, a unit of some 150 characters that does not depend on the font.
        end: The last location.
    """

    page: int | None = None
    numeral: str | None = None
    start: int | None = None
    end: int | None = None

    @property
    def locator(self) -> Locator:
        """The position as it is stored."""
        location = self.numeral if self.page is None else None
        if self.start is not None:
            is_range = self.end is not None and self.end > self.start
            location = f"{self.start}-{self.end}" if is_range else str(self.start)
        return Locator(page=self.page, location=location)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A highlight or a note.

    Attributes:
        kind: What it is; None if its heading is in another language.
        text: The highlighted text, or the note.
        position: Where it is.
        added_at: When it was made, by the clock of the Kindle, as if that were UTC.
        chapter: The title of its chapter.
    """

    kind: AnnotationKind | None
    text: str
    position: Position = Position()
    added_at: datetime | None = None
    chapter: str | None = None


def parse_kind(heading: str) -> AnnotationKind | None:
    """Return the kind that the beginning of a heading names, in any of the languages."""
    words = set(_WORD.findall(normalise(heading)))
    kinds = {_KINDS[word] for word in words & _KINDS.keys()}
    return next((kind for kind in AnnotationKind if kind in kinds), None)


def parse_position(heading: str) -> Position:
    """Return the page and the location in a heading; the last ones, as a chapter may name some."""
    text = normalise(heading)
    page = numeral = start = end = None
    for match in _PAGE.finditer(text):
        number, numeral = match["page"] or match["before"], match["numeral"]
        page = int(number) if number else None
    for match in _LOCATION.finditer(text):
        start, end = int(match[1]), _parse_range_end(match[1], match[2])
    return Position(page or None, numeral, start, end)


def _parse_range_end(start: str, end: str | None) -> int:
    """Return the last location; older Kindles write `1204-07` for `1204-1207`."""
    if end is None:
        return int(start)
    whole = start[: max(0, len(start) - len(end))] + end
    return max(int(start), int(whole))


def parse_moment(text: str) -> datetime | None:
    """Return the date in a heading, with its time if it has one; None if it cannot be read.

    The time is the local one of the Kindle and is taken to be UTC, unless the heading names its
    offset.
    """
    time = _TIME.search(text)
    date = _parse_date(text[: time.start()] + " " + text[time.end() :] if time else text)
    if date is None:
        return None
    try:
        moment = datetime(*date, tzinfo=UTC)
        return _add_time(moment, time) if time else moment
    except (ValueError, OverflowError):
        return None


def _parse_date(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day."""
    if match := _EAST_ASIAN_DATE.search(text):
        return int(match[1]), int(match[2]), int(match[3])
    date = normalise(text)
    month = next((_MONTHS[word] for word in _WORD.findall(date) if word in _MONTHS), None)
    year, day = _YEAR.search(date), _DAY.search(date)
    if month is None or year is None or day is None:
        return None
    return int(year[0]), month, int(day[1])


def _add_time(day: datetime, time: re.Match[str]) -> datetime:
    hour, minute, second = int(time["hour"]), int(time["minute"]), int(time["second"] or 0)
    if half := time["half"] or time["m"]:
        hour = hour % _NOON + (_NOON if half.lower() in _AFTERNOON else 0)
    zone: timezone = UTC
    if time["zone"]:
        sign = -1 if time["zone"].startswith("-") else 1
        hours, minutes = abs(int(time["zone"])), int(time["minutes"])
        zone = timezone(sign * timedelta(hours=hours, minutes=minutes))
    return day.replace(hour=hour, minute=minute, second=second, tzinfo=zone).astimezone(UTC)


def parse_authors(text: str) -> str | None:
    """Return names as people write them: `Helm, Ann;Bo Sea` is `Ann Helm, Bo Sea`."""
    names = []
    for name in filter(None, map(str.strip, text.split(";"))):
        last, _, first = (part.strip() for part in name.partition(","))
        names.append(f"{first} {last}" if _is_inverted(last, first) else name)
    return ", ".join(names) or None


def _is_inverted(last: str, first: str) -> bool:
    """Return whether the texts around a comma are one name, not two names or a company's.

    One name are `Gaiman, Neil`, `de la Mare, Walter John` and `Le Guin, Ursula K.`; two names are
    `Neil Gaiman, Terry Pratchett`.
    """
    if not last or not first or "," in first or _SUFFIX.fullmatch(first):
        return False
    last_words, first_words = last.split(), first.split()
    return (
        len(last_words) == 1
        or len(first_words) == 1
        or last_words[0] in _PARTICLES
        or first_words[-1] in _PARTICLES
        or bool(_SUFFIX.fullmatch(last_words[-1]) or _INITIAL.fullmatch(first_words[-1]))
    )


def make_section(annotation: Annotation, notes: Sequence[Annotation] = ()) -> Section:
    """Return the section of a highlight with the notes about it, or of a note by itself."""
    locator = replace(annotation.position.locator, chapter=annotation.chapter)
    return Section(
        "\n\n".join([annotation.text, *(note.text for note in notes)]),
        highlighted_at=annotation.added_at,
        locators=((0, locator),) if locator != Locator() else (),
    )


def normalise(text: str) -> str:
    """Return a text in lower case, with one spelling of accents, to compare it."""
    return unicodedata.normalize("NFC", text).casefold()
