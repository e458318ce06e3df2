"""Fetches saved links: each page becomes a source, or the link records why it failed."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from functions.jobs.ingest.batches import chunk_source, save_sources
from functions.jobs.ingest.links.page import (
    FETCH_RULES,
    PageUnavailable,
    describe_rejection,
    fetch_source,
)
from functions.jobs.ingest.readers.fields import to_headline, to_one_line
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.core.blocks import split
from shared.core.errors import InvalidInput
from shared.core.installation import carrel
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import SafeFetch
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.knowledge.source_repository import Sources
from shared.links.model import Link, derive_link_source_id
from shared.links.repository import SavedLinks
from shared.runtime.job import DeadLetters, Failure, Report
from shared.text.splitting import CHUNK_LIMITS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from shared.links.repository import StoredLink
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

_BATCH_SIZE: Final = 50
"""The number of links that are loaded at a time."""
_HOSTS_AT_ONCE: Final = 4
HOST_PAUSE_SECONDS: Final = 1.0
"""The pause between two requests to a host."""
_MAX_REASON_LENGTH: Final = 300
"""The maximum length of the stored reason why a page could not be fetched, in characters."""
_FORGOTTEN: Final = "was forgotten and is not ingested again. To restore it: {command}"


async def fetch_links(  # noqa: PLR0913 - two of them are for tests
    ctx: Context,
    budget: Budget,
    report: Report,
    fetch: SafeFetch | None = None,
    *,
    pause: float = HOST_PAUSE_SECONDS,
    source_ids: Sequence[str] | None = None,
) -> None:
    """Fetch the links that are due: from several hosts at once, and from each one by one.

    A run tries each link once. After a temporary failure, later runs try it again until it has
    failed `MAX_TRIES` times. Any other failure marks the link as failed immediately. If a run is
    killed after it stored a page and before it updated the link, the next run fetches the page
    again and finds it unchanged.

    Args:
        fetch: Fetches pages; by default, from public addresses only.
        pause: The seconds between two requests to a host.
        source_ids: The links to fetch, if they are due; by default, all that are due.
    """
    fetch = fetch or SafeFetch(FETCH_RULES)
    slots = asyncio.Semaphore(_HOSTS_AT_ONCE)
    ready_at: defaultdict[str, float] = defaultdict(float)

    async def fetch_from(host: str, waiting: list[StoredLink]) -> None:
        async with slots:
            for stored in waiting:
                await asyncio.sleep(max(0.0, ready_at[host] - time.monotonic()))
                if budget.spent:
                    report.finished = False
                    return
                await _process_link(stored, ctx, report, fetch)
                ready_at[host] = time.monotonic() + pause
                budget.progress(1)

    async for batch in _load_batches(ctx, source_ids):
        by_host: defaultdict[str, list[StoredLink]] = defaultdict(list)
        for stored in batch:
            if stored.link:
                by_host[urlsplit(stored.link.url).netloc].append(stored)
        # All hosts come to an end before an error is raised.
        outcomes = await asyncio.gather(
            *starmap(fetch_from, by_host.items()), return_exceptions=True
        )
        for error in filter(None, outcomes):
            raise error
        if not report.finished:
            return


async def _load_batches(
    ctx: Context, source_ids: Sequence[str] | None
) -> AsyncIterator[list[StoredLink]]:
    """Yield the links that are due, each once."""
    links = SavedLinks(ctx.database)
    if source_ids is not None:
        for block in split(source_ids, _BATCH_SIZE):
            yield await links.load_due(block, ctx.clock())
        return
    tried: set[str] = set()
    while True:
        due = await links.list_due(ctx.clock(), _BATCH_SIZE)
        new = [stored for stored in due if stored.snapshot.id not in tried]
        if not new:
            return
        tried.update(stored.snapshot.id for stored in new)
        yield new


async def ingest_link(
    url: str, ctx: Context, budget: Budget, fetch: SafeFetch | None = None
) -> Report:
    """Ingest the page at a URL immediately, bypassing the queue.

    Raises:
        InvalidInput: The URL does not address a public web page.
    """
    try:
        address = PublicUrl.of_link(url)
    except DocumentRejected as error:
        raise InvalidInput(f"{to_one_line(url)} {describe_rejection(error)}.") from error
    report = Report()
    link = Link(
        source_id=derive_link_source_id(address),
        url=address.text,
        requested_at=ctx.clock(),
    )
    await _store_page(link, ctx, report, fetch or SafeFetch(FETCH_RULES))
    budget.progress(1)
    return report


async def _process_link(stored: StoredLink, ctx: Context, report: Report, fetch: SafeFetch) -> None:
    """Fetch a due link, and record the outcome in the link."""
    if stored.link is None:  # Queries return existing documents only, but the type allows None.
        return
    error = await _store_page(stored.link, ctx, report, fetch)
    now = ctx.clock()
    match error:
        case None:
            link = stored.link.mark_stored(now)
        case PageUnavailable():
            link = stored.link.defer(_shorten_reason(error), now)
        case _:
            link = stored.link.mark_failed(_shorten_reason(error))
    # If the user saved or cancelled the link meanwhile, the user's change wins.
    await ctx.database.commit_skipping_conflicts([stored.build_update_write(link)])


async def _store_page(
    link: Link, ctx: Context, report: Report, fetch: SafeFetch
) -> Unreadable | None:
    """Store the page of a link; return the error if that fails, else None."""
    try:
        await _fetch_and_save(link, ctx, report, fetch)
    except Unreadable as error:
        report.failures.append(Failure(link.url, _shorten_reason(error)))
        return error
    report.counts["read"] += 1
    return None


def _shorten_reason(error: Unreadable) -> str:
    return to_headline(str(error), _MAX_REASON_LENGTH)


async def _fetch_and_save(link: Link, ctx: Context, report: Report, fetch: SafeFetch) -> None:
    record, _ = await ForgottenSources(ctx.database).get(link.source_id)
    if record.whole:
        raise Unreadable(_FORGOTTEN.format(command=carrel(f"forget --restore {link.source_id}")))
    source = await fetch_source(link, fetch)
    stored = await Sources(ctx.database).get(link.source_id)
    if stored and not source.folder:  # the record of a stored link is not kept for ever
        source = replace(source, folder=stored.folder)
    limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
    chunked = await asyncio.to_thread(chunk_source, source, limits, ctx.zone)
    if not chunked.chunks:
        raise Unreadable("has no text")
    report.warnings += [
        Failure(link.url, to_one_line(warning)) for warning in chunked.source.warnings
    ]
    refused = await save_sources([chunked], ctx, report, keeps_replaced=True)
    if reason := refused.get(link.source_id):
        raise Unreadable(reason)


async def _load_dead_letters(ctx: Context, limit: int) -> list[Failure]:
    links = await SavedLinks(ctx.database).list_dead_letters(limit)
    return [Failure(link.url, link.error or "") for link in links]


async def _retry_dead_letters(ctx: Context) -> int:
    return await SavedLinks(ctx.database).retry(ctx.clock())


DEAD_LETTERS: Final = DeadLetters(load=_load_dead_letters, retry=_retry_dead_letters)
