"""A book as the pages of an export tell it: a part here, a part there, some of them twice."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.ingest.batches import chunked, gone
from functions.jobs.ingest.readers.decoding import Unreadable
from functions.jobs.ingest.readers.readwise_export import name_of, source_id_of, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.knowledge.ingestion import ChunkedSource

_ID: Final = re.compile(r"[0-9a-zA-Z_-]{1,64}", re.ASCII)


def id_of(book: Any) -> str | None:
    """By what Readwise can be asked for a book that may be broken, if it says so."""
    found = book.get("user_book_id") if isinstance(book, dict) else None
    name = str(found).strip() if isinstance(found, str | int) else ""
    return name if _ID.fullmatch(name) else None


def highlights_in(book: Any) -> int:
    """How many highlights come with a book that may be broken."""
    found = book.get("highlights") if isinstance(book, dict) else None
    return len(found) if isinstance(found, list) else 0


@dataclass(frozen=True, slots=True)
class BookChange:
    """What a listing of changes says of a book.

    Attributes:
        name: What people call it.
        deleted: Whether it was deleted.
        lives: Whether it has a highlight that was not.
    """

    name: str
    deleted: bool = False
    lives: bool = False

    def joined(self, other: BookChange) -> BookChange:
        """What two pages say of the same book, of which the other is the later."""
        return BookChange(other.name, other.deleted, self.lives or other.lives)


def listed(book_id: str, book: dict[str, Any]) -> BookChange:
    """What one page says of a book."""
    highlights = book.get("highlights")
    return BookChange(
        name_of(book) or book_id,
        bool(book.get("is_deleted")),
        any(map(_lives, highlights)) if isinstance(highlights, list) else False,
    )


@dataclass(slots=True)
class BookParts:
    """A book that is put together of the parts that pages hold.

    Attributes:
        book: It as the latest page has it, but for its highlights.
        highlights: The newest version of each, by its id; None: a page holds no list of them.
    """

    book: dict[str, Any] = field(default_factory=dict)
    highlights: dict[str, Any] | None = field(default_factory=dict)

    def add(self, book: dict[str, Any]) -> None:
        """Add what one more page says."""
        self.book = book
        found = book.get("highlights")
        if not isinstance(found, list):
            self.highlights = None
        if self.highlights is None:
            return
        for each in found or ():
            key = _key(each)
            if key not in self.highlights or _updated(each) >= _updated(self.highlights[key]):
                self.highlights[key] = each

    def whole(self) -> dict[str, Any]:
        """The book with all its highlights."""
        if self.highlights is None:
            return self.book
        return self.book | {"highlights": list(self.highlights.values())}


def read(
    block: Mapping[str, BookChange], parts: Mapping[str, BookParts]
) -> dict[str, ChunkedSource | str]:
    """Each of the books that were listed, or why it cannot be read. It takes a second a megabyte.

    Args:
        block: What was listed, by the books' ids.
        parts: What came when they were asked for.
    """
    return {book_id: _book(book_id, seen, parts.get(book_id)) for book_id, seen in block.items()}


def _book(book_id: str, seen: BookChange, parts: BookParts | None) -> ChunkedSource | str:
    """A book; what an answer merely lacks is no reason to delete anything."""
    if parts is None and seen.deleted:
        return gone(source_id_of(book_id))
    if parts is None:
        return "was not in the answer, though it was asked for"
    if seen.lives and parts.highlights == {} and not parts.book.get("is_deleted"):
        return "came without the highlights that were listed"
    try:
        return chunked(source_of(parts.whole()))
    except Unreadable as error:
        return str(error)


def _lives(highlight: Any) -> bool:
    gone = ("is_deleted", "is_discard")
    return isinstance(highlight, dict) and not any(highlight.get(name) for name in gone)


def _key(highlight: Any) -> str:
    """By what two versions of a highlight are known to be one; what has no id is all it is."""
    known = isinstance(highlight, dict) and highlight.get("id") is not None
    return f"id {highlight['id']}" if known else repr(highlight)


def _updated(highlight: Any) -> float:
    """When it was changed, in seconds since 1970; what does not say counts as the latest."""
    try:
        return datetime.fromisoformat(highlight["updated_at"]).timestamp()
    except (KeyError, TypeError, ValueError, OverflowError):
        return math.inf
