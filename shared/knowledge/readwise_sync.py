"""`meta/readwise`: how far a Readwise library is synchronized.

The document has the fields of `SyncProgress`, and the `layout` of chunks with which they were
stored. If that layout is not the current one, the whole library is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from shared.core.deferral import MAX_TRIES
from shared.firestore.codec import Codec
from shared.firestore.documents import Reference
from shared.firestore.writes import Set, put_if_unchanged
from shared.knowledge.chunk_repository import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.firestore.database import Database

MAX_FAILED_BOOKS: Final = 500
"""The maximum number of failed books that are stored, since a document may have at most 1 MiB."""
_PATH: Final = ("meta", "readwise")


@dataclass(frozen=True, slots=True)
class FailedBook:
    """A book that could not be read.

    Attributes:
        name: The title for people.
        tries: The number of failed attempts, one per run.
    """

    name: str
    reason: str
    tries: int = 1

    @property
    def dead_lettered(self) -> bool:
        """Whether the book is not read again until it changes."""
        return self.tries >= MAX_TRIES


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """A run that ended before all changes were read.

    Attributes:
        began_at: When the run began, by Readwise's clock.
        done: The id of the last book that was saved.
    """

    began_at: datetime
    done: str


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """How far a library is synchronized.

    Attributes:
        updated_after: All changes before this time are stored, except those of the `missed` books.
            None before the first complete run.
        missed: The books that could not be read, by book id.
    """

    updated_after: datetime | None = None
    missed: Mapping[str, FailedBook] = field(default_factory=dict)
    under_way: UnfinishedRun | None = None

    @property
    def retryable(self) -> dict[str, FailedBook]:
        """The failed books to read again, by book id."""
        return {book_id: book for book_id, book in self.missed.items() if not book.dead_lettered}


_FAILED_BOOK: Final = Codec(FailedBook)


def _load_missed(data: Mapping[str, Any]) -> dict[str, FailedBook]:
    return {book_id: _FAILED_BOOK.load(book) for book_id, book in data.items()}


_CODEC: Final = Codec(
    SyncProgress, readers={"missed": _load_missed, "under_way": Codec(UnfinishedRun).load}
)


class ReadwiseSync:
    """Stores how far a library is synchronized."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_progress(self) -> SyncProgress:
        """Load the progress. It is empty if the layout of chunks has changed.

        Costs one round trip.
        """
        snapshot = await self._database.get(Reference(*_PATH))
        data = snapshot.fields
        return _CODEC.load(data) if data.get("layout") == LAYOUT else SyncProgress()

    async def load_dead_letters(self) -> list[FailedBook]:
        """Load the books that are not read again until they change. Costs one round trip."""
        return [book for book in (await self.load_progress()).missed.values() if book.dead_lettered]

    async def retry(self) -> int:
        """Queue the dead-lettered books again. Return their number."""
        return await self._database.retry_on_conflict(self._retry)

    async def store(self, progress: SyncProgress) -> None:
        """Store the progress. Costs one round trip."""
        reference = Reference(*_PATH)
        missed = dict(islice(progress.missed.items(), MAX_FAILED_BOOKS))
        data = _CODEC.write(replace(progress, missed=missed)) | {"layout": LAYOUT}
        await self._database.commit([Set(reference, data)])

    async def _retry(self) -> int:
        snapshot = await self._database.get(Reference(*_PATH))
        missed: dict[str, dict[str, Any]] = snapshot.fields.get("missed", {})
        dead_letters = [book for book in missed.values() if book["tries"] >= MAX_TRIES]
        for book in dead_letters:
            book["tries"] = 0
        await self._database.commit(
            [put_if_unchanged(snapshot, {"missed": missed})] if dead_letters else []
        )
        return len(dead_letters)
