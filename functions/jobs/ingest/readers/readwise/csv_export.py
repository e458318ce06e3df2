"""Reads the CSV export from readwise.io/export: each row is a highlight, and each book a source.

The export has no ids. A book's id is a hash of its title and author. It is the same in a later
export, but differs from the book's id in the API.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.readwise import export
from functions.jobs.ingest.readers.readwise.export import MAX_BYTES, make_source, parse_book
from functions.jobs.ingest.readers.source_file import Record, SourceFile, Unreadable
from functions.jobs.ingest.readers.validation import Fault, describe_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from functions.jobs.ingest.readers.validation import Location
    from shared.knowledge.source import Source

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
"""The key under which a row's cells beyond the last column of the header are stored."""
_OTHER_COLUMNS: Final = (
    "is not Readwise's CSV export, whose columns are {}: convert it to .md or .jsonl"
)
_CUT_OFF: Final = "unexpected end of data"
"""The message of the csv module for a file that ends within quotes."""
_DELIMITERS: Final = ",;\t"
"""Readwise writes commas; a spreadsheet may save the file with another delimiter."""


class Row(NamedTuple):
    """A highlight: the line on which its row begins, and its cells by column."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True, slots=True)
class _CsvRow:
    """A row of the file, before its columns are known.

    Attributes:
        line: The line on which the row begins.
        cells: The cells, if the row is valid CSV.
        error: Why the row is not valid CSV.
        is_balanced: Whether the number of quotation marks is even, as in every row that a program
            writes.
    """

    line: int
    cells: list[str] = field(default_factory=list)
    error: str | None = None
    is_balanced: bool = True


class _InvalidRow(NamedTuple):
    """The line of a row that is not valid CSV, and the reason."""

    line: int
    reason: str


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file, in the order of their first rows.

    Raises:
        Unreadable: The file has other columns, or is cut off.
    """
    text, encoding_warnings = read_any_text(file.path, MAX_BYTES)
    books: dict[str, list[Row]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    for row in _read_rows(text):
        if isinstance(row, _InvalidRow):
            yield Record(f"{file.name} line {row.line}", partial(_refuse, row.reason))
            continue
        unknown.update(name for name in row.cells.keys() - {*COLUMNS, _REST} if row.cells[name])
        if reason := _find_fault(row.cells):
            yield Record(f"{file.name} line {row.line}", partial(_refuse, reason))
        else:
            books[_make_book_id(row.cells)].append(row)
    warnings = [*encoding_warnings, *export.describe_unknown_fields(unknown)]
    for book_id, rows in books.items():
        build = partial(_build_source, book_id, rows)
        name = f"{file.name}: {to_headline(rows[0].cells[TITLE], 80)}"
        yield Record(name, partial(export.add_file_warnings, warnings, build))


def _find_fault(cells: Mapping[str, str]) -> str | None:
    """Return why the cells of a row are not a highlight, or None."""
    if cells[_REST].strip():
        return "has more cells than the header"
    return None if to_one_line(cells[TITLE]) else f"has no {TITLE}"


def _make_book_id(cells: Mapping[str, str]) -> str:
    title, author = to_one_line(cells[TITLE]), to_one_line(cells.get(AUTHOR, ""))
    digest = hashlib.sha256(f"{title}\0{author}".casefold().encode())
    return f"csv-{digest.hexdigest()[:16]}"


def _read_rows(text: str) -> Iterator[Row | _InvalidRow]:
    """Yield the rows that are not blank.

    Column names that differ from Readwise's only in case are accepted. After a row that is not
    valid CSV, such as one with an unpaired quotation mark, reading continues with the next row that
    has all columns.

    Raises:
        Unreadable: The file has other columns, or ends within a cell. The last books of such a file
            may lack highlights, which would be forgotten.
    """
    rows = iter(_parse_rows(text))
    header = next(rows, _CsvRow(1))
    spellings = {name.casefold(): name for name in COLUMNS}
    names = map(to_one_line, header.cells)
    columns = [spellings.get(name.casefold(), name) for name in names]
    if not {TEXT, TITLE} <= set(columns):
        raise Unreadable(_OTHER_COLUMNS.format(", ".join(COLUMNS)))
    damaged: list[_CsvRow] = []  # the rows to skip, up to the next row that is whole
    for row in rows:
        if row.error or (damaged and not (row.is_balanced and len(row.cells) == len(columns))):
            damaged.append(row)
            continue
        if damaged:
            yield _skip(damaged[0], row.line - 1)
            damaged.clear()
        if any(cell.strip() for cell in row.cells):
            cells, rest = row.cells[: len(columns)], "".join(row.cells[len(columns) :])
            by_column = dict(zip_longest(columns, cells, fillvalue=""), **{_REST: rest})
            yield Row(row.line, by_column)
    if any(row.error == _CUT_OFF for row in damaged):
        raise Unreadable(f"is cut off in the row at line {damaged[0].line}: export it again")
    if damaged:
        yield _skip(damaged[0], damaged[-1].line)


def _parse_rows(text: str) -> list[_CsvRow]:
    """Return the rows. After a row that is not valid CSV, the next row begins on the next line."""
    # A cell may be a whole article. The default limit of 128 KB can only be set for the process.
    former_limit = csv.field_size_limit(MAX_BYTES)
    try:
        return list(_iterate_rows(text))
    finally:
        csv.field_size_limit(former_limit)


def _iterate_rows(text: str) -> Iterator[_CsvRow]:
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    lines = list(io.StringIO(text, newline=""))
    start = 0
    while start < len(lines):
        remaining = map(lines.__getitem__, range(start, len(lines)))
        rows = csv.reader(remaining, delimiter=delimiter, strict=True)
        first = start
        try:
            for cells in rows:
                end = start + rows.line_num
                quotes = sum(line.count('"') for line in lines[first:end])
                yield _CsvRow(first + 1, cells, is_balanced=quotes % 2 == 0)
                first = end
        except csv.Error as error:
            yield _CsvRow(first + 1, error=str(error))
        start = first + 1


def _skip(row: _CsvRow, last_line: int) -> _InvalidRow:
    """Return the report of a row that is not valid CSV, and of the skipped lines after it."""
    left_out = f"; left out up to line {last_line}" if last_line > row.line else ""
    return _InvalidRow(row.line, f"is not valid CSV: {row.error}{left_out}")


def _refuse(reason: str) -> Source:
    raise Unreadable(reason)


def _build_source(book_id: str, rows: Sequence[Row]) -> Source:
    asins = (row.cells.get(ASIN, "").strip() for row in rows)
    asin = next(filter(None, asins), None)
    tags = [row.cells.get(BOOK_TAGS, "") for row in rows]
    raw = {
        "user_book_id": book_id,
        "title": rows[0].cells[TITLE],
        "author": rows[0].cells.get(AUTHOR),
        "source": "kindle" if asin else "readwise",
        "category": "books" if asin else None,
        "asin": asin,
        "book_tags": ",".join(tags),
        "highlights": [_build_highlight(row) for row in rows],
    }
    book, faults = parse_book(raw)
    located = [Fault((_locate_fault(fault.location, rows),), fault.message) for fault in faults]
    return make_source(book, describe_faults(located))


def _build_highlight(row: Row) -> dict[str, Any]:
    """Return a highlight as the JSON export has it. Its line sorts it, in place of an id."""
    highlight: dict[str, Any] = {"id": row.line}
    for field_name, column in _HIGHLIGHT_FIELDS.items():
        if (cell := row.cells.get(column, "")).strip():
            highlight[field_name] = cell
    return highlight


def _locate_fault(location: Location, rows: Sequence[Row]) -> str:
    """Return the line and the column of a fault: `line 7: Highlighted at`."""
    match location:
        case ("highlights", int(index), str(field), *_):
            return f"line {rows[index].line}: {_HIGHLIGHT_FIELDS.get(field, field)}"
    return ".".join(map(str, location))


FORMAT: Final = Format(
    name="Readwise CSV export",
    extensions=(".csv",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "Book Title, Book Author": "the title and the author of a source; its id is made of both,"
        " ignoring case",
        "Amazon Book ID": "the origin `kindle`, the category `books`, and links to the Kindle app",
        "Document tags": "tags of the source",
        "Highlight, Note": "a passage: the text, an empty line, the note",
        "Tags": "tags of the passage; a favourite has the tag `favorite`, and what has the tag"
        " `discard` is left out",
        "`.h1`, `.c1`, `.word` in a note": "Readwise's action tags: a chapter of the passages after"
        " it, a part of one passage, a tag",
        "Location Type, Location": "the order; the page, or the location in a Kindle book",
        "Highlighted at": "the date of the passage",
    },
    example=",".join(COLUMNS)
    + '\n"A flaky test is worse than none.",On tests,Ann Helm,,So true.,yellow,favorite,page,12,'
    "2024-05-31 16:41:53+00:00,testing\n",
    identity=Identity.ORIGIN,
    adds_only=True,
)
