"""Parses CSV files that programs exported, even if a spreadsheet has saved them since.

The delimiter is a comma, a semicolon or a tab. A row that is not valid CSV, such as one with an
unpaired quotation mark, loses only itself.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.source_file import MEGABYTE, Unreadable, make_refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from functions.jobs.ingest.readers.source_file import Record, SourceFile

REST: Final = ""
"""The key of a row's cells beyond the last column of the header."""
_MAX_CELL: Final = 64 * MEGABYTE
"""The maximum length of a cell. It may be a whole article."""
_CUT_OFF: Final = "unexpected end of data"
"""The message of the csv module for a file that ends within quotes."""
_DELIMITERS: Final = ",;\t"


class Row(NamedTuple):
    """The line on which a row begins, and its cells by column."""

    line: int
    cells: dict[str, str]


class InvalidRow(NamedTuple):
    """The line of a row that is not valid CSV, and the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class CsvRow:
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


def parse_rows(text: str) -> list[CsvRow]:
    """Return the rows. After a row that is not valid CSV, the next row begins on the next line."""
    # The default limit of 128 KB can only be set for the process.
    former_limit = csv.field_size_limit(_MAX_CELL)
    try:
        return list(_iterate_rows(text))
    finally:
        csv.field_size_limit(former_limit)


def _iterate_rows(text: str) -> Iterator[CsvRow]:
    lines = list(io.StringIO(text, newline=""))
    # The title above a table may have no delimiter.
    first_line = next((line for line in lines if not {*_DELIMITERS}.isdisjoint(line)), "")
    delimiter = max(_DELIMITERS, key=first_line.count)
    start = 0
    while start < len(lines):
        remaining = map(lines.__getitem__, range(start, len(lines)))
        rows = csv.reader(remaining, delimiter=delimiter, strict=True)
        first = start
        try:
            for cells in rows:
                end = start + rows.line_num
                quotes = sum(line.count('"') for line in lines[first:end])
                yield CsvRow(first + 1, cells, is_balanced=quotes % 2 == 0)
                first = end
        except csv.Error as error:
            yield CsvRow(first + 1, error=str(error))
        start = first + 1


def list_columns(beginning: str) -> set[str]:
    """Return the column names in the first line of a file, in lower case."""
    cells = re.split(r"[,;\t]", beginning.lstrip().partition("\n")[0])
    return {" ".join(cell.strip().strip('"').split()).casefold() for cell in cells}


def read_rows(text: str, names: Iterable[str]) -> Iterator[Row | InvalidRow]:
    """Yield the rows of a table whose first row names the columns. See `name_cells`."""
    header, *rows = parse_rows(text) or [CsvRow(1)]
    return name_cells(rows, name_columns(header, names))


def name_columns(header: CsvRow, names: Iterable[str]) -> list[str]:
    """Return the columns of a header. Known names get the spelling in `names`."""
    spellings = {name.casefold(): name for name in names}
    columns = map(to_one_line, header.cells)
    return [spellings.get(column.casefold(), column) for column in columns]


def name_cells(rows: Iterable[CsvRow], columns: Sequence[str]) -> Iterator[Row | InvalidRow]:
    """Yield the rows that are not blank, with their cells by column.

    After a row that is not valid CSV, reading continues with the next row that has all columns.

    Raises:
        Unreadable: The file ends within a cell. The last rows of such a file are missing.
    """
    damaged: list[CsvRow] = []  # the rows to skip, up to the next row that is whole
    for row in rows:
        if row.error or (damaged and not (row.is_balanced and len(row.cells) == len(columns))):
            damaged.append(row)
            continue
        if damaged:
            yield _skip(damaged[0], row.line - 1)
            damaged.clear()
        if any(cell.strip() for cell in row.cells):
            cells, rest = row.cells[: len(columns)], "".join(row.cells[len(columns) :])
            by_column = dict(zip_longest(columns, cells, fillvalue=""), **{REST: rest})
            yield Row(row.line, by_column)
    if any(row.error == _CUT_OFF for row in damaged):
        raise Unreadable(f"is cut off in the row at line {damaged[0].line}: export it again")
    if damaged:
        yield _skip(damaged[0], damaged[-1].line)


def split_rows(
    file: SourceFile, rows: Iterable[Row | InvalidRow]
) -> tuple[list[Row], list[Record]]:
    """Return the valid rows, and a refusal of each of the others."""
    valid: list[Row] = []
    refusals: list[Record] = []
    for row in rows:
        if isinstance(row, InvalidRow):
            refusals.append(make_refusal(f"{file.name} line {row.line}", row.reason))
        else:
            valid.append(row)
    return valid, refusals


def _skip(row: CsvRow, last_line: int) -> InvalidRow:
    """Report a row that is not valid CSV, and the skipped lines after it."""
    left_out = f"; left out up to line {last_line}" if last_line > row.line else ""
    return InvalidRow(row.line, f"is not valid CSV: {row.error}{left_out}")
