"""Reads the CSV export from readwise.io/export: each row is a highlight, and each book a source.

The export has no ids. A book's id is a hash of its title and author. It is the same in a later
export, but differs from the book's id in the API.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.readwise import export
from functions.jobs.ingest.readers.readwise.export import MAX_BYTES, make_source, parse_book
from functions.jobs.ingest.readers.source_file import (
    Record,
    SourceFile,
    Unreadable,
    make_refusal,
)
from functions.jobs.ingest.readers.tables import (
    REST,
    CsvRow,
    InvalidRow,
    Row,
    name_cells,
    name_columns,
    parse_rows,
    split_rows,
)
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
_OTHER_COLUMNS: Final = (
    "is not Readwise's CSV export, whose columns are {}: convert it to .md or .jsonl"
)


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file, in the order of their first rows.

    Raises:
        Unreadable: The file has other columns, or is cut off.
    """
    text, encoding_warnings = read_any_text(file.path, MAX_BYTES)
    books: dict[str, list[Row]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    all_rows, refusals = split_rows(file, _read_rows(text))
    yield from refusals
    for row in all_rows:
        unknown.update(name for name in row.cells.keys() - {*COLUMNS, REST} if row.cells[name])
        if reason := _find_fault(row.cells):
            yield make_refusal(f"{file.name} line {row.line}", reason)
        else:
            books[_make_book_id(row.cells)].append(row)
    warnings = [*encoding_warnings, *export.describe_unknown_fields(unknown)]
    for book_id, rows in books.items():
        build = partial(_build_source, book_id, rows)
        name = f"{file.name}: {to_headline(rows[0].cells[TITLE], 80)}"
        yield Record(name, partial(export.add_file_warnings, warnings, build))


def _find_fault(cells: Mapping[str, str]) -> str | None:
    """Return why the cells of a row are not a highlight, or None."""
    if cells[REST].strip():
        return "has more cells than the header"
    return None if to_one_line(cells[TITLE]) else f"has no {TITLE}"


def _make_book_id(cells: Mapping[str, str]) -> str:
    title, author = to_one_line(cells[TITLE]), to_one_line(cells.get(AUTHOR, ""))
    digest = hashlib.sha256(f"{title}\0{author}".casefold().encode())
    return f"csv-{digest.hexdigest()[:16]}"


def _read_rows(text: str) -> Iterator[Row | InvalidRow]:
    """Yield the rows that are not blank.

    Raises:
        Unreadable: The file has other columns, or ends within a cell. The last books of such a file
            may lack highlights, which would be forgotten.
    """
    header, *rows = parse_rows(text) or [CsvRow(1)]
    columns = name_columns(header, COLUMNS)
    if not {TEXT, TITLE} <= set(columns):
        raise Unreadable(_OTHER_COLUMNS.format(", ".join(COLUMNS)))
    return name_cells(rows, columns)


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
        "`.h1`, `.c1`, `.d`, `.word` in a note": "Readwise's action tags: a chapter of the passages"
        " after it, a part of one passage, a passage that is left out, a tag",
        "Location Type, Location": "the order; the page, or the location in a Kindle book",
        "Highlighted at": "the date of the passage",
    },
    example=",".join(COLUMNS)
    + '\n"A flaky test is worse than none.",On tests,Ann Helm,,So true.,yellow,favorite,page,12,'
    "2024-05-31 16:41:53+00:00,testing\n",
    identity=Identity.ORIGIN,
    adds_only=True,
)
