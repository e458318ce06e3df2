"""Readwise's own CSV export, from readwise.io/export: a highlight a row, a source a book.

It has no ids. A book's id is a hash of its title and author, so it is the same in a later export,
but not that of the same book from the API.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter, defaultdict
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import readwise_export
from functions.jobs.ingest.readers.decoding import (
    Record,
    SourceFile,
    Unreadable,
    read_text,
    warnings_for,
)
from functions.jobs.ingest.readers.fields import headline, to_one_line
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.readwise_export import MAX_BYTES, make_source, parse_book

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from functions.jobs.ingest.readers.decoding import Location
    from shared.knowledge.source import Source

    Row = tuple[int, dict[str, str]]
    """The line on which a row begins, and its cells by column."""

TITLE, AUTHOR, TEXT, ASIN = "Book Title", "Book Author", "Highlight", "Amazon Book ID"
BOOK_TAGS: Final = "Document tags"
_HIGHLIGHT_FIELDS: Final = {
    "text": TEXT,
    "note": "Note",
    "tags": "Tags",
    "location_type": "Location Type",
    "location": "Location",
    "highlighted_at": "Highlighted at",
}
"""The columns of a highlight, by the names of the fields in the JSON export."""
COLUMNS: Final = (
    TEXT,
    TITLE,
    AUTHOR,
    ASIN,
    "Note",
    "Color",
    "Tags",
    "Location Type",
    "Location",
    "Highlighted at",
    BOOK_TAGS,
)
_REST: Final = ""
"""Instead of a column, for cells beyond the header."""
_OTHER: Final = "is not Readwise's CSV export, whose columns are {}: convert it to .md or .jsonl"
_DELIMITERS: Final = ",;\t"
"""A spreadsheet may save the file with another one."""


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file, in the order of their first rows.

    Raises:
        Unreadable: It has other columns, or is not valid CSV.
    """
    rows = _read_rows(read_text(file.path, MAX_BYTES))
    books: dict[tuple[str, str], list[Row]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    for line, row in rows:
        unknown.update(name for name in row.keys() - {*COLUMNS, _REST} if row[name])
        title = to_one_line(row[TITLE])
        if row[_REST].strip():
            yield f"{file.name} line {line}", partial(_fail, "has more cells than the header")
        elif not title:
            yield f"{file.name} line {line}", partial(_fail, f"has no {TITLE}")
        else:
            books[title, to_one_line(row.get(AUTHOR, ""))].append((line, row))
    warnings = readwise_export.warn_of_unknown(unknown)
    for (title, author), book in books.items():
        build = partial(_build_source, title, author, book)
        name = f"{file.name}: {headline(title, 80)}"
        yield name, partial(readwise_export.with_file_warnings, warnings, build)


def _read_rows(text: str) -> Iterator[Row]:
    """Yield the rows that are not blank, with the names of known columns as Readwise writes them.

    Raises:
        Unreadable: It has other columns, or is not valid CSV.
    """
    header_line = text.lstrip("\ufeff").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=header_line.count)
    # A cell may be a whole article; the limit of the module is 128 KB.
    csv.field_size_limit(MAX_BYTES)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    spellings = {name.casefold(): name for name in COLUMNS}
    line = 1
    try:
        names = [to_one_line(name) for name in next(rows, [])]
        columns = [spellings.get(name.casefold(), name) for name in names]
        if not {TEXT, TITLE} <= set(columns):
            raise Unreadable(_OTHER.format(", ".join(COLUMNS)))
        line = rows.line_num + 1
        for cells in rows:
            if any(cell.strip() for cell in cells):
                rest = "".join(cells[len(columns) :])
                yield (
                    line,
                    dict(
                        zip_longest(columns, cells[: len(columns)], fillvalue=""), **{_REST: rest}
                    ),
                )
            line = rows.line_num + 1
    except csv.Error as error:
        raise Unreadable(f"is not valid CSV at line {line}: {error}; export it again") from error


def _fail(reason: str) -> Source:
    raise Unreadable(reason)


def _build_source(title: str, author: str, rows: Sequence[Row]) -> Source:
    """Build the source of a book from its rows."""
    asin = next((row[ASIN].strip() for _, row in rows if row.get(ASIN, "").strip()), None)
    tags = [row.get(BOOK_TAGS, "") for _, row in rows]
    highlights = [
        {"id": line}
        | {
            field: row[column]
            for field, column in _HIGHLIGHT_FIELDS.items()
            if row.get(column, "").strip()
        }
        for line, row in rows
    ]
    digest = hashlib.sha256(f"{title}\0{author}".casefold().encode()).hexdigest()[:16]
    raw = {
        "user_book_id": f"csv-{digest}",
        "title": title,
        "author": author,
        "source": "kindle" if asin else "readwise",
        "category": "books" if asin else None,
        "asin": asin,
        "book_tags": ",".join(tags),
        "highlights": highlights,
    }
    book, faults = parse_book(raw)
    return make_source(
        book, warnings_for([((_locate_fault(fault, rows),), reason) for fault, reason in faults])
    )


def _locate_fault(location: Location, rows: Sequence[Row]) -> str:
    """Return where a fault is in the file: `line 7: Highlighted at`."""
    match location:
        case ("highlights", int(index), str(field), *_):
            return f"line {rows[index][0]}: {_HIGHLIGHT_FIELDS.get(field, field)}"
    return ".".join(map(str, location))


FORMAT: Final = Format(
    name="Readwise CSV export",
    endings=(".csv",),
    read=records,
    max_bytes=MAX_BYTES,
    fields={
        "Book Title, Book Author": "the title and the author of a source; its id is made of both",
        "Amazon Book ID": "the origin `kindle`, the category `books`, and links to the Kindle app",
        "Document tags": "tags of the source",
        "Highlight, Note": "a passage: the text, an empty line, the note",
        "Tags": "tags of the passage; a favourite has the tag `favorite`",
        "Location Type, Location": "the order; the page, or the location in a Kindle book",
        "Highlighted at": "the date of the passage",
    },
    example=",".join(COLUMNS)
    + '\n"A flaky test is worse than none.",On tests,Ann Helm,,So true.,yellow,favorite,page,12,'
    "2024-05-31 16:41:53+00:00,testing\n",
    identity=Identity.ORIGIN,
)
