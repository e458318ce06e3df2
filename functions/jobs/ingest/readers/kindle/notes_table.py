"""Reads the table of a book's highlights that a Kindle app sends by email ("Export notes").

    "Your Kindle Notes For:",,,
    "ON KNOTS",,,
    "by Vera Lind",,,
    ...
    "Annotation Type","Location","Starred?","Annotation"
    "Highlight (Yellow)","Location 93","*","A knot is a promise."
    "Note","Location 93","","So true."

The words are in the language of the app. The table always has these four columns.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import clean, to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.kindle.annotation import (
    Annotation,
    AnnotationKind,
    Position,
    infer_position,
    parse_kind,
    parse_position,
)
from functions.jobs.ingest.readers.kindle.clippings import make_source_id
from functions.jobs.ingest.readers.kindle.notebook import make_sections
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
)
from functions.jobs.ingest.readers.tables import name_cells, parse_rows, split_rows
from shared.knowledge.source import Source
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from functions.jobs.ingest.readers.tables import CsvRow, Row

MAX_BYTES: Final = 16 * MEGABYTE
"""The maximum size of a file."""
_KIND, _LOCATION, _STARRED, _TEXT = _COLUMNS = ("kind", "location", "starred", "text")
_BEGINNING: Final = re.compile(
    r"\A\s*\"?[^\",;\t\r\n]*Kindle[^\",;\t\r\n]*\"?[,;\t ]*[\r\n]", re.IGNORECASE
)
"""`Your Kindle Notes For:`, `Ihre Kindle-Notizen für:` ..., alone on the first line."""
_NO_AUTHOR: Final = re.compile(r"-{5,}|https?://.*|.*[:\uff1a]")
"""Other lines above the table: `Free Kindle instant preview:`, its address, a line of hyphens."""
_BY: Final = re.compile(
    r"\A(?:(?:by|von|par|por|de|di|da|door|af|av)\s|(?:autor|著者|作者)\s*[:\uff1a])\s*",
    re.IGNORECASE,
)
"""The word before the author, in several languages."""


def recognizes(beginning: str) -> bool:
    """Return whether a table that begins like this comes from a Kindle app."""
    return bool(_BEGINNING.match(beginning))


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the book of a file, and the rows that cannot be read.

    Raises:
        Unreadable: The file has no table, or is cut off.
    """
    text, warnings = read_any_text(file.path, MAX_BYTES)
    book, table = _split(parse_rows(text))
    rows, refusals = split_rows(file, name_cells(table, _COLUMNS))
    yield from refusals
    yield Record(file.name, partial(_make_source, book, rows, warnings))


def _split(rows: Sequence[CsvRow]) -> tuple[list[str], Sequence[CsvRow]]:
    """Return the lines about the book, without the first line of the file, and the table's rows."""
    lines: list[str] = []
    for index, row in enumerate(rows):
        cells = [cell for cell in map(to_one_line, row.cells) if cell]
        if len(cells) >= len(_COLUMNS):
            return lines[1:], rows[index + 1 :]
        lines += cells[:1]
    raise Unreadable("is not a complete table of Kindle notes: no row has four columns")


def _make_source(book: Sequence[str], rows: Sequence[Row], warnings: tuple[str, ...]) -> Source:
    title, author = (*(line for line in book[:2] if not _NO_AUTHOR.fullmatch(line)), "", "")[:2]
    author = _BY.sub("", author)
    annotations = [_parse_annotation(row) for row in rows]
    present = [
        annotation
        for annotation in annotations
        if annotation.text and annotation.kind is not AnnotationKind.BOOKMARK
    ]
    if not present:
        raise Unreadable("has no highlights and no notes")
    if empty := sum(
        annotation.kind is AnnotationKind.HIGHLIGHT and not annotation.text
        for annotation in annotations
    ):
        warnings += (f"has {format_count(empty, 'highlight')} without text; left out",)
    return Source(
        source_id=make_source_id(title, author or None),
        title=to_headline(title) or "Untitled",
        author=author or None,
        origin="kindle",
        category="books",
        sections=tuple(make_sections(present)),
        warnings=warnings,
    )


def _parse_annotation(row: Row) -> Annotation:
    """Parse a row. In an unknown language, a row that names a colour is a highlight."""
    kind_name, location = row.cells[_KIND], row.cells[_LOCATION]
    kind = parse_kind(kind_name) or (
        AnnotationKind.HIGHLIGHT if "(" in kind_name else AnnotationKind.NOTE
    )
    position = parse_position(location)
    if position == Position() and location.strip():
        position = infer_position([location])
    is_starred = bool(row.cells[_STARRED].strip())
    return Annotation(kind, clean(row.cells[_TEXT]).strip(), position, is_starred=is_starred)


FORMAT: Final = Format(
    name="Kindle notes as a table",
    extensions=(".csv",),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    fields={
        "the lines above the table": "the title and the author of a source; its id is made from"
        " both, as in Kindle clippings",
        "Annotation": "a passage; a note is joined to the highlight before it, after an empty line",
        "Annotation Type": "highlight or note; colours and bookmarks are left out",
        "Location": "the page or the location",
        "Starred?": "the tag `favorite`",
    },
    example='"Your Kindle Notes For:",,,\n"ON TESTS",,,\n"by Ann Helm",,,\n,,,\n'
    '"Annotation Type","Location","Starred?","Annotation"\n'
    '"Highlight (Yellow)","Location 150","*","A flaky test is worse than none."\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
