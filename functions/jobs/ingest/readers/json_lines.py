"""JSON Lines: one document a line, as exports and BEIR's `corpus.jsonl` have it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    UTF16_MARKS,
    Record,
    SourceFile,
    Unreadable,
    decode,
    excess,
    kept_without,
    not_utf16,
    parse_json,
    validated,
)
from functions.jobs.ingest.readers.fields import DATES, Block, DocumentMetadata, Line, headline
from shared.core.ids import safe_id
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_BYTES: Final = 256 * MEGABYTE
"""A file's: it is read line by line, but those of a bucket lie in memory, in the cloud."""
LINE_BYTES: Final = 8 * MEGABYTE
_OPENING_LENGTH: Final = 80


class _Document(DocumentMetadata):
    """A line."""

    id: Block = Field(validation_alias=AliasChoices("id", "_id"), min_length=1)
    text: Block = ""
    source: Line = None
    readwise_url: Line = None
    highlight_url: Line = None


def records(place: SourceFile) -> Iterator[Record]:
    """The file's lines, read one by one; blank ones are passed over.

    Raises:
        Unreadable: It begins as UTF-16 and goes on as something else.
    """
    try:
        for number, line in enumerate(_lines(place.path), start=1):
            if line.strip():
                yield f"{place.name} line {number}", partial(_source, line, place.collection)
    except UnicodeDecodeError as error:
        raise Unreadable(not_utf16(error)) from error


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, in UTF-8."""
    with path.open("rb") as file:
        if file.read(2) not in UTF16_MARKS:
            file.seek(0)
            yield from _cut_lines(file.readline)
            return
    with path.open(encoding="utf-16", newline="\n") as text:
        yield from _cut_lines(lambda size: text.readline(size).encode())


def _cut_lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """What is read line by line; a line that is too long is cut to be just that."""
    while line := readline(LINE_BYTES + 1):
        rest = line
        while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
            rest = readline(LINE_BYTES + 1)
        yield line


def _source(line: bytes, collection: str) -> Source:
    if reason := excess(len(line), LINE_BYTES):
        raise Unreadable(reason)
    document, faults = validated(_Document, parse_json(decode(line.rstrip())), DATES)
    if not document.text:
        raise Unreadable("holds no text")
    section = Section(
        document.text,
        readwise_url=document.readwise_url,
        highlight_url=document.highlight_url,
        highlighted_at=document.highlighted_at,
    )
    return Source(
        source_id=safe_id(f"{collection}-{document.id}"),
        title=headline(document.title or "") or headline(document.text, _OPENING_LENGTH),
        origin=document.source or "jsonl",
        tags=document.tags,
        **document.source_fields,
        sections=(section,),
        warnings=kept_without(faults),
    )
