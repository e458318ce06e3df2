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
    describe_unknown_fields,
    parse_book_name,
)
from functions.jobs.ingest.readers.source_file import Unreadable
from functions.jobs.ingest.readwise.books import (
    BookChange,
    BookParts,
    count_highlights,
    make_book_change,
    parse_book_id,
    read_books,
)
from functions.jobs.ingest.readwise.client import OutOfTime, ReadwiseClient
from shared.core.blocks import split
from shared.knowledge.readwise_sync import (
    MAX_FAILED_BOOKS,
    FailedBook,
    ReadwiseSync,
    SyncProgress,
    UnfinishedRun,
)
from shared.runtime.job import DeadLetters, Failure
from shared.writer.ingestion import BATCH_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from functions.jobs.ingest.readwise.client import ExportPage
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report
    from shared.writer.chunked_source import ChunkedSource

MARGIN: Final = timedelta(minutes=10)
"""A run lists changes from this long before the last run began, because some appear late."""
_BEFORE_ALL_IDS: Final = ""
"""The `done` id of a run that has saved no book yet. It sorts before every id."""
_MAX_REASON: Final = 200
"""The maximum length of the stored reason why a book could not be read, in characters."""
_LISTING: Final = "the list of changes"


async def sync_readwise(ctx: Context, budget: Budget, report: Report) -> None:
    """Bring the knowledge base up to date with the library, a batch of books at a time.

    A book that cannot be read is reported, and the next runs retry it until it is dead-lettered;
    the other books are saved. After a run that ends early or is killed, the next run lists the
    changes again and skips the batches that were saved, unless the list was incomplete.

    Raises:
        InvalidInput: Readwise rejects the access token.
        Unavailable: Readwise does not answer.
    """
    token = ctx.settings.readwise_token
    if token is None:
        return
    if budget.spent:
        report.finished = False
        return
    sync = ReadwiseSync(ctx.database)
    url = ctx.settings.readwise_url
    async with ReadwiseClient(url, token, deadline=budget.deadline, clock=ctx.clock) as client:
        run = _SyncRun(ctx, budget, report, client, sync)
        try:
            await run.sync_changes(await sync.load_progress())
        except OutOfTime:
            report.finished = False
        run.report_unknown_fields()


@dataclass(slots=True)
class _Changes:
    """A listing of changes.

    Attributes:
        began_at: When Readwise sent the first page, by Readwise's clock.
        unlisted_count: The number of books or highlights that the first page announced and that no
            page contains. If there are any, the list is incomplete.
    """

    books: dict[str, BookChange]
    began_at: datetime
    unlisted_count: int = 0


class _SyncRun:
    """One run. It counts the fields that Carrel does not know, over all pages."""

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
        """List the changes and process them, from where the last run stopped."""
        changes = await self._list_changes(progress.updated_after)
        if progress.under_way and not changes.books:
            # The unfinished run listed changes, so this list cannot be right.
            reason = "is empty, although a run is unfinished; the next run requests it again"
            self._report_failure(_LISTING, reason)
            return
        if changes.unlisted_count:
            self._report_failure(
                _LISTING,
                f"lacks {changes.unlisted_count} of its announced items;"
                " the next run requests it again",
            )
        retries = {book_id: BookChange(book.name) for book_id, book in progress.retryable.items()}
        # A listed change replaces a retry, because it also says whether the book was deleted.
        changes.books = retries | changes.books
        # Without a change, nothing is stored: listing from an earlier time costs no more.
        if changes.books:
            await self._process_changes(changes, progress)

    async def _process_changes(self, changes: _Changes, progress: SyncProgress) -> None:
        """Process the changes that an unfinished run has not saved, and store the progress.

        If the list is incomplete, the next run starts where this run did, and lists everything
        again. So neither the saved batches nor the end of the run are recorded, only failed books.
        """
        run = progress.under_way or UnfinishedRun(changes.began_at, _BEFORE_ALL_IDS)
        is_complete = changes.unlisted_count == 0
        failed_books = progress.missed
        last_done = _numeric_key(run.done)
        remaining = [
            book_id
            for book_id in sorted(changes.books, key=_numeric_key)
            if _numeric_key(book_id) > last_done
        ]
        for book_ids in split(remaining, BATCH_SIZE):
            if self._budget.spent:
                self._report.finished = False
                return
            batch = {book_id: changes.books[book_id] for book_id in book_ids}
            failed_books = await self._process_batch(batch, failed_books)
            is_last = book_ids[-1] == remaining[-1]  # then the end of the run is stored instead
            if is_complete and not is_last:
                unfinished = replace(run, done=book_ids[-1])
                await self._sync.store(
                    SyncProgress(progress.updated_after, failed_books, unfinished)
                )
        if is_complete:
            progress = SyncProgress(_choose_next_start(progress, failed_books, run), failed_books)
        else:
            progress = replace(progress, missed=failed_books)
        await self._sync.store(progress)

    def report_unknown_fields(self) -> None:
        """Warn of the fields that Readwise added to its export, once for the whole run."""
        for warning in describe_unknown_fields(self._unknown_fields):
            self._report.warnings.append(_make_problem("fields", warning))

    async def _list_changes(self, updated_after: datetime | None) -> _Changes:
        """List the changed books.

        More books may change while pages are read, so the count on the first page is a minimum.
        Readwise does not document whether this count is of books or of highlights.
        """
        books: dict[str, BookChange] = {}
        first: ExportPage | None = None
        unidentified_count = highlight_count = 0
        async for page in self._client.request_pages(updated_after=updated_after):
            first = first or page
            for book in page.books:
                highlight_count += count_highlights(book)
                if (book_id := parse_book_id(book)) is None:
                    unidentified_count += 1
                    name = parse_book_name(book) or "a book"
                    self._report_failure(name, "has no id, so it cannot be requested")
                    continue
                change = make_book_change(book_id, book)
                books[book_id] = books[book_id].merge(change) if book_id in books else change
        if first is None:
            return _Changes(books, self._context.clock())
        # Whichever is counted, the list is complete if either number reaches the announced one.
        received = max(len(books) + unidentified_count, highlight_count)
        return _Changes(books, first.sent_at, max(0, first.count - received))

    async def _process_batch(
        self, batch: Mapping[str, BookChange], failed_before: Mapping[str, FailedBook]
    ) -> dict[str, FailedBook]:
        """Read and save some books, and return the failed books of this and earlier batches."""
        parts_by_book = await self._request_books(batch)
        self._unknown_fields += count_unknown_fields(
            parts.assemble() for parts in parts_by_book.values()
        )
        reasons = await self._save(await asyncio.to_thread(read_books, batch, parts_by_book))
        self._budget.progress(len(batch))
        failed = {book_id: book for book_id, book in failed_before.items() if book_id not in batch}
        for book_id, reason in reasons.items():
            name = batch[book_id].name
            self._report_failure(name, reason)
            failed[book_id] = _make_failed_book(name, reason, failed_before.get(book_id))
        return failed

    async def _save(self, books: Mapping[str, ChunkedSource | Unreadable]) -> dict[str, str]:
        """Save the readable books, and return why the others were not saved, by book id."""
        sources = [book for book in books.values() if not isinstance(book, Unreadable)]
        refused = await save_sources(sources, self._context, self._report)
        self._report.counts["read"] += len(sources) - len(refused)
        for chunked in sources:
            for warning in chunked.source.warnings:
                self._report.warnings.append(_make_problem(chunked.source.title, warning))
        reasons: dict[str, str] = {}
        for book_id, book in books.items():
            if isinstance(book, Unreadable):
                reasons[book_id] = str(book)
            elif book.source.source_id in refused:
                reasons[book_id] = refused[book.source.source_id]
        return reasons

    async def _request_books(self, batch: Mapping[str, BookChange]) -> dict[str, BookParts]:
        """Request some books, and assemble each from all pages."""
        parts: dict[str, BookParts] = {}
        async for page in self._client.request_pages(ids=batch):
            for book in page.books:
                if (book_id := parse_book_id(book)) and book_id in batch:
                    parts.setdefault(book_id, BookParts()).add(book)
        return parts

    def _report_failure(self, name: str, reason: str) -> None:
        self._report.failures.append(_make_problem(name, reason))


def _make_problem(name: str, reason: str) -> Failure:
    return Failure(f"Readwise: {to_one_line(name)}", to_one_line(reason))


def _numeric_key(book_id: str) -> tuple[int, str]:
    """Return a key that sorts ids, which are decimal numbers without leading zeros, by value."""
    return len(book_id), book_id


def _make_failed_book(name: str, reason: str, previous: FailedBook | None) -> FailedBook:
    """Return the record of a failed book, with this attempt counted.

    A dead-lettered book is read only after it has changed, so its tries are counted from 1 again.
    """
    tries = previous.tries if previous and not previous.dead_lettered else 0
    return FailedBook(name, to_headline(reason, _MAX_REASON), tries + 1)


def _choose_next_start(
    progress: SyncProgress, failed_books: Mapping[str, FailedBook], run: UnfinishedRun
) -> datetime | None:
    """Return the time from which the run after a complete run lists changes.

    The stored failed books are cut off at a maximum. With that many books, some may therefore be
    unknown, and the next run lists the same changes again.
    """
    if len(failed_books) >= MAX_FAILED_BOOKS:
        return progress.updated_after
    return run.began_at - MARGIN


async def _load_dead_letters(ctx: Context, limit: int) -> list[Failure]:
    """Load up to `limit` of the books that are not retried until they change."""
    books = await ReadwiseSync(ctx.database).load_dead_letters()
    return [Failure(f"Readwise: {book.name}", book.reason) for book in books[:limit]]


async def _retry(ctx: Context) -> int:
    """Queue all dead-lettered books for the next run, and return their number."""
    return await ReadwiseSync(ctx.database).retry()


DEAD_LETTERS: Final = DeadLetters(load=_load_dead_letters, retry=_retry)
