"""Reads JSON Lines: a Carrel export, or a document on each line, as in BEIR's `corpus.jsonl`."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers import carrel_export
from functions.jobs.ingest.readers.decoding import UTF16_MARKS, decode_utf8, explain_utf16_error
from functions.jobs.ingest.readers.fields import DATES, Block, DocumentMetadata, Line, to_headline
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    describe_excess,
)
from functions.jobs.ingest.readers.validation import describe_faults, parse_json, validate
from shared.core.ids import IdKind, make_id
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_BYTES: Final = 256 * MEGABYTE
"""The maximum size of a file. Lines are read one by one, but in the cloud the file is in memory."""
MAX_LINE_BYTES: Final = 8 * MEGABYTE
"""The maximum size of a line, and so of the part of a file that is in memory while it is parsed."""
_MAX_TITLE_FROM_TEXT: Final = 80
"""The length to which the beginning of a text is cut to be its title, in characters."""


class _Document(DocumentMetadata):
    """The document on a line. `source` is the origin, such as `kindle`."""

    id: Block = Field(validation_alias=AliasChoices("id", "_id"), min_length=1)
    text: Block = ""
    source: Line = None
    readwise_url: Line = None
    highlight_url: Line = None


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the documents of a file, line by line, or the sources if it is a Carrel export.

    Blank lines are skipped.

    Raises:
        Unreadable: The file has a UTF-16 byte order mark and cannot be decoded, or it is an export
            of another version.
    """
    lines = (
        (number, line)
        for number, line in enumerate(_read_lines(file.path), start=1)
        if line.strip()
    )
    try:  # each line of a file in UTF-16 is decoded when it is read
        first = next(lines, None)
        if first is None:
            return
        _, first_line = first
        if carrel_export.is_header(first_line):
            yield from carrel_export.read_records(file.name, first_line, lines)
            return
        for number, line in chain([first], lines):
            parse = partial(_parse_source, line, file.collection)
            yield Record(f"{file.name} line {number}", parse)
    except UnicodeDecodeError as error:
        raise Unreadable(explain_utf16_error(error)) from error


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file. Lines in UTF-16 become UTF-8; the others are not decoded."""
    with path.open("rb") as file:
        if file.read(2) not in UTF16_MARKS:
            file.seek(0)
            yield from _cut_lines(file.readline)
            return
    # As in UTF-8, only \n ends a line.
    with path.open(encoding="utf-16", newline="\n") as text:
        # This size counts characters, so the bytes may exceed it, and the parser rejects the line.
        yield from _cut_lines(lambda size: text.readline(size).encode())


def _cut_lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield lines.

    A line that is too long is cut one byte after the limit, so memory stays bounded, and the parser
    still rejects it.
    """
    while line := readline(MAX_LINE_BYTES + 1):
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = readline(MAX_LINE_BYTES + 1)
        yield line


def _parse_source(line: bytes, collection: str) -> Source:
    """Read the document on a line.

    Raises:
        Unreadable: The line is too long or is not JSON, or a field is missing or not valid.
    """
    if reason := describe_excess(len(line), MAX_LINE_BYTES):
        raise Unreadable(reason)
    value = parse_json(decode_utf8(line.rstrip()))
    document, faults = validate(_Document, value, optional=DATES)
    if not document.text:
        raise Unreadable("has no text")
    section = Section(
        document.text,
        readwise_url=document.readwise_url,
        highlight_url=document.highlight_url,
        highlighted_at=document.highlighted_at or document.date,
        written_at=document.date,
    )
    return Source(
        source_id=make_id(IdKind.RECORD, f"{collection}-{document.id}"),
        title=to_headline(document.title or "") or to_headline(document.text, _MAX_TITLE_FROM_TEXT),
        origin=document.source or "jsonl",
        tags=document.tags,
        **document.source_fields,
        sections=(section,),
        warnings=describe_faults(faults),
    )


FORMAT: Final = Format(
    name="JSON Lines",
    extensions=(".jsonl",),
    read=read_records,
    max_bytes=MAX_BYTES,
    fields={
        "id, _id": "what the id of the source is made of, with the name of the folder",
        "text": "the passages",
        "title": "the title; if it is missing, the beginning of the text is",
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
