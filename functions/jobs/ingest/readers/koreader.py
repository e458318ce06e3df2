"""Reads the JSON that KOReader exports: one book, or several in `documents`.

`plugins/exporter.koplugin` in github.com/koreader/koreader defines the fields.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator

from functions.jobs.ingest.readers.decoding import read_unicode_text
from functions.jobs.ingest.readers.fields import (
    Block,
    ExternalModel,
    Line,
    People,
    Timestamp,
    Title,
    to_headline,
)
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.highlights import derive_source_id, drop_empty, make_section
from functions.jobs.ingest.readers.source_file import MEGABYTE, Record, SourceFile, Unreadable
from functions.jobs.ingest.readers.validation import describe_faults, parse_json, validate
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file."""
_ENTRIES: Final = re.compile(r'"entries"\s*:\s*[\[{]')
_OWN_KEYS: Final = re.compile(
    r'"(?:drawer|number_of_pages|pn_xp)"\s*:|"sort"\s*:\s*"highlight"|"version"\s*:\s*"json/'
)
_NO_AUTHOR: Final = frozenset({"unknown author", "unknown", "n/a"})
"""What KOReader shows if a book names no author."""


class _Entry(ExternalModel):
    """A highlight. Its page is a number, or a label in the printed edition."""

    text: Block = ""
    note: Block = ""
    chapter: Title = None
    page: Line = None
    time: Timestamp = None


class _Document(ExternalModel):
    """A book. Lua writes an empty list as an object, and each author on a separate line."""

    title: Title = None
    author: Annotated[
        People,
        BeforeValidator(lambda names: names.split("\n") if isinstance(names, str) else names),
    ] = None
    file: Line = None
    entries: Annotated[tuple[_Entry, ...], BeforeValidator(lambda entries: entries or ())] = ()


def recognizes(beginning: str) -> bool:
    """Return whether a JSON file that begins like this is a KOReader export."""
    return bool(_ENTRIES.search(beginning) and _OWN_KEYS.search(beginning))


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file.

    Raises:
        Unreadable: The file is not JSON, or has other contents.
    """
    export = parse_json(read_unicode_text(file.path, MAX_BYTES))
    books = export.get("documents", [export]) if isinstance(export, dict) else export
    if not isinstance(books, list):
        raise Unreadable("is not a KOReader export: `documents` is not a list")
    for number, book in enumerate(books, start=1):
        title = book.get("title") if isinstance(book, dict) else None
        name = to_headline(title, 80) if isinstance(title, str) and title else f"book {number}"
        yield Record(f"{file.name}: {name}", partial(_make_source, book))


def _make_source(raw: Any) -> Source:
    book, faults = validate(_Document, raw, {"time", "page", "chapter", "author", "file"})
    sections, warnings = drop_empty(
        [
            replace(
                make_section(entry.text, entry.note, page=entry.page, chapter=entry.chapter),
                highlighted_at=entry.time,
            )
            for entry in book.entries
        ]
    )
    author = None if (book.author or "").casefold() in _NO_AUTHOR else book.author
    title = book.title or PurePosixPath(book.file or "").stem
    return Source(
        source_id=derive_source_id("koreader", title, author),
        title=to_headline(title) or "Untitled",
        author=author,
        origin="koreader",
        category="books",
        sections=sections,
        warnings=(*describe_faults(faults), *warnings),
    )


FORMAT: Final = Format(
    name="KOReader highlights",
    extensions=(".json",),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    fields={
        "title, author": "the title and the author of a source; its id is made from both",
        "documents": "several books",
        "entries.text, entries.note": "a passage: the text, an empty line and the note",
        "entries.chapter, entries.page": "the chapter and the page",
        "entries.time": "the date of the passage",
        "entries without text, such as pictures": "left out",
    },
    example='{"title": "On tests", "author": "Ann Helm", "entries": [{"sort": "highlight", "text":'
    ' "A flaky test is worse than none.", "chapter": "Noise", "page": 12, "time": 1717173713}]}\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
