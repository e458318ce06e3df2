"""Assembles books from the pages of an export. A book may be split over pages, and repeated."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.batches import chunk_source
from functions.jobs.ingest.readers.readwise.export import (
    derive_book_source_id,
    parse_book_name,
    parse_source,
)
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.writer.chunked_source import ChunkedSource

if TYPE_CHECKING:
    from collections.abc import Mapping

_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)


def parse_book_id(book: Any) -> str | None:
    """Return the id by which an unvalidated book can be requested, or None if it is not valid."""
    value = book.get("user_book_id") if isinstance(book, dict) else None
    book_id = str(value).strip() if isinstance(value, str | int) else ""
    return book_id if _ID.fullmatch(book_id) else None


def count_highlights(book: Any) -> int:
    """Count the highlights in an unvalidated book."""
    highlights = book.get("highlights") if isinstance(book, dict) else None
    return len(highlights) if isinstance(highlights, list) else 0


@dataclass(frozen=True, slots=True)
class BookChange:
    """A book in a listing of changes.

    Attributes:
        name: The title, or else the id, for people.
        has_highlights: Whether the listing contains a highlight that was not deleted.
    """

    name: str
    deleted: bool = False
    has_highlights: bool = False

    def merge(self, later: BookChange) -> BookChange:
        """Merge the changes that two pages list for the same book."""
        return BookChange(later.name, later.deleted, self.has_highlights or later.has_highlights)


def make_book_change(book_id: str, book: dict[str, Any]) -> BookChange:
    """Return the change that a page lists for a book."""
    highlights = book.get("highlights")
    return BookChange(
        parse_book_name(book) or book_id,
        bool(book.get("is_deleted")),
        any(map(_is_present, highlights)) if isinstance(highlights, list) else False,
    )


@dataclass(slots=True)
class BookParts:
    """A book that is put together from the parts on several pages.

    Attributes:
        book: The book as the latest page gives it. Its own highlights are incomplete.
        highlights: The newest version of each highlight, by id; None if a page lists no highlights.
    """

    book: dict[str, Any] = field(default_factory=dict)
    highlights: dict[str, Any] | None = field(default_factory=dict)

    def add(self, book: dict[str, Any]) -> None:
        """Add the part on another page."""
        self.book = book
        highlights = book.get("highlights")
        if not isinstance(highlights, list):
            self.highlights = None
        if self.highlights is None:
            return
        for highlight in highlights or ():
            key = _get_key(highlight)
            previous = self.highlights.get(key)
            if previous is None or _parse_updated_at(highlight) >= _parse_updated_at(previous):
                self.highlights[key] = highlight

    def assemble(self) -> dict[str, Any]:
        """Return the book with all its highlights."""
        if self.highlights is None:
            return self.book
        return self.book | {"highlights": list(self.highlights.values())}


def read_books(
    changes: Mapping[str, BookChange], parts: Mapping[str, BookParts]
) -> dict[str, ChunkedSource | Unreadable]:
    """Chunk each changed book, or return why it cannot be read.

    Blocks for about a second per megabyte: call it in a thread.

    Args:
        changes: The listed changes, by book id.
        parts: The books that Readwise sent on request, by book id.
    """
    return {
        book_id: _read_book(book_id, change, parts.get(book_id))
        for book_id, change in changes.items()
    }


def _read_book(
    book_id: str, change: BookChange, parts: BookParts | None
) -> ChunkedSource | Unreadable:
    """Chunk a book, or return why it cannot be read.

    A book or highlight that is merely missing from the answer does not count as deleted.
    """
    if parts is None and change.deleted:
        return ChunkedSource.deleted(derive_book_source_id(book_id))
    if parts is None:
        return Unreadable("was requested, but is missing from the answer")
    if change.has_highlights and parts.highlights == {} and not parts.book.get("is_deleted"):
        return Unreadable("was sent without the highlights that were listed")
    try:
        return chunk_source(parse_source(parts.assemble()))
    except Unreadable as error:
        return error


def _is_present(highlight: Any) -> bool:
    flags = ("is_deleted", "is_discard")
    return isinstance(highlight, dict) and not any(highlight.get(flag) for flag in flags)


def _get_key(highlight: Any) -> str:
    """Return what identifies a highlight: its id, or else all its fields."""
    has_id = isinstance(highlight, dict) and highlight.get("id") is not None
    return f"id {highlight['id']}" if has_id else repr(highlight)


def _parse_updated_at(highlight: Any) -> float:
    """Return when a highlight last changed, in seconds since 1970.

    Without a valid time, return infinity: of such versions, the one on the latest page is used.
    """
    try:
        return datetime.fromisoformat(highlight["updated_at"]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError):
        return math.inf
