"""Detects the formats of files, and reads their sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import (
    chats,
    docx,
    export_archive,
    foreign,
    hypothesis,
    json_lines,
    koreader,
    link_lists,
    raindrop,
    text_files,
)
from functions.jobs.ingest.readers.decoding import UTF16_MARKS
from functions.jobs.ingest.readers.epub import book
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.file_names import NOTION_ID
from functions.jobs.ingest.readers.formats import BEGINNING_BYTES, Identity
from functions.jobs.ingest.readers.html import mhtml, page
from functions.jobs.ingest.readers.kindle import clippings, notebook, notes_table
from functions.jobs.ingest.readers.notion import table
from functions.jobs.ingest.readers.pdf import document
from functions.jobs.ingest.readers.readwise import csv_export, export
from functions.jobs.ingest.readers.source_file import (
    LinkList,
    SourceFile,
    Unreadable,
    describe_excess,
)
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping

    from functions.jobs.ingest.readers.formats import Format
    from functions.jobs.ingest.readers.source_file import Record
    from shared.knowledge.source import Source

FORMATS: Final = (
    clippings.FORMAT,
    text_files.FORMAT,
    json_lines.FORMAT,
    export.FORMAT,
    koreader.FORMAT,
    hypothesis.JSON_FORMAT,
    chats.FORMAT,
    csv_export.FORMAT,
    notes_table.FORMAT,
    table.FORMAT,
    hypothesis.TABLE_FORMAT,
    raindrop.FORMAT,
    link_lists.FORMAT,
    link_lists.HTML_FORMAT,
    link_lists.CHROME_FORMAT,
    notebook.FORMAT,
    page.FORMAT,
    mhtml.FORMAT,
    document.FORMAT,
    book.FORMAT,
    docx.FORMAT,
    export_archive.FORMAT,
)
"""All formats. A file is read with the first format that matches its name and its content."""
FAULT: Final = "could not be read, because of a fault in Carrel"
_EXTENSION: Final = re.compile(r"\.\w{1,10}")
"""The extension of a file name. Longer text after a dot is part of a title."""
_MAX_KINDS: Final = 10
"""The maximum number of extensions that a count of unread files names."""


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A file or a record that was left out completely or in part.

    Attributes:
        name: The path below the folder that is read; for a record, with its line or book.
        kept: Whether only the invalid part was left out.
    """

    name: str
    reason: str
    kept: bool = False


def count_kinds(others: Counter[str]) -> str:
    """Format the numbers of files by extension, in descending order: `3 .pdf, 2 .csv`."""
    ordered = sorted(others.items(), key=lambda kind: (-kind[1], not kind[0], kind[0]))
    commonest = ordered[:_MAX_KINDS]
    rest = others.total() - sum(count for _, count in commonest)
    parts = [f"{count} {extension or 'without an extension'}" for extension, count in commonest]
    return ", ".join([*parts, f"{rest} of other kinds"] if rest else parts)


def find_format_by_name(file: PurePath) -> Format | None:
    """Return the fallback format for files with this name, or None if there is no such format."""
    candidates = (candidate for candidate in FORMATS if candidate.recognizes is None)
    return next((candidate for candidate in candidates if candidate.matches_name(file)), None)


def detect_format(file: SourceFile) -> Format | None:
    """Return the format that recognizes how a file begins, or else the fallback for its name.

    A file that cannot be opened has the fallback format, too.
    """
    name = PurePosixPath(file.name)
    candidates = _list_special_formats(name)
    beginning = _read_beginning(file.path) if candidates else ""
    return _recognize(candidates, beginning) or find_format_by_name(name)


def _list_special_formats(name: PurePath) -> list[Format]:
    """Return the formats that match this name and are recognized by content."""
    return [
        candidate for candidate in FORMATS if candidate.recognizes and candidate.matches_name(name)
    ]


def _recognize(candidates: Iterable[Format], beginning: str) -> Format | None:
    for candidate in candidates:
        if candidate.recognizes and candidate.recognizes(beginning):
            return candidate
    return None


def _read_beginning(path: Path) -> str:
    # Opening a pipe would block for ever.
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as content:
            beginning = content.read(BEGINNING_BYTES)
    except OSError:
        return ""
    encoding = "utf-16" if beginning.startswith(UTF16_MARKS) else "utf-8"
    return beginning.decode(encoding, "ignore").removeprefix("\ufeff")


def find_identity(file: PurePath) -> Identity:
    """Return from what the ids of a file's sources are derived; its path if it has no format."""
    file_format = find_format_by_name(file)
    return file_format.identity if file_format else Identity.FILE


def describe_foreign(name: PurePath, path: Path) -> str | None:
    """Return why another program's file is not read: "" to count it only, None if it is read."""
    if not path.is_file():
        return None
    if name.suffix.lower() == ".zip":
        return None if export_archive.is_export(path) else ""
    if name.suffix.lower() not in foreign.EXTENSIONS:
        return None
    if path.name == "index.html" and _is_beside_notion(path):
        return ""
    beginning = _read_beginning(path)
    if _recognize(_list_special_formats(name), beginning):
        return None
    return foreign.describe_foreign(name, beginning)


def _is_beside_notion(path: Path) -> bool:
    """Return whether a file is in the folder of an export of Notion, of which it is a list."""
    return any(
        file.suffix in {".md", ".csv"} and NOTION_ID.search(file.stem)
        for file in path.parent.iterdir()
    )


def get_extension(file: PurePath) -> str:
    """Return the extension of a file name, in lower case; "" if there is none."""
    extension = file.suffix.lower()
    return extension if _EXTENSION.fullmatch(extension) else ""


def read_files(
    files: Iterable[SourceFile],
    earlier: Mapping[str, str] = MappingProxyType({}),
    *,
    without_books: bool = False,
) -> Iterator[Source | LinkList | InputProblem]:
    """Read files one at a time.

    A broken file or record is reported and skipped. If several records have the same id, the first
    one is used and the later ones are reported, but those of logs of additions are all used. Logs
    come last, the oldest first, so that the latest version of a highlight wins. Sources that a log
    names as deleted come at the end, unless a later log has them again.

    Args:
        earlier: The names of records that come before these files, by source id.
        without_books: Whether to skip Readwise books silently.
    """
    record_names = dict(earlier)
    deleted: dict[str, Source] = {}
    for file in sorted(files, key=_make_age_key):
        for record_name, entry in read_entries(file):
            record = to_one_line(record_name)
            if isinstance(entry, Unreadable):
                yield InputProblem(record, str(entry))
            elif isinstance(entry, LinkList):
                yield from _list_warnings(record, entry)
                yield entry
            elif without_books and export.is_book(entry.source_id):
                continue
            elif entry.adds_only and entry.is_deleted:
                deleted[entry.source_id] = entry
            elif entry.source_id in record_names and not entry.adds_only:
                yield InputProblem(record, describe_duplicate(record_names[entry.source_id]))
            else:
                record_names[entry.source_id] = record
                deleted.pop(entry.source_id, None)
                yield from _list_warnings(record, entry)
                yield entry
    yield from deleted.values()


def _list_warnings(record: str, entry: Source | LinkList) -> Iterator[InputProblem]:
    for warning in entry.warnings:
        yield InputProblem(record, warning, kept=True)


def _make_age_key(file: SourceFile) -> tuple[bool, float]:
    """Return a key that sorts logs by age, after the other files."""
    is_log = find_identity(PurePosixPath(file.name)) is Identity.ORIGIN
    modified_at = file.modified_at if is_log else None
    return is_log, modified_at.timestamp() if modified_at else 0.0


def describe_duplicate(first: str) -> str:
    """Return the message for a record that has the id of an earlier record."""
    return f"has the id of {first}; keep one of the two"


def explain_excess(name: str, size: int) -> str | None:
    """Return why a file with this name is too large to read, or None. `size` is in bytes."""
    path = PurePosixPath(name)
    limits = (candidate.max_bytes for candidate in FORMATS if candidate.matches_name(path))
    return describe_excess(size, max(limits, default=size))


def read_entries(file: SourceFile) -> Iterator[tuple[str, Source | LinkList | Unreadable]]:
    """Yield the name of each record, with its content or the reason why it cannot be read."""
    try:
        if file.path.exists() and not file.path.is_file():
            yield file.name, Unreadable("is not a regular file")
            return
        if reason := describe_foreign(PurePosixPath(file.name), file.path):
            yield file.name, Unreadable(reason)
        elif file_format := detect_format(file):
            for record in file_format.read(file):
                yield record.name, _read(record, file, file_format)
    except Exception as error:  # noqa: BLE001 - a fault in a reader must not end the run
        yield file.name, _to_unreadable(error)


def _read(record: Record, file: SourceFile, file_format: Format) -> Source | LinkList | Unreadable:
    try:
        source = record.read()
        if isinstance(source, LinkList):
            return source
        if source.source_id == file.source_id:
            source = replace(source, folder=file.folder)
        return replace(source, adds_only=True) if file_format.adds_only else source
    except Exception as error:  # noqa: BLE001 - likewise
        return _to_unreadable(error)


def _to_unreadable(error: Exception) -> Unreadable:
    match error:
        case Unreadable():
            return error
        case OSError():
            return Unreadable(explain_os_error(error))
    log.error("reader_failed", **error_fields(error))
    return Unreadable(f"{FAULT} ({type(error).__name__}): please report it")


def explain_os_error(error: OSError) -> str:
    """Return why a file cannot be read, as a predicate."""
    return f"cannot be opened: {error.strerror}"
