"""A Readwise export: the answer of `GET /api/v2/export/`, a page of it or all pages' books.

The fields are those of https://readwise.io/api_deets (Highlight EXPORT). A book is a source and
each of its highlights a section, whether it comes from a file or from Readwise itself. An export
made with `updatedAfter` holds only the highlights that changed: the others would look deleted, so
give whole exports.
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
    kept_without,
    parse_json,
    read_text,
    validated,
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
from shared.core.ids import safe_id
from shared.knowledge.source import Section, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES: Final = 64 * MEGABYTE
"""Of a file, or of an answer of Readwise's: it is parsed at once, and takes several times that."""
_NAME_LENGTH: Final = 80
_BOOK: Final = re.compile(r"readwise-[0-9]+")


class _Highlight(ExternalModel):
    """A passage that the reader marked, and what they wrote beside it."""

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


def records(place: SourceFile) -> Iterator[Record]:
    """The books of a file that holds an object with `results`, or a list of books.

    Raises:
        Unreadable: It holds neither.
    """
    export = parse_json(read_text(place.path, MAX_BYTES))
    books = export.get("results") if isinstance(export, dict) else export
    if not isinstance(books, list):
        raise Unreadable("is not a Readwise export: neither a list of books nor `results` with one")
    for number, book in enumerate(books, start=1):
        name = name_of(book) or f"book {number}"
        yield f"{place.name}: {name}", partial(source_of, book)


def name_of(book: Any) -> str | None:
    """What to call a book that may be broken, if it says so."""
    fields = book if isinstance(book, dict) else {}
    for field in ("readable_title", "title", "user_book_id"):
        if isinstance(value := fields.get(field), str | int) and (name := str(value).strip()):
            return headline(name, _NAME_LENGTH)
    return None


def source_id_of(book_id: str) -> str:
    """The id of a book's source."""
    return safe_id(f"readwise-{book_id}")


def is_book(source_id: str) -> bool:
    """Whether a source is a Readwise book, as far as its id tells."""
    return bool(_BOOK.fullmatch(source_id))


def source_of(raw: Any) -> Source:
    """A book of an export as a source; one that was deleted, or emptied, has no sections.

    Raises:
        Unreadable: It is not what Readwise says a book is.
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
        warnings=kept_without(faults),
    )


def _sections(highlights: list[_Highlight] | None) -> tuple[Section, ...]:
    """The highlights that are left, in reading order.

    No sections delete a source: what merely lacks its highlights, or their text, is refused.
    """
    if highlights is None:
        raise Unreadable("has no `highlights`")
    left = [each for each in highlights if not (each.is_deleted or each.is_discard)]
    sections = tuple(_section(each) for each in sorted(left, key=_place) if each.text or each.note)
    if left and not sections:
        raise Unreadable("holds no text: all its highlights are empty")
    return sections


def _place(highlight: _Highlight) -> tuple[float, int]:
    return (math.inf if highlight.location is None else highlight.location, highlight.id)


def _section(highlight: _Highlight) -> Section:
    """The marked words, then the reader's own: both are worth finding."""
    note = f"Note: {highlight.note}" if highlight.note else ""
    return Section(
        "\n\n".join(part for part in (highlight.text, note) if part),
        tags=highlight.tags,
        readwise_url=highlight.readwise_url,
        highlight_url=highlight.url,
        highlighted_at=highlight.highlighted_at,
    )
