"""Follows a Readwise library: changed books are read, and deleted books are forgotten.

An export of changes contains only the changed highlights. So a run first lists the changes to learn
which books are affected, and then requests these books completely, by id. The stored items are the
books that were listed and not read yet, and `updated_after` is the time from which the next run
lists changes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_headline
from functions.jobs.ingest.readers.reading import InputProblem
from functions.jobs.ingest.readers.readwise.export import (
    count_unknown_fields,
    derive_book_source_id,
    describe_unknown_fields,
    parse_book_name,
)
from functions.jobs.ingest.readers.source_file import Unreadable
from functions.jobs.ingest.readwise.books import (
    BookParts,
    PendingBook,
    count_highlights,
    make_pending_book,
    parse_book_id,
    read_book,
)
from functions.jobs.ingest.readwise.client import ReadwiseClient
from shared.core.blocks import split
from shared.core.errors import CarrelError, InvalidInput
from shared.knowledge.followed import Followed
from shared.runtime.job import DeadLetters, Failure, format_failures
from shared.writer.ingestion import BATCH_SIZE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from functions.jobs.ingest.readwise.client import ExportPage
    from shared.firestore.database import Database
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

MARGIN: Final = timedelta(minutes=10)
"""A run lists changes from this long before the last run began, because some appear late."""
_MAX_REASON: Final = 200
"""The maximum length of the stored reason why a book could not be read, in characters."""
_LISTING: Final = "the list of changes"


@asynccontextmanager
async def follow_library(ctx: Context, budget: Budget) -> AsyncIterator[FollowedLibrary]:
    """Open the configured library as an origin."""
    token = ctx.settings.readwise_token
    if token is None:
        raise InvalidInput("READWISE_TOKEN is not set.")
    url = ctx.settings.readwise_url
    async with ReadwiseClient(url, token, deadline=budget.deadline, clock=ctx.clock) as client:
        yield FollowedLibrary(client, ctx.database)


def open_state(database: Database) -> Followed[PendingBook]:
    """Return the state of the library, which is not loaded yet."""
    return Followed(database, "readwise", PendingBook)


class FollowedLibrary:
    """The books of a library. A run does not list them all, so none is ever missing.

    A book that cannot be read is retried by the next runs until it is dead-lettered.
    """

    name = "Readwise"
    note = ""
    error: CarrelError | None = None
    kept_ids: AbstractSet[str] = frozenset()

    def __init__(self, client: ReadwiseClient, database: Database) -> None:
        self._client = client
        self._followed = open_state(database)
        self._pending: dict[str, PendingBook] = {}
        self._updated_after: datetime | None = None
        self._problems: list[InputProblem] = []
        self._unread_count = 0
        self._unknown_fields: Counter[str] = Counter()

    async def list_items(self) -> Sequence[Sequence[str]]:
        """List the books to read: those that changed, and those that earlier runs did not read.

        Raises:
            InvalidInput: Readwise rejects the access token.
            Unavailable: Readwise does not answer.
        """
        await self._followed.load()
        if self._followed.is_current:
            self._pending = dict(self._followed.items)
            self._updated_after = self._followed.fields.get("updated_after")
        await self._list_changes()
        due = [book_id for book_id, book in self._pending.items() if not book.dead_lettered]
        self._unread_count = len(due)
        # An empty batch reports the problems of a list without books.
        return list(split(sorted(due, key=_numeric_key), BATCH_SIZE)) or [[]]

    @asynccontextmanager
    async def read(self, names: Sequence[str]) -> AsyncIterator[Iterable[Source | InputProblem]]:
        """Request books, and read them."""
        parts = await self._request_books(names) if names else {}
        self._unknown_fields += count_unknown_fields(book.assemble() for book in parts.values())
        yield chain(self._problems, self._read_books(names, parts))
        self._problems = []

    async def remember(self, names: Sequence[str], rejected: Mapping[str, str]) -> None:
        """Remember that books were read, or why not."""
        for book_id in names:
            book = self._pending.pop(book_id)
            if reason := rejected.get(derive_book_source_id(book_id)) or book.reason:
                self._pending[book_id] = replace(
                    book, tries=book.tries + 1, reason=to_headline(reason, _MAX_REASON)
                )
        await self._followed.store(self._pending, {"updated_after": self._updated_after})

    def find_missing(self) -> None:
        """Return None: Readwise names deleted books."""

    async def complete(
        self,
        forgotten: AbstractSet[str],  # noqa: ARG002 - none is ever missing
        read_at: datetime | None,
        failures: Sequence[Failure],  # noqa: ARG002 - a book fails until it is read
    ) -> None:
        """Store when the changes were read, and which books could not be read, by any run."""
        problems = format_failures(_list_failures(self._pending.values()))
        await self._followed.store_outcome(read_at, problems)

    def label(self, name: str) -> str:
        """Return the name of a book after that of its origin."""
        return f"Readwise: {name}"

    async def _list_changes(self) -> None:
        """Add the changed books to the pending ones.

        If the list is empty or incomplete, the next run lists changes from the same time. More
        books may change while pages are read, so the count on the first page is a minimum. Readwise
        does not document whether this count is of books or of highlights.
        """
        books: dict[str, PendingBook] = {}
        first: ExportPage | None = None
        unidentified_count = highlight_count = 0
        async for page in self._client.request_pages(updated_after=self._updated_after):
            first = first or page
            for book in page.books:
                highlight_count += count_highlights(book)
                if (book_id := parse_book_id(book)) is None:
                    unidentified_count += 1
                    reason = "has no id, so it cannot be requested"
                    self._problems.append(InputProblem(parse_book_name(book) or "a book", reason))
                    continue
                listed = make_pending_book(book_id, book)
                books[book_id] = books[book_id].merge(listed) if book_id in books else listed
        for book_id, listed in books.items():
            former = self._pending.get(book_id, listed)
            tries = 0 if former.dead_lettered else former.tries
            self._pending[book_id] = replace(listed, tries=tries)
        # Whichever is counted, the list is complete if either number reaches the announced one.
        received = max(len(books) + unidentified_count, highlight_count)
        if first and first.count > received:
            lacks = f"lacks {first.count - received} of its announced items"
            self._problems.append(
                InputProblem(_LISTING, f"{lacks}; the next run requests it again")
            )
        elif first and books:
            self._updated_after = first.sent_at - MARGIN

    async def _request_books(self, names: Sequence[str]) -> dict[str, BookParts]:
        """Request some books, and assemble each from all pages."""
        parts: dict[str, BookParts] = {}
        async for page in self._client.request_pages(ids=names):
            for book in page.books:
                if (book_id := parse_book_id(book)) and book_id in names:
                    parts.setdefault(book_id, BookParts()).add(book)
        return parts

    def _read_books(
        self, names: Sequence[str], parts: Mapping[str, BookParts]
    ) -> Iterator[Source | InputProblem]:
        """Read books, and after the last one, warn once of all fields that Carrel does not know."""
        for book_id in names:
            book = replace(self._pending[book_id], reason="")
            try:
                source = read_book(book_id, book, parts.get(book_id))
            except Unreadable as error:
                book = replace(book, reason=str(error))
                yield InputProblem(book.name, book.reason)
            else:
                for warning in source.warnings:
                    yield InputProblem(source.title, warning, kept=True)
                yield source
            self._pending[book_id] = book
        self._unread_count -= len(names)
        if not self._unread_count:
            for warning in describe_unknown_fields(self._unknown_fields):
                yield InputProblem("fields", warning, kept=True)


def _numeric_key(book_id: str) -> tuple[int, str]:
    """Return a key that sorts ids, which are decimal numbers without leading zeros, by value."""
    return len(book_id), book_id


async def _load_dead_letters(ctx: Context, limit: int) -> list[Failure]:
    """Load up to `limit` of the books that are not retried until they change."""
    followed = open_state(ctx.database)
    await followed.load()
    return _list_failures(book for book in followed.items.values() if book.dead_lettered)[:limit]


def _list_failures(books: Iterable[PendingBook]) -> list[Failure]:
    return [Failure(f"Readwise: {book.name}", book.reason) for book in books if book.reason]


async def _retry(ctx: Context) -> int:
    """Queue all dead-lettered books for the next run, and return their number."""
    return await ctx.database.retry_on_conflict(partial(_try_to_retry, ctx.database))


async def _try_to_retry(database: Database) -> int:
    followed = open_state(database)
    await followed.load()
    renewed = {
        book_id: replace(book, tries=0)
        for book_id, book in followed.items.items()
        if book.dead_lettered
    }
    await followed.store({**followed.items, **renewed}, if_unchanged=True)
    return len(renewed)


DEAD_LETTERS: Final = DeadLetters(load=_load_dead_letters, retry=_retry)
