"""Follow a Readwise library: read what changed since the last complete run, and what was deleted.

An export of what changed holds only the highlights that did. So a run first lists the changes, to
learn which books they are in, and then asks for each of these books whole, by its id.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import headline, to_one_line
from functions.jobs.ingest.readers.readwise_export import name_of
from functions.jobs.ingest.readwise.books import (
    BookChange,
    BookParts,
    highlights_in,
    id_of,
    listed,
    read,
)
from functions.jobs.ingest.readwise.client import OutOfTime, ReadwiseClient
from shared.knowledge.ingestion import BLOCK, Ingestion
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
"""What changed so shortly before a run is read again by the next: a change may be seen late."""
_REASON_LENGTH: Final = 200
_LISTING: Final = "the list of changes"


async def follow_readwise(ctx: Context, budget: Budget, report: Report) -> None:
    """Bring the base to what the library says, thirty books at a time.

    A book that cannot be read is reported, tried again by the next runs, up to five times, and
    keeps none of the others out. Where the run's time ends, or it is killed, the next one goes on
    behind the last thirty that were saved: it lists the changes again, and asks for none of the
    books before.

    Raises:
        InvalidInput: Readwise refuses the access token.
        Unavailable: Readwise does not answer.
    """
    token = ctx.settings.readwise_token
    if token is None or budget.spent:
        report.finished = token is None
        return
    sync = ReadwiseSync(ctx.database)
    url = ctx.settings.readwise_url
    async with ReadwiseClient(url, token, deadline=budget.deadline, clock=ctx.clock) as export:
        try:
            await _Run(ctx, budget, report, export, sync).complete(await sync.progress())
        except OutOfTime:
            report.finished = False


@dataclass(slots=True)
class _Changes:
    """What a listing of changes says.

    Attributes:
        books: The books with changes, by their ids.
        began_at: When its first page was sent, by Readwise's clock.
        missing: How many it counts, books or highlights, that it does not hold.
    """

    books: dict[str, BookChange]
    began_at: datetime
    missing: int = 0


class _Run:
    """One run."""

    def __init__(
        self,
        ctx: Context,
        budget: Budget,
        report: Report,
        export: ReadwiseClient,
        sync: ReadwiseSync,
    ) -> None:
        self._context = ctx
        self._budget = budget
        self._report = report
        self._export = export
        self._sync = sync

    async def complete(self, progress: SyncProgress) -> None:
        """List what changed, and deal with it, from where the last run was stopped."""
        changes = await self._changes(progress.updated_after)
        if progress.under_way and not changes.books:
            self._fail(_LISTING, "came empty before all of it was read: the next run asks again")
            return
        if changes.missing:
            reason = f"lacks {changes.missing} of what it counts: the next run asks again"
            self._fail(_LISTING, reason)
        changed = {
            book_id: BookChange(missed.name) for book_id, missed in progress.retryable.items()
        } | changes.books
        if not changed:
            return
        before, under_way = progress, progress.under_way or UnfinishedRun(changes.began_at, "")
        progress = replace(progress, under_way=under_way)
        left = sorted(
            (each for each in changed if _order(each) > _order(under_way.done)), key=_order
        )
        for start in range(0, len(left), BLOCK):
            if self._budget.spent:
                self._report.finished = False
                return
            block = {book_id: changed[book_id] for book_id in left[start : start + BLOCK]}
            progress = await self._block(block, progress, under_way.began_at)
            if start + BLOCK < len(left) and not changes.missing:
                await self._sync.store(progress)
        if changes.missing:
            await self._sync.store(replace(before, missed=progress.missed))
        else:
            await self._sync.store(_completed(progress, under_way.began_at))

    async def _changes(self, updated_after: datetime | None) -> _Changes:
        """The books with changes.

        While pages are read more books may change: the first page counts what there is at least.
        Whether it counts books or highlights is documented nowhere.
        """
        found: dict[str, BookChange] = {}
        first: ExportPage | None = None
        nameless = highlights = 0
        async for page in self._export.pages(updated_after=updated_after):
            first = first or page
            for book in page.books:
                highlights += highlights_in(book)
                if (book_id := id_of(book)) is None:
                    nameless += 1
                    self._fail(name_of(book) or "a book", "has no id by which to ask for it")
                    continue
                seen = listed(book_id, book)
                found[book_id] = found[book_id].joined(seen) if book_id in found else seen
        if first is None:
            return _Changes(found, self._context.clock())
        held = max(len(found) + nameless, highlights)
        return _Changes(found, first.sent_at, max(0, first.count - held))

    async def _block(
        self, block: Mapping[str, BookChange], progress: SyncProgress, began_at: datetime
    ) -> SyncProgress:
        """Read some books whole, save them, and say how far that is."""
        parts = await self._parts(block)
        found = await self._saved(await asyncio.to_thread(read, block, parts))
        self._budget.progress(len(block))
        missed = {key: each for key, each in progress.missed.items() if key not in found}
        for book_id, reason in found.items():
            if reason is not None:
                name = block[book_id].name
                self._fail(name, reason)
                missed[book_id] = _missed(name, reason, progress.missed.get(book_id))
        return replace(progress, missed=missed, under_way=UnfinishedRun(began_at, list(block)[-1]))

    async def _saved(self, found: Mapping[str, ChunkedSource | str]) -> dict[str, str | None]:
        """Save the books that could be read; tell of each why it did not go in, or None."""
        books = [each for each in found.values() if not isinstance(each, str)]
        saved = await Ingestion(self._context.database).save_each(books, self._context.clock())
        self._report.counts += saved.counts
        self._report.counts["read"] += len(books) - len(saved.refused)
        self._report.warnings += [
            _failure(book.source.title, warning)
            for book in books
            for warning in book.source.warnings
        ]
        return {
            book_id: each if isinstance(each, str) else saved.refused.get(each.source.source_id)
            for book_id, each in found.items()
        }

    async def _parts(self, block: Mapping[str, BookChange]) -> dict[str, BookParts]:
        """What Readwise says of each of some books, of all pages together."""
        parts: dict[str, BookParts] = {}
        async for page in self._export.pages(ids=block):
            for book in page.books:
                if (book_id := id_of(book)) and book_id in block:
                    parts.setdefault(book_id, BookParts()).add(book)
        return parts

    def _fail(self, name: str, reason: str) -> None:
        self._report.failures.append(_failure(name, reason))


def _failure(name: str, reason: str) -> Failure:
    return Failure(f"Readwise: {to_one_line(name)}", to_one_line(reason))


def _order(book_id: str) -> tuple[int, str]:
    """Numbers by their size."""
    return len(book_id), book_id


def _missed(name: str, reason: str, before: FailedBook | None) -> FailedBook:
    """One more try; a parked book is only read where it changed, and so starts anew."""
    tries = before.tries if before and not before.dead_lettered else 0
    return FailedBook(name, headline(reason, _REASON_LENGTH), tries + 1)


def _completed(progress: SyncProgress, began_at: datetime) -> SyncProgress:
    """Where a completed run leaves it: too many books to remember are all read again."""
    if len(progress.missed) >= MAX_FAILED_BOOKS:
        return replace(progress, under_way=None)
    return SyncProgress(began_at - MARGIN, progress.missed)


async def _dead_letters(ctx: Context, limit: int) -> list[Failure]:
    """Some of the books that are not read any more until they change."""
    books = await ReadwiseSync(ctx.database).dead_letters()
    return [Failure(f"Readwise: {book.name}", book.reason) for book in books[:limit]]


async def _retry(ctx: Context) -> int:
    """Read those books again with the next run, and return how many there are."""
    return await ReadwiseSync(ctx.database).retry()


DEAD_LETTERS: Final = DeadLetters(load=_dead_letters, retry=_retry)
