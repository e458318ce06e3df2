"""JSON Lines: one document a line, as exports and BEIR's `corpus.jsonl` have it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import AliasChoices, Field

from functions.jobs.ingest.readers.decoding import (
    Place,
    Record,
    Unreadable,
    decode,
    parse_json,
    validated,
)
from functions.jobs.ingest.readers.fields import About, Block, Line, headline
from shared.domain.names import safe_id
from shared.domain.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{place.name} line {number}", partial(_source, line, place.collection)


def _source(line: bytes, collection: str) -> Source:
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
