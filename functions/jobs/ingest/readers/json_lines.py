"""Reads JSON Lines: one document per line, as in BEIR's `corpus.jsonl`, or a Carrel export."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers import carrel_export
from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    UTF16_MARKS,
    Record,
    SourceFile,
    Unreadable,
    check_size,
    decode,
    explain_utf16_error,
    parse_json,
    validate,
    warn_of_faults,
)
from functions.jobs.ingest.readers.fields import DATES, Block, DocumentMetadata, Line, to_headline
from functions.jobs.ingest.readers.formats import Format, Identity
from shared.core.ids import safe_id
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_BYTES: Final = 256 * MEGABYTE
"""The maximum size of a file. Lines are read one by one, but in the cloud the file is in memory."""
LINE_BYTES: Final = 8 * MEGABYTE
_MAX_OPENING: Final = 80
"""The maximum length of a title that is taken from the beginning of a text, in characters."""


class _Document(DocumentMetadata):
    """The document on a line."""

    id: Block = Field(validation_alias=AliasChoices("id", "_id"), min_length=1)
    text: Block = ""
    source: Line = None
    readwise_url: Line = None
    highlight_url: Line = None


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the documents of a file, line by line; blank lines are skipped.

    Raises:
        Unreadable: The file has a UTF-16 byte order mark and cannot be decoded, or it is an export
            of another version.
    """
    lines = (
        (number, line)
        for number, line in enumerate(_read_lines(file.path), start=1)
        if line.strip()
    )
    try:
        first = next(lines, None)
        if first and carrel_export.is_header(first[1]):
            yield from carrel_export.read_records(file.name, first[1], lines)
            return
        for number, line in chain([first] if first else [], lines):
            yield f"{file.name} line {number}", partial(_parse_source, line, file.collection)
    except UnicodeDecodeError as error:
        raise Unreadable(explain_utf16_error(error)) from error


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, encoded in UTF-8."""
    with path.open("rb") as file:
        if file.read(2) not in UTF16_MARKS:
            file.seek(0)
            yield from _cut_lines(file.readline)
            return
    with path.open(encoding="utf-16", newline="\n") as text:
        yield from _cut_lines(lambda size: text.readline(size).encode())


def _cut_lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield lines, cutting those that are too long just beyond the limit, so that they stay so."""
    while line := readline(LINE_BYTES + 1):
        rest = line
        while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
            rest = readline(LINE_BYTES + 1)
        yield line


def _parse_source(line: bytes, collection: str) -> Source:
    if reason := check_size(len(line), LINE_BYTES):
        raise Unreadable(reason)
    document, faults = validate(_Document, parse_json(decode(line.rstrip())), DATES)
    if not document.text:
        raise Unreadable("has no text")
    section = Section(
        document.text,
        readwise_url=document.readwise_url,
        highlight_url=document.highlight_url,
        highlighted_at=document.date,
    )
    return Source(
        source_id=safe_id(f"{collection}-{document.id}"),
        title=to_headline(document.title or "") or to_headline(document.text, _MAX_OPENING),
        origin=document.source or "jsonl",
        tags=document.tags,
        **document.source_fields,
        sections=(section,),
        warnings=warn_of_faults(faults),
    )


FORMAT: Final = Format(
    name="JSON Lines",
    extensions=(".jsonl",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "id, _id": "the id of the source, behind the name of the folder",
        "text": "the passages",
        "title": "the title; else how the text begins",
        "author": "the author",
        "tags": "tags",
        "category": "the category",
        "source": "the origin",
        "language, lang": "the language",
        "source_url, url": "the address of the original",
        "readwise_url, highlight_url": "the highlight in Readwise, and in the original",
        "date, highlighted_at": "the date of the passages",
    },
    example='{"id": "7", "title": "On tests", "text": "A flaky test is worse than none."}\n',
    identity=Identity.RECORD,
)
