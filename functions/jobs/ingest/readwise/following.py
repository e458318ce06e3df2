"""Follow a Readwise library: read what changed since the last complete run, and what was deleted.

An export of what changed holds only the highlights that did. So a run first lists the changes, to
learn which books they are in, and then asks for each of these books whole, by its id.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import headline
from functions.jobs.ingest.readers.readwise_export import name_of
from functions.jobs.ingest.readwise.books import Listed, Parts, id_of, listed, read
from functions.jobs.ingest.readwise.export import Export, OutOfTime
from shared.job import Failure
from shared.store.ingestion import BLOCK
from shared.store.readwise_sync import MOST_MISSED, Missed, Progress, ReadwiseSync, UnderWay

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.deps import Deps
    from shared.job import Budget, Report

MARGIN: Final = timedelta(minutes=10)
"""What changed so shortly before a run is read again by the next: a change may be seen late."""
_REASON_LENGTH: Final = 200


async def follow_readwise(deps: Deps, budget: Budget, report: Report) -> None:
    """Bring the base to what the library says, thirty books at a time.

    A book that cannot be read is reported, tried again by the next runs, up to five times, and
    keeps none of the others out. Where the run's time ends, or it is killed, the next one goes on
    behind the last thirty that were saved: it lists the changes again, and asks for none of the
    books before.

    Raises:
        InvalidInput: Readwise refuses the access token.
        Unavailable: Readwise does not answer.
    """
    token = deps.settings.readwise_token
    if token is None or budget.spent:
        report.finished = token is None
        return
    sync = ReadwiseSync(deps.store.database)
    url = deps.settings.readwise_url
    async with Export(url, token, deadline=budget.deadline, clock=deps.clock) as export:
        try:
            await _Run(deps, budget, report, export, sync).complete(await sync.progress())
        except OutOfTime:
            report.finished = False


class _Run:
    """One run."""

    def __init__(
        self, deps: Deps, budget: Budget, report: Report, export: Export, sync: ReadwiseSync
    ) -> None:
        self._deps = deps
        self._budget = budget
        self._report = report
        self._export = export
        self._sync = sync

    async def complete(self, progress: Progress) -> None:
        """List what changed, and deal with it, from where the last run was stopped."""
        changed, began_at = await self._changes(progress.updated_after)
        changed |= {
            book_id: Listed(missed.name)
            for book_id, missed in progress.waiting.items()
            if book_id not in changed
        }
        if not changed and not progress.under_way:
            return
        under_way = progress.under_way or UnderWay(began_at, "")
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
            if start + BLOCK < len(left):
                await self._sync.keep(progress)
        await self._sync.keep(_completed(progress, under_way.began_at))

    async def _changes(self, updated_after: datetime | None) -> tuple[dict[str, Listed], datetime]:
        """The books with changes, by their ids, and when the first page of them was sent."""
        found: dict[str, Listed] = {}
        began_at: datetime | None = None
        async for page in self._export.pages(updated_after=updated_after):
            began_at = began_at or page.sent_at
            for book in page.books:
                if (book_id := id_of(book)) is None:
                    self._fail(name_of(book) or "a book", "has no id by which to ask for it")
                    continue
                seen = listed(book_id, book)
                found[book_id] = found[book_id].joined(seen) if book_id in found else seen
        return found, began_at or self._deps.clock()

    async def _block(
        self, block: Mapping[str, Listed], progress: Progress, began_at: datetime
    ) -> Progress:
        """Read some books whole, save them, and say how far that is."""
        parts = await self._parts(block)
        found = await asyncio.to_thread(read, block, parts)
        books = [each for each in found.values() if not isinstance(each, str)]
        self._report.counts += await self._deps.store.ingestion.save(books, self._deps.clock())
        self._report.counts["read"] += len(books)
        self._budget.progress(len(block))
        missed = {key: each for key, each in progress.missed.items() if key not in found}
        for book_id, reason in found.items():
            if isinstance(reason, str):
                name = block[book_id].name
                self._fail(name, reason)
                missed[book_id] = _missed(name, reason, progress.missed.get(book_id))
        return replace(progress, missed=missed, under_way=UnderWay(began_at, list(block)[-1]))

    async def _parts(self, block: Mapping[str, Listed]) -> dict[str, Parts]:
        """What Readwise says of each of some books, of all pages together."""
        parts: dict[str, Parts] = {}
        async for page in self._export.pages(ids=block):
            for book in page.books:
                if (book_id := id_of(book)) and book_id in block:
                    parts.setdefault(book_id, Parts()).add(book)
        return parts

    def _fail(self, name: str, reason: str) -> None:
        self._report.failures.append(Failure(f"Readwise: {name}", reason))


def _order(book_id: str) -> tuple[int, str]:
    """Numbers by their size."""
    return len(book_id), book_id


def _missed(name: str, reason: str, before: Missed | None) -> Missed:
    """One more try; a parked book is only read where it changed, and so starts anew."""
    tries = before.tries if before and not before.parked else 0
    return Missed(name, headline(reason, _REASON_LENGTH), tries + 1)


def _completed(progress: Progress, began_at: datetime) -> Progress:
    """Where a completed run leaves it: too many books to remember are all read again."""
    if len(progress.missed) >= MOST_MISSED:
        return replace(progress, under_way=None)
    return Progress(began_at - MARGIN, progress.missed)
