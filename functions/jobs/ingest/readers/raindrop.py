"""Reads highlights and notes from the table of bookmarks that Raindrop exports.

Bookmarks without either are a list of links.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.decoding import read_any_text
from functions.jobs.ingest.readers.fields import Block, ExternalModel, Tags, Timestamp, Title
from functions.jobs.ingest.readers.formats import Format, Identity
from functions.jobs.ingest.readers.highlights import make_page_source, make_section
from functions.jobs.ingest.readers.link_lists import make_link_list
from functions.jobs.ingest.readers.readwise.export import FAVORITE_TAG
from functions.jobs.ingest.readers.source_file import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
)
from functions.jobs.ingest.readers.tables import list_columns, read_rows, split_rows
from functions.jobs.ingest.readers.validation import describe_faults, validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from functions.jobs.ingest.readers.tables import Row
    from shared.knowledge.source import Section, Source

MAX_BYTES: Final = 64 * MEGABYTE
"""The maximum size of a file."""
_PART: Final = re.compile(r"^(Highlight|Note):", re.MULTILINE)
"""The labels of a highlight and of the note on it, in the column `highlights`."""


class _Bookmark(ExternalModel):
    title: Title = None
    note: Block = ""
    url: Block
    tags: Tags = ()
    created: Timestamp = None
    highlights: Block = ""
    favorite: Block = ""


def recognizes(beginning: str) -> bool:
    """Return whether a table that begins like this comes from Raindrop."""
    return {"id", "title", "note", "excerpt", "url"} <= list_columns(beginning)


def read_records(file: SourceFile) -> Iterator[Record]:
    """Yield the bookmarks with highlights or a note, the others as a list, and invalid rows.

    The first of them carries the warnings about the file.
    """
    text, warnings = read_any_text(file.path, MAX_BYTES)
    rows, refusals = split_rows(file, read_rows(text, _Bookmark.model_fields))
    yield from refusals
    for row in filter(_is_annotated, rows):
        yield Record(f"{file.name} line {row.line}", partial(_make_source, row, warnings))
        warnings = ()
    if links := [row.cells for row in rows if not _is_annotated(row)]:
        yield Record(file.name, partial(make_link_list, "Raindrop", links, warnings))


def _is_annotated(row: Row) -> bool:
    return any(row.cells.get(column, "").strip() for column in ("highlights", "note"))


def _make_source(row: Row, warnings: tuple[str, ...]) -> Source:
    bookmark, faults = validate(_Bookmark, dict(row.cells), {"created", "tags"})
    if not bookmark.url:
        raise Unreadable("has no url")
    source = make_page_source(
        "raindrop",
        bookmark.url,
        bookmark.title or bookmark.url,
        tuple(
            replace(section, saved_at=bookmark.created)
            for section in _list_sections(bookmark)
            if section.text
        ),
    )
    favorite = (FAVORITE_TAG,) if bookmark.favorite.casefold() == "true" else ()
    return replace(
        source,
        tags=(*bookmark.tags, *favorite),
        warnings=(*warnings, *describe_faults(faults)),
    )


def _list_sections(bookmark: _Bookmark) -> Iterator[Section]:
    """Yield the note on the page, and each highlight with the note that follows it."""
    yield make_section(bookmark.note)
    first, *parts = _PART.split(bookmark.highlights)
    yield make_section(first.strip())
    text = ""
    for kind, part in zip(parts[::2], parts[1::2], strict=True):
        if kind == "Note":
            yield make_section(text, part.strip())
            text = ""
        else:
            yield make_section(text)
            text = part.strip()
    yield make_section(text)


FORMAT: Final = Format(
    name="Raindrop highlights",
    extensions=(".csv",),
    read=read_records,
    max_bytes=MAX_BYTES,
    recognizes=recognizes,
    fields={
        "url": "the address of a source; its id is made from it",
        "title, tags, favorite": "the title and the tags; favourites have the tag `favorite`",
        "highlights": "one passage each, with the note after it",
        "note": "a passage",
        "created": "the date of the passages",
        "bookmarks without highlights or notes": "links that are listed and not fetched",
        "folder": "the folder of such a link",
        "excerpt, cover": "left out",
    },
    example="id,title,note,excerpt,url,folder,tags,created,cover,highlights,favorite\n"
    '7,On tests,,,https://example.com/tests,Unsorted,"testing, ci",2024-05-31T16:41:53.000Z,,'
    '"Highlight:A flaky test is worse than none.\n\nNote:So true.",false\n',
    identity=Identity.ORIGIN,
    adds_only=True,
)
