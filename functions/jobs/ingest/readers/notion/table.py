"""Reads the table of a Notion database. Most of its rows are also exported as pages beside it.

Rows with a page are skipped. The others become a source.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import file_names
from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import (
    NoteMetadata,
    clean,
    to_alphanumerics,
    to_headline,
)
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.notion.page import read_properties
from functions.jobs.ingest.readers.source_file import MEGABYTE, Record, SourceFile
from functions.jobs.ingest.readers.tables import CsvRow, name_cells, parse_rows, split_rows
from functions.jobs.ingest.readers.validation import validate
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from functions.jobs.ingest.readers.decoding import DecodedText
    from functions.jobs.ingest.readers.tables import Row

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file."""
_NAME: Final = re.compile(rf"{file_names.NOTION_ID.pattern}")
_CUT_NAME: Final = 40
"""Notion cuts file names at about 50 characters: a name this long may be the start of a title."""


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the rows without a page as one source, and the rows that cannot be read.

    If there is a longer version with the rows that the view hides, only that version is read.
    """
    whole = whole_name(file.path.name)
    if whole != file.path.name and file.path.with_name(whole).exists():
        return
    folders = (file.path.with_name(name) for name in list_folders(file.path.stem))
    pages = [page.stem for folder in folders if folder.is_dir() for page in folder.glob("*.md")]
    yield from read_rows(file, read_any_text(file.path, MAX_BYTES), pages)


def whole_name(name: str) -> str:
    """Return the name of a table's longer version."""
    return f"{name.removesuffix('.csv').removesuffix('_all')}_all.csv"


def list_folders(stem: str) -> list[str]:
    """Return the possible names of the folder that contains a table's pages."""
    return [stem.removesuffix("_all"), file_names.find_title(stem)]


def read_rows(
    file: SourceFile, content: DecodedText, page_stems: Collection[str]
) -> Iterator[Record]:
    """Yield the rows without a page as one source, and the rows that cannot be read.

    Args:
        page_stems: The file names of the pages, without their extensions.
    """
    header, *others = parse_rows(content.text) or [CsvRow(1)]
    pages = {to_alphanumerics(file_names.find_title(stem)) for stem in page_stems}
    valid_rows, refusals = split_rows(file, name_cells(others, header.cells))
    yield from refusals
    rows = [row for row in valid_rows if not _has_page(next(iter(row.cells.values())), pages)]
    if rows:
        yield Record(file.name, partial(_make_source, file, rows, content.warnings))


def _has_page(title: str, pages: Collection[str]) -> bool:
    name = to_alphanumerics(title) or "untitled"
    return name in pages or any(len(page) >= _CUT_NAME and name.startswith(page) for page in pages)


def _make_source(file: SourceFile, rows: Sequence[Row], warnings: tuple[str, ...]) -> Source:
    return Source(
        source_id=file.source_id,
        title=to_headline(file_names.find_title(PurePosixPath(file.relative_path).stem)),
        origin="notion",
        sections=tuple(section for row in rows if (section := _make_section(row, file)).text),
        warnings=warnings,
    )


def _make_section(row: Row, file: SourceFile) -> Section:
    """Return a row as text: its title, and a line for each property that is not a field."""
    (_, title), *pairs = row.cells.items()
    fields, lines = read_properties((key, " ".join(value.split())) for key, value in pairs)
    lines += [f"Author: {author}" for author in [fields.pop("author", None)] if author]
    metadata, _ = validate(NoteMetadata, fields, set(fields))
    return Section(
        clean("\n".join(filter(None, (title.strip(), *lines)))),
        tags=metadata.tags,
        highlight_url=metadata.source_url,
        written_at=metadata.date or metadata.created or metadata.updated,
        saved_at=file.modified_at,
    )


FORMAT: Final = Format(
    name="Table of a Notion database",
    extensions=(".csv",),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=lambda _beginning: True,
    name_pattern=_NAME,
    fields={
        "the file's name": "the title; it must end with a Notion id, which is removed",
        "rows with a page beside the table": "skipped, because the page is read",
        "other rows": "a passage: the title, and a line for each property",
        "Tags, Date, Created, URL": "tags, date and address of the passage",
    },
    example='Name,Tags,Weight\nGull,"oak, sea",4 t\n',
    identity=Identity.ORIGIN,
)
