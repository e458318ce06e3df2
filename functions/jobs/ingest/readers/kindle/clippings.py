"""Reads Kindle's `My Clippings.txt`, with all highlights and notes that were made on a device.

An entry consists of a line with title and author, a line with kind, position and date in the
language of the device, an empty line, the text, and a line of ten equals signs. The device only
appends entries: earlier versions of an extended highlight, and deleted highlights, stay in the
file.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.jobs.ingest.readers.decoding import UTF16_MARKS, DecodedText, read_any_text
from functions.jobs.ingest.readers.fields import clean, to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.kindle.annotation import (
    LANGUAGES,
    Annotation,
    AnnotationKind,
    Position,
    format_authors,
    infer_position,
    parse_kind,
    parse_position,
)
from functions.jobs.ingest.readers.kindle.merging import make_sections
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
    make_refusal,
)
from functions.jobs.ingest.readers.written_dates import parse_datetime
from shared.core.ids import IdKind, make_id
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES: Final = 32 * MEGABYTE
"""The maximum size of a file."""
NAME: Final = "My Clippings.txt"
_NAMES: Final = ("clippings", "mis recortes", "meus recortes", "mes extraits", "miei ritagli")
_SEPARATOR: Final = re.compile(r"^={10,}[ \t]*$|\0", re.MULTILINE)
"""The end of an entry: a line of equals signs, or a damaged block as in `_read_text`."""
_FIRST_ENTRY: Final = re.compile(r"[\s=\ufeff]*[^\n]+\n[ \t\ufeff]*- [^\n|]*\d[^\n|]*\|[^\n]*\d")
"""How a file begins: a title, and below it a line such as `- Your Highlight on page 7 | Added on
1 May 2024`."""
_TITLE: Final = re.compile(r"(.*\S)\s*\(((?:[^()]|\([^()]*\))*)\)")
_NOT_AN_AUTHOR: Final = re.compile(
    r"\b(?:editions?|edici[óo]n|ediciones|éditions?|edizion[ei]|edição|edições|ausgabe"
    r"|classics?|klassiker|cl[áa]sicos|classiques|classici|clássicos|klassieken"
    r"|series?|série|reihe|reeks|saga|trilog(?:y|ie|[íi]a)|chronicles|omnibus|anthology"
    r"|collection|colecci[óo]n|coleção|collana|publish(?:ing|ers)|publications|verlag"
    r"|university press|(?:un)?abridged|annotated|illustrated|kindle|e-?book|\d+(?:st|nd|rd|th))\b"
    r"|\bbooks?$|\b(?:book|part|volume|vol\.) \w+$|(?:^|[\s#.])\d+$"
    r"|^(?:an? |the |ein |une? |una )?(?:novel|novella|memoir|roman|novela|romanzo|thriller)$"
    r"|文庫|新書|ブックス|コミックス|シリーズ|版$",
    re.IGNORECASE,
)
"""Text in parentheses after a title that is not an author: an edition, a series, a publisher."""
_PART_SEPARATOR: Final = re.compile(r"\s*[|\uff5c]\s*")
_LIMIT_PLACEHOLDER: Final = re.compile(r"<[^<>\n]{10,200}>")
"""The placeholder for the text when the publisher's limit on copied text is reached."""
_NO_HEADING: Final = "has no line such as `- Your Highlight on page 12 | Added on ...`"
_UNNAMED: Final = "Untitled"
_FAULTS: Final = {
    "empty": "without text; left out",
    "limit": "without text: the publisher's limit on clippings was reached; left out",
    "language": f"with a heading that is not in {LANGUAGES}; kept as a highlight",
    "date": "with a date that cannot be read; kept without a date",
}
"""What is wrong with entries, in the words of a warning."""


class _Entry(NamedTuple):
    """An entry of the file.

    Attributes:
        line: The line on which it begins, from 1.
        title: The line with the title and the author.
        heading: The line with kind, position and date, such as `- Your Highlight on page 7 | ...`.
    """

    line: int
    title: str
    heading: str
    text: str


@dataclass(slots=True)
class _Book:
    """The entries of a book.

    Attributes:
        faults: The number of entries with each fault, by a key of `_FAULTS`.
    """

    title: str
    author: str | None
    annotations: list[Annotation] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


def recognizes(text: str) -> bool:
    """Return whether a text begins like Kindle clippings in any language."""
    return bool(_FIRST_ENTRY.match(text) and _SEPARATOR.search(text))


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file, in the order in which they were first read.

    Raises:
        Unreadable: The file has no clippings.
    """
    text, file_warnings = _read_text(file)
    entries: dict[str, list[_Entry]] = defaultdict(list)
    lines_without_heading: list[int] = []
    for entry in _split_entries(text):
        if entry.heading.startswith("-"):
            entries[entry.title].append(entry)
        else:
            lines_without_heading.append(entry.line)
    if not text.strip("\ufeff \n"):
        raise Unreadable("is empty")
    if not entries:
        raise Unreadable(f"is not a Kindle's {NAME}: rename it to have it read as text")
    for line in lines_without_heading:  # counted as refused when they are built
        yield make_refusal(f"{file.name} line {line}", _NO_HEADING)
    for source_id, book in _group_by_book(entries).items():
        if book.annotations or book.faults:
            yield Record(
                f"{file.name}: {to_headline(book.title, 80)}",
                partial(_build_source, source_id, book, file_warnings),
            )
            file_warnings = ()  # only the first book reports them


def _read_text(file: SourceFile) -> DecodedText:
    """Read a file that may be damaged.

    If a Kindle is unplugged while it writes, it leaves blocks of NUL bytes in the file. Each block
    becomes one NUL character in the text.
    """
    data = b""  # `read_any_text` refuses a file that is too large
    if not describe_excess(file.path.stat().st_size, MAX_BYTES):
        data = file.path.read_bytes()
    if b"\0" not in data or data.startswith(UTF16_MARKS):
        text, warnings = read_any_text(file.path, MAX_BYTES)
        return DecodedText(clean(text), warnings)
    parts = re.split("\0+", data.decode("utf-8-sig", "replace"))
    count = len(parts) - 1
    warning = (
        f"has {count:,} damaged {'block' if count == 1 else 'blocks'} of NUL bytes, as after"
        " unplugging; an entry there may be incomplete"
    )
    return DecodedText("\0".join(map(clean, parts)), (warning,))


def _split_entries(text: str) -> Iterator[_Entry]:
    line, start = 1, 0
    for end in [*_SEPARATOR.finditer(text), None]:
        entry = text[start : end.start() if end else None]
        parts = entry.replace("\ufeff", "").strip().split("\n", 2)
        if parts[0]:
            blank = len(entry) - len(entry.lstrip("\ufeff \t\n"))
            title, heading, content = (part.strip() for part in (*parts, "", "")[:3])
            yield _Entry(line + entry.count("\n", 0, blank), title, heading, content)
        if end:
            line += text.count("\n", start, end.end())
            start = end.end()


def _group_by_book(entries: Mapping[str, list[_Entry]]) -> dict[str, _Book]:
    books: dict[str, _Book] = {}
    for title_line, entries_of_title in entries.items():
        title, author = _parse_title(title_line)
        book = books.setdefault(make_source_id(title, author), _Book(title, author))
        for entry in entries_of_title:
            _add_entry(book, entry)
    return books


def _add_entry(book: _Book, entry: _Entry) -> None:
    """Add an entry to its book. Bookmarks and empty notes are left out."""
    *places, date = _PART_SEPARATOR.split(entry.heading)
    # A heading of one part may be damaged, and still name the kind.
    kind = parse_kind(" ".join(places) or date)
    is_highlight = kind is AnnotationKind.HIGHLIGHT
    if kind is AnnotationKind.BOOKMARK or (not entry.text and not is_highlight):
        return
    if not entry.text or _LIMIT_PLACEHOLDER.fullmatch(entry.text):
        book.faults["limit" if entry.text else "empty"] += 1
        return
    added_at = parse_datetime(date)
    if kind is None:
        book.faults["language"] += 1
    if added_at is None:
        book.faults["date"] += 1
    position = parse_position(entry.heading)
    if position == Position():
        position = infer_position(places)
    book.annotations.append(Annotation(kind, entry.text, position, added_at))


def _parse_title(line: str) -> tuple[str, str | None]:
    """Return the title and the author of `Title (Subtitle) (Helm, Ann)`."""
    match = _TITLE.fullmatch(line)
    if match and not _NOT_AN_AUTHOR.search(match[2].strip()):
        return to_headline(match[1]), format_authors(to_one_line(match[2]))
    return to_headline(line) or _UNNAMED, None


def make_source_id(title: str, author: str | None) -> str:
    """Return the id of a book's source."""
    name = unicodedata.normalize("NFKC", f"{title}\0{author or ''}").casefold()
    return make_id(IdKind.KINDLE_BOOK, name)


def _build_source(source_id: str, book: _Book, file_warnings: tuple[str, ...]) -> Source:
    warnings = (*_describe_faults(book.faults), *file_warnings)
    if not book.annotations:
        raise Unreadable(f"has no text: {'; '.join(warnings)}")
    return Source(
        source_id=source_id,
        title=book.title,
        author=book.author,
        origin="kindle",
        category="books",
        sections=tuple(make_sections(book.annotations)),
        warnings=warnings,
    )


def _describe_faults(faults: Counter[str]) -> Iterator[str]:
    for name, reason in _FAULTS.items():
        if count := faults[name]:
            yield f"{count:,} {'entry' if count == 1 else 'entries'} {reason}"


FORMAT: Final = Format(
    name="Kindle clippings",
    extensions=(".txt",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "the file's name": f"must contain one of {', '.join(f'`{name}`' for name in _NAMES)}",
        "Title (Series) (Author)": "the title with the series, and the author, of a source; its id"
        " is made of both",
        "Highlight": "a passage; if it was repeated or extended, the longest version is kept",
        "Note": "joined to the highlight at its location, after an empty line; otherwise a passage;"
        " Readwise's action tags apply: `.h1` a chapter, `.c1`, `.c2` one passage, `.d` left"
        " out, `.word` a tag",
        "Bookmark": "left out",
        "page, Location": "the page, and the location",
        "Added on": "the date of the passage, by the Kindle's clock; a passage without a date that"
        " can be read is not among the recent ones: search finds it, and `get_source` lists it",
    },
    example="On tests (Helm, Ann)\n"
    "- Your Highlight on page 12 | Location 150-155 | Added on Friday, May 31, 2024 4:41:53 PM\n\n"
    "A flaky test is worse than none.\n==========\n",
    identity=Identity.ORIGIN,
    adds_only=True,
    name_pattern=re.compile("|".join(_NAMES)),
)
