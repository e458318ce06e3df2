"""Assembles books from the pages of an export. A book may be split over pages, and repeated."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from functions.jobs.ingest.readers.readwise.export import (
    derive_book_source_id,
    parse_book_name,
    parse_source,
)
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.core.deferral import MAX_TRIES
from shared.knowledge.source import Source

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
class PendingBook:
    """A book that was listed as changed, and has not been read since.

    Attributes:
        name: The title, or else the id, for people.
        has_highlights: Whether the listing contains a highlight that was not deleted.
        tries: The number of failed attempts to read it, one per run.
        reason: Why the last attempt failed.
    """

    name: str
    deleted: bool = False
    has_highlights: bool = False
    tries: int = 0
    reason: str = ""

    @property
    def dead_lettered(self) -> bool:
        """Whether the book is not read again until it changes."""
        return self.tries >= MAX_TRIES

    def merge(self, later: PendingBook) -> PendingBook:
        """Merge what two pages of a listing say of the same book."""
        return replace(later, has_highlights=self.has_highlights or later.has_highlights)


def make_pending_book(book_id: str, book: dict[str, Any]) -> PendingBook:
    """Return a book that a page lists as changed."""
    highlights = book.get("highlights")
    return PendingBook(
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


def read_book(book_id: str, book: PendingBook, parts: BookParts | None) -> Source:
    """Read a book. One without sections was deleted.

    A book or highlight that is merely missing from the answer does not count as deleted.

    Args:
        parts: What Readwise sent of the book on request.

    Raises:
        Unreadable: The book is not valid or not complete.
    """
    if parts is None and book.deleted:
        return Source(derive_book_source_id(book_id), title=book.name)
    if parts is None:
        raise Unreadable("was requested, but is missing from the answer")
    if book.has_highlights and parts.highlights == {} and not parts.book.get("is_deleted"):
        raise Unreadable("was sent without the highlights that were listed")
    return parse_source(parts.assemble())


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
