"""Follows a Readwise library: changed books are read, and deleted books are forgotten.

An export of changes contains only the changed highlights. So a run first lists the changes to learn
which books are affected, and then requests these books completely, by id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.batches import save_sources
from functions.jobs.ingest.readers.fields import to_headline, to_one_line
from functions.jobs.ingest.readers.readwise.export import (
    count_unknown_fields,
    parse_book_name,
    warn_of_unknown,
)
from functions.jobs.ingest.readwise.books import (
    BookChange,
    BookParts,
    count_highlights,
    make_book_change,
    parse_book_id,
    read_books,
)
from functions.jobs.ingest.readwise.client import OutOfTime, ReadwiseClient
from shared.knowledge.ingestion import BATCH_SIZE
from shared.knowledge.readwise_sync import (
    MAX_FAILED_BOOKS,
    FailedBook,
    ReadwiseSync,
    SyncProgress,
    UnfinishedRun,
)
from shared.runtime.job import DeadLetters, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from functions.jobs.ingest.readwise.client import ExportPage
    from shared.knowledge.ingestion import ChunkedSource
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

MARGIN: Final = timedelta(minutes=10)
"""A run reads changes from this long before the last run began, because some appear late."""
_MAX_REASON: Final = 200
"""The maximum length of the stored reason why a book could not be read, in characters."""
_LISTING: Final = "the list of changes"


async def sync_readwise(ctx: Context, budget: Budget, report: Report) -> None:
    """Bring the knowledge base up to date with the library, thirty books at a time.

    A book that cannot be read is reported, and the next runs retry it up to five times; the other
    books are saved. After a run that ends early or is killed, the next run lists the changes again
    and skips the batches of thirty books that were saved.

    Raises:
        InvalidInput: Readwise rejects the access token.
        Unavailable: Readwise does not answer.
    """
    token = ctx.settings.readwise_token
    if token is None or budget.spent:
        report.finished = token is None
        return
    sync = ReadwiseSync(ctx.database)
    url = ctx.settings.readwise_url
    async with ReadwiseClient(url, token, deadline=budget.deadline, clock=ctx.clock) as client:
        run = _SyncRun(ctx, budget, report, client, sync)
        try:
            await run.sync_changes(await sync.load_progress())
        except OutOfTime:
            report.finished = False
        run.warn_of_unknown_fields()


@dataclass(slots=True)
class _Changes:
    """A listing of changes.

    Attributes:
        books: The changed books, by id.
        began_at: When Readwise sent the first page, by its own clock.
        missing: How many more books or highlights the first page announced than the pages contain.
    """

    books: dict[str, BookChange]
    began_at: datetime
    missing: int = 0


class _SyncRun:
    """A run, with the unknown fields that it has found so far."""

    def __init__(
        self,
        ctx: Context,
        budget: Budget,
        report: Report,
        client: ReadwiseClient,
        sync: ReadwiseSync,
    ) -> None:
        self._context = ctx
        self._budget = budget
        self._report = report
        self._client = client
        self._sync = sync
        self._unknown_fields: Counter[str] = Counter()

    async def sync_changes(self, progress: SyncProgress) -> None:
        """List the changes and process them, from where the last run stopped.

        If the list lacks items, the changed books are read, but the next run starts where this run
        did, so that it lists everything again.

        Args:
            progress: The progress as it is stored.
        """
        changes = await self._list_changes(progress.updated_after)
        if progress.under_way and not changes.books:
            reason = "is empty, although a run is unfinished; the next run requests it again"
            self._fail(_LISTING, reason)
            return
        if changes.missing:
            self._fail(
                _LISTING,
                f"lacks {changes.missing} of its announced items; the next run requests it again",
            )
        retries = {book_id: BookChange(book.name) for book_id, book in progress.retryable.items()}
        changed = retries | changes.books
        if not changed:
            return
        stored_progress = progress
        unfinished = progress.under_way or UnfinishedRun(changes.began_at, "")
        progress = replace(progress, under_way=unfinished)
        last_done = _numeric_key(unfinished.done)
        remaining = sorted(
            (book_id for book_id in changed if _numeric_key(book_id) > last_done), key=_numeric_key
        )
        for start in range(0, len(remaining), BATCH_SIZE):
            if self._budget.spent:
                self._report.finished = False
                return
            batch = {book_id: changed[book_id] for book_id in remaining[start : start + BATCH_SIZE]}
            progress = await self._process(batch, progress, unfinished.began_at)
            if start + BATCH_SIZE < len(remaining) and not changes.missing:
                await self._sync.store(progress)
        if changes.missing:
            await self._sync.store(replace(stored_progress, missed=progress.missed))
        else:
            await self._sync.store(_complete_progress(progress, unfinished.began_at))

    def warn_of_unknown_fields(self) -> None:
        """Name the fields that Readwise added to its export, once for the whole run."""
        for warning in warn_of_unknown(self._unknown_fields):
            self._report.warnings.append(_make_failure("fields", warning))

    async def _list_changes(self, updated_after: datetime | None) -> _Changes:
        """List the changed books.

        More books may change while pages are read, so the count on the first page is a minimum.
        Readwise does not document whether this count is of books or of highlights.
        """
        books: dict[str, BookChange] = {}
        first: ExportPage | None = None
        without_id = highlights = 0
        async for page in self._client.request_pages(updated_after=updated_after):
            first = first or page
            for book in page.books:
                highlights += count_highlights(book)
                if (book_id := parse_book_id(book)) is None:
                    without_id += 1
                    self._fail(
                        parse_book_name(book) or "a book", "has no id by which to request it"
                    )
                    continue
                change = make_book_change(book_id, book)
                books[book_id] = books[book_id].merge(change) if book_id in books else change
        if first is None:
            return _Changes(books, self._context.clock())
        received = max(len(books) + without_id, highlights)
        return _Changes(books, first.sent_at, max(0, first.count - received))

    async def _process(
        self, batch: Mapping[str, BookChange], progress: SyncProgress, began_at: datetime
    ) -> SyncProgress:
        """Read and save some books, and return the new progress."""
        parts = await self._request_books(batch)
        self._unknown_fields += count_unknown_fields(part.assemble() for part in parts.values())
        reasons = await self._save(await asyncio.to_thread(read_books, batch, parts))
        self._budget.progress(len(batch))
        failed = {
            book_id: book for book_id, book in progress.missed.items() if book_id not in reasons
        }
        for book_id, reason in reasons.items():
            if reason is not None:
                name = batch[book_id].name
                self._fail(name, reason)
                failed[book_id] = _make_failed_book(name, reason, progress.missed.get(book_id))
        return replace(progress, missed=failed, under_way=UnfinishedRun(began_at, list(batch)[-1]))

    async def _save(self, books: Mapping[str, ChunkedSource | str]) -> dict[str, str | None]:
        """Save the readable books.

        Args:
            books: Each book, or the reason why it cannot be read.

        Returns:
            For each book, the reason why it was not saved, or None if it was saved.
        """
        sources = [book for book in books.values() if not isinstance(book, str)]
        refused = await save_sources(sources, self._context, self._report)
        self._report.counts["read"] += len(sources) - len(refused)
        self._report.warnings += [
            _make_failure(chunked.source.title, warning)
            for chunked in sources
            for warning in chunked.source.warnings
        ]
        return {
            book_id: book if isinstance(book, str) else refused.get(book.source.source_id)
            for book_id, book in books.items()
        }

    async def _request_books(self, batch: Mapping[str, BookChange]) -> dict[str, BookParts]:
        """Request some books, and assemble each from all pages."""
        parts: dict[str, BookParts] = {}
        async for page in self._client.request_pages(ids=batch):
            for book in page.books:
                if (book_id := parse_book_id(book)) and book_id in batch:
                    parts.setdefault(book_id, BookParts()).add(book)
        return parts

    def _fail(self, name: str, reason: str) -> None:
        self._report.failures.append(_make_failure(name, reason))


def _make_failure(name: str, reason: str) -> Failure:
    return Failure(f"Readwise: {to_one_line(name)}", to_one_line(reason))


def _numeric_key(book_id: str) -> tuple[int, str]:
    """Return a key that sorts ids, which are decimal numbers without leading zeros, by value."""
    return len(book_id), book_id


def _make_failed_book(name: str, reason: str, previous: FailedBook | None) -> FailedBook:
    """Return the record of a failed book with one more try.

    A dead-lettered book is read only after it has changed, so its tries are counted from 1 again.
    """
    tries = previous.tries if previous and not previous.dead_lettered else 0
    return FailedBook(name, to_headline(reason, _MAX_REASON), tries + 1)


def _complete_progress(progress: SyncProgress, began_at: datetime) -> SyncProgress:
    """Return the progress after a complete run.

    If more books failed than the progress can name, the next run reads all changes again.
    """
    if len(progress.missed) >= MAX_FAILED_BOOKS:
        return replace(progress, under_way=None)
    return SyncProgress(began_at - MARGIN, progress.missed)


async def _load_dead_letters(ctx: Context, limit: int) -> list[Failure]:
    """Load up to `limit` of the books that were given up until they change."""
    books = await ReadwiseSync(ctx.database).load_dead_letters()
    return [Failure(f"Readwise: {book.name}", book.reason) for book in books[:limit]]


async def _retry(ctx: Context) -> int:
    """Queue all dead-lettered books for the next run; return how many they are."""
    return await ReadwiseSync(ctx.database).retry()


DEAD_LETTERS: Final = DeadLetters(load=_load_dead_letters, retry=_retry)
