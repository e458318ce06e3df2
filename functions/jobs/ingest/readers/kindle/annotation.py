"""Parses the headings of Kindle highlights, notes and bookmarks in several languages."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import fold_text, to_headline
from functions.jobs.ingest.readers.readwise.export import FAVORITE_TAG
from shared.knowledge.source import Locator, Section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

LANGUAGES: Final = (
    "English, German, Spanish, French, Italian, Portuguese, Dutch, Japanese, Chinese, Korean,"
    " Russian, Polish, Turkish and Swedish"
)
"""The languages in which headings are understood."""


class AnnotationKind(Enum):
    """The kinds of marks that a reader makes in a book."""

    BOOKMARK = "bookmark"
    NOTE = "note"
    HIGHLIGHT = "highlight"


_WORDS_BY_KIND: Final = {
    AnnotationKind.BOOKMARK: (
        "bookmark lesezeichen marcador signet segnalibro bladwijzer ブックマーク 书签 書籤"
        " 북마크 책갈피 закладка zakładka işareti işaretiniz bokmärke"
    ),
    AnnotationKind.NOTE: (
        "note notiz nota notitie メモ 笔记 筆記 메모 заметка notatka not notu notunuz anteckning"
    ),
    AnnotationKind.HIGHLIGHT: (
        "highlight clip clipping markierung ausschnitt subrayado resaltado recorte"
        " surlignement surlignage extrait evidenziazione ritaglio destaque marcação markering"
        " knipsel ハイライト クリップ 标注 標註 하이라이트 выделенный отрывок zaznaczenie"
        " zakreślenie vurgu vurgunuz överstrykning"
    ),
}
"""The words for each kind in headings."""
_KIND_BY_WORD: Final = {
    word: kind for kind, words in _WORDS_BY_KIND.items() for word in words.split()
}
_WORD: Final = re.compile(r"[^\W\d_の的]+")
"""A word. `の` in Japanese and `的` in Chinese join two words without spaces:
`150-155のハイライト`."""
_PAGE: Final = re.compile(
    r"\b(?:page|seite|p[áa]gina|ページ|странице|стр|stron[ae]|stronie|sidan?)\.?"
    r"\s+(?:(?P<page>\d{1,7})(?:\s*[-\u2013]\s*(?P<last>\d{1,7}))?|(?P<roman>[ivxlcdm]+)\b)"
    r"|(?<!\d)(?P<before>\d{1,7})(?:\s*[-\u2013]\s*(?P<last_before>\d{1,7}))?\.?"
    r"\s*(?:ページ|[页頁]|페이지|sayfa)"
)
"""A page number, or a range of pages, after the word for page or, in Japanese, Chinese, Korean and
Turkish, before it."""
_LOCATION: Final = re.compile(
    r"(?:(?:\b|\u02bc)(?:location|loc|position|pos|posici[óo]n|emplacement|posizione|posi[çc][ãa]o|locatie"
    r"|мест[оае]|lokalizacja|konum|plats)|位置(?:no)?|위치)\b"  # noqa: RUF001 - Cyrillic
    r"[.\s]*#?(?P<first>\d{1,8})(?:\s*[-\u2013]\s*(?P<last>\d{1,8}))?"
)
"""A location or a range of locations after the word for location."""
_RANGE: Final = re.compile(r"(\d{1,8})(?:\s*[-\u2013]\s*(\d{1,8}))?")
"""A number, or a range of numbers."""
_SUFFIX: Final = re.compile(r"(?:inc|ltd|llc|gmbh|co|jr|sr|ph\.?d|m\.?d|[ivx]+)\.?", re.IGNORECASE)
"""A suffix of a company's or a person's name, which may follow a comma: `Helm, Inc.`."""
_INITIAL: Final = re.compile(r"[^\W\d_]\.?")
_PARTICLES: Final = frozenset(
    (
        *("af", "al", "av", "ben", "bin", "da", "das", "de", "del", "della", "den", "der", "di"),
        *("do", "dos", "du", "el", "ibn", "la", "las", "le", "los", "te", "ten", "ter", "van"),
        *("vom", "von", "zu", "zur", "De", "Du", "La", "Le", "Van", "Von"),
    )
)
"""Particles that may begin a family name. Capitalized, `Ben` and `Al` are first names."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a book.

    Attributes:
        page: The page number, unless it is in Roman numerals.
        place: A page number in Roman numerals, as in a preface, or a place in words of a language
            that is not one of `LANGUAGES`.
        first_location: The first Kindle location. Locations count units of about 150 characters,
            whatever the font.
        last_location: The last Kindle location.
        last_page: The last page, if `page` is the first of several.
    """

    page: int | None = None
    place: str | None = None
    first_location: int | None = None
    last_location: int | None = None
    last_page: int | None = None

    @property
    def end(self) -> int:
        """The last location or, without locations, the last page; 0 without either."""
        if self.first_location is not None:
            return self.last_location or self.first_location
        return self.last_page or self.page or 0

    @property
    def locator(self) -> Locator:
        """The position as it is stored."""
        location = self.place if self.page is None else None
        if (first := self.first_location) is not None:
            last = self.last_location
            is_range = last is not None and last > first
            location = f"{first}-{last}" if is_range else str(first)
        return Locator(page=self.page, location=location)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A highlight, a note or a bookmark. Bookmarks do not become sections.

    Attributes:
        kind: The kind; None if the language of its heading is not one of `LANGUAGES`.
        added_at: When the annotation was made: in UTC if the heading gives an offset, and otherwise
            by the Kindle's clock, without a zone.
    """

    kind: AnnotationKind | None
    text: str
    position: Position = Position()
    added_at: datetime | None = None
    chapter: str | None = None
    is_starred: bool = False


def parse_kind(heading: str) -> AnnotationKind | None:
    """Return the kind named in a heading; if several are named, the first in the enum's order."""
    words = set(_WORD.findall(fold_text(heading)))
    kinds = {_KIND_BY_WORD[word] for word in words & _KIND_BY_WORD.keys()}
    return next((kind for kind in AnnotationKind if kind in kinds), None)


def parse_position(heading: str) -> Position:
    """Return the page and the location in a heading.

    The last page and the last location count, because a chapter title before them may look like
    either.
    """
    text = fold_text(heading)
    page = roman_page = first_location = last_location = last_page = None
    for match in _PAGE.finditer(text):
        number, roman_page = match["page"] or match["before"], match["roman"]
        page = int(number) if number else None
        last = match["last"] or match["last_before"]
        last_page = _parse_last(number, last) if number and last else None
    for match in _LOCATION.finditer(text):
        first_location = int(match["first"])
        last_location = _parse_last(match["first"], match["last"])
    return Position(page or None, roman_page, first_location, last_location, last_page)


def infer_position(places: Sequence[str]) -> Position:
    """Return the position in a heading of another language than `LANGUAGES`, without its date.

    A Kindle writes the page, a vertical bar, and the location. A lone number may be either, so the
    words around it are kept.

    Args:
        places: The parts of the heading, such as `- Dit højdepunkt på side 12` and
            `Placering 150-155`.
    """
    numbers = [numbers[-1] for place in places if (numbers := [*_RANGE.finditer(place)])]
    match numbers:
        case []:
            return Position()
        case [page, location]:
            last = _parse_last(location[1], location[2])
            return Position(int(page[1]), first_location=int(location[1]), last_location=last)
        case _:
            return Position(place=to_headline(" | ".join(places).lstrip("- ")))


def _parse_last(first: str, last: str | None) -> int:
    """Return the last number of a range. Older Kindles write `1204-07` for `1204-1207`."""
    if last is None:
        return int(first)
    whole = first[: max(0, len(first) - len(last))] + last
    return max(int(first), int(whole))


def format_authors(text: str) -> str | None:
    """Put first names first: `Helm, Ann;Bo Sea` becomes `Ann Helm, Bo Sea`. Return None for ""."""
    names = []
    for name in filter(None, map(str.strip, text.split(";"))):
        last, _, first = (part.strip() for part in name.partition(","))
        names.append(f"{first} {last}" if _is_inverted(last, first) else name)
    return ", ".join(names) or None


def _is_inverted(last: str, first: str) -> bool:
    """Return whether `last, first` is one inverted personal name, not two names or a company.

    `Gaiman, Neil`, `de la Mare, Walter John` and `Le Guin, Ursula K.` are one name;
    `Neil Gaiman, Terry Pratchett` is two. Two names have at least two words each. Longer texts are
    one name if `last` begins with a particle or ends with a suffix, or if `first` ends with a
    particle or an initial.
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


def make_section(
    annotation: Annotation, notes: Sequence[str] = (), tags: tuple[str, ...] = ()
) -> Section:
    """Return the section of a highlight with the notes about it, or of a lone note."""
    locator = replace(annotation.position.locator, chapter=annotation.chapter)
    return Section(
        "\n\n".join([annotation.text, *notes]),
        tags=(*tags, FAVORITE_TAG) if annotation.is_starred else tags,
        highlighted_at=annotation.added_at,
        # One locator, from offset 0: the whole text is at the same position.
        locators=((0, locator),) if locator != Locator() else (),
    )
