"""JSON Lines: one document a line, as exports and BEIR's `corpus.jsonl` have it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Place,
    Record,
    Unreadable,
    decode,
    excess,
    parse_json,
    validated,
)
from functions.jobs.ingest.readers.fields import About, Block, Line, headline
from shared.domain.names import safe_id
from shared.domain.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 256 * MEGABYTE
"""A file's: it is read line by line, but those of a bucket lie in memory, in the cloud."""
LINE_BYTES: Final = 8 * MEGABYTE
_OPENING_LENGTH: Final = 80


class _Document(About):
    """A line."""

    id: Block = Field(validation_alias=AliasChoices("id", "_id"), min_length=1)
    text: Block = ""
    source: Line = None
    readwise_url: Line = None
    highlight_url: Line = None


def records(place: Place) -> Iterator[Record]:
    """The file's lines, read one by one; blank ones are passed over."""
    with place.path.open("rb") as lines:
        for number, line in enumerate(_lines(lines), start=1):
            if line.strip():
                yield f"{place.name} line {number}", partial(_source, line, place.collection)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; one that is too long is cut to be just that."""
    while line := file.readline(LINE_BYTES + 1):
        rest = line
        while len(rest) > LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(LINE_BYTES + 1)
        yield line


def _source(line: bytes, collection: str) -> Source:
    if reason := excess(len(line), LINE_BYTES):
        raise Unreadable(reason)
    document = validated(_Document, parse_json(decode(line.rstrip())))
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
        author=document.author,
        origin=document.source or "jsonl",
        category=document.category or "documents",
        tags=document.tags,
        source_url=document.source_url,
        sections=(section,),
    )
