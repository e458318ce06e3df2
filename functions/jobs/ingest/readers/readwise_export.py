"""Readwise exports: an answer of `GET /api/v2/export/`, or the list of books from all pages.

The fields are those of https://readwise.io/api_deets (Highlight EXPORT). A book is a source and
each of its highlights a section, whether it comes from a file or from Readwise itself. Files must
be whole exports: one made with `updatedAfter` has only the changed highlights, and the others would
look deleted, as would the other books if it replaces an earlier file.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from functions.jobs.ingest.readers.decoding import (
    MEGABYTE,
    Record,
    SourceFile,
    Unreadable,
    parse_json,
    read_text,
    validated,
    warnings_for,
)
from functions.jobs.ingest.readers.fields import (
    DATES,
    Block,
    ExternalModel,
    Line,
    Moment,
    People,
    Tags,
    Title,
    headline,
)
from functions.jobs.ingest.readers.formats import Format, Identity
from shared.core.ids import safe_id
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 64 * MEGABYTE
"""Larger files and responses are refused: parsing takes several times their size in memory."""
_MAX_NAME: Final = 80
_BOOK: Final = re.compile(r"readwise-[0-9]+")


class _Highlight(ExternalModel):
    """A highlighted passage, and the note of the reader."""

    id: int = 0
    text: Block = ""
    note: Block = ""
    location: float | None = None
    highlighted_at: Moment = None
    url: Line = None
    readwise_url: Line = None
    tags: Tags = ()
    is_deleted: bool | None = None
    is_discard: bool | None = None


class _Book(ExternalModel):
    """A book, article, podcast ... with its highlights."""

    user_book_id: Block = Field(min_length=1)
    title: Title = None
    readable_title: Title = None
    author: People = None
    source: Line = None
    category: Line = None
    book_tags: Tags = ()
    readwise_url: Line = None
    source_url: Line = None
    is_deleted: bool | None = None
    highlights: list[_Highlight] | None = None


def records(file: SourceFile) -> Iterator[Record]:
    """Yield the books of a file with a list of books, or an object with such a list as `results`.

    Raises:
        Unreadable: The file has neither.
    """
    export = parse_json(read_text(file.path, MAX_BYTES))
    books = export.get("results") if isinstance(export, dict) else export
    if not isinstance(books, list):
        raise Unreadable("is not a Readwise export: neither a list of books nor `results` with one")
    for number, book in enumerate(books, start=1):
        name = parse_book_name(book) or f"book {number}"
        yield f"{file.name}: {name}", partial(source_of, book)


def is_one_of_several_pages(file: SourceFile) -> bool:
    """Return whether a file has only a part of the books of an export, as its fields say.

    An answer names the next page, and counts what all pages have. Nothing says that an export was
    made with `updatedAfter`.
    """
    try:
        export = parse_json(read_text(file.path, MAX_BYTES))
    except Unreadable:
        return True
    return isinstance(export, dict) and bool(export.get("nextPageCursor"))


def parse_book_name(book: Any) -> str | None:
    """Return the title, or else the id, of an unvalidated book."""
    fields = book if isinstance(book, dict) else {}
    for field in ("readable_title", "title", "user_book_id"):
        if isinstance(value := fields.get(field), str | int) and (name := str(value).strip()):
            return headline(name, _MAX_NAME)
    return None


def source_id_of(book_id: str) -> str:
    """Return the source id of a book."""
    return safe_id(f"readwise-{book_id}")


def is_book(source_id: str) -> bool:
    """Return whether a source id is that of a Readwise book."""
    return bool(_BOOK.fullmatch(source_id))


def source_of(raw: Any) -> Source:
    """Convert a book to a source; a deleted or emptied book has no sections.

    Raises:
        Unreadable: It does not have the fields of a book.
    """
    book, faults = validated(_Book, raw, DATES)
    return Source(
        source_id=source_id_of(book.user_book_id),
        title=headline(book.readable_title or book.title or f"Readwise book {book.user_book_id}"),
        author=book.author,
        origin=book.source or "readwise",
        category=book.category or "documents",
        tags=book.book_tags,
        readwise_url=book.readwise_url,
        source_url=book.source_url,
        sections=() if book.is_deleted else _sections(book.highlights),
        warnings=warnings_for(faults),
    )


def _sections(highlights: list[_Highlight] | None) -> tuple[Section, ...]:
    """Return the highlights that were not deleted, in reading order.

    A source without sections is deleted, so a book that only lacks its highlights, or their text,
    is an error.
    """
    if highlights is None:
        raise Unreadable("has no `highlights`")
    present = [
        highlight for highlight in highlights if not (highlight.is_deleted or highlight.is_discard)
    ]
    sections = tuple(
        _section(highlight)
        for highlight in sorted(present, key=_reading_order)
        if highlight.text or highlight.note
    )
    if present and not sections:
        raise Unreadable("has no text: all its highlights are empty")
    return sections


def _reading_order(highlight: _Highlight) -> tuple[float, int]:
    return (math.inf if highlight.location is None else highlight.location, highlight.id)


def _section(highlight: _Highlight) -> Section:
    """Return the highlighted text and the note of the reader; both can be searched."""
    note = f"Note: {highlight.note}" if highlight.note else ""
    return Section(
        "\n\n".join(part for part in (highlight.text, note) if part),
        tags=highlight.tags,
        readwise_url=highlight.readwise_url,
        highlight_url=highlight.url,
        highlighted_at=highlight.highlighted_at,
    )


FORMAT: Final = Format(
    name="Readwise export",
    endings=(".json",),
    read=records,
    max_bytes=MAX_BYTES,
    fields={
        "user_book_id": "the id of the source",
        "readable_title, title": "the title",
        "author": "the author",
        "source": "the origin, such as kindle or reader",
        "category": "the category",
        "book_tags": "tags of the source",
        "readwise_url, source_url": "its page in Readwise, and the original",
        "highlights.text, highlights.note": "a passage, with the note about it",
        "highlights.tags": "tags of the passage",
        "highlights.highlighted_at": "the date of the passage",
        "highlights.readwise_url, highlights.url": "the highlight in Readwise, and in the original",
    },
    example='{"results": [{"user_book_id": 7, "title": "On tests",'
    ' "highlights": [{"id": 1, "text": "A flaky test is worse than none."}]}]}\n',
    identity=Identity.ORIGIN,
    is_partial=is_one_of_several_pages,
)
