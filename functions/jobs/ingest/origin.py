"""Keeps the knowledge base in step with a followed origin: a folder, a bucket or a library.

An origin lists what to read, reads it with the readers of its formats, and remembers what was read.
`sync` saves the sources, and forgets those that the origin no longer contains.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from functions.jobs.ingest.batches import chunk_in_batches, save_batch
from functions.jobs.ingest.links.listed import store_link_lists
from functions.jobs.ingest.missing_sources import MissingSources
from functions.jobs.ingest.readers.fields import to_headline, to_one_line
from functions.jobs.ingest.readers.reading import InputProblem
from functions.jobs.ingest.readers.source_file import LinkList
from shared.core.blocks import split
from shared.runtime.job import Failure
from shared.text.splitting import CHUNK_LIMITS
from shared.writer.ingestion import BATCH_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from functions.jobs.ingest.missing_sources import Missing
    from shared.core.errors import CarrelError
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

_TITLE_LENGTH: Final = 80
"""The maximum length of a title in a message, in characters."""


class OutOfTime(Exception):
    """The run has no time left to wait for the origin."""


class FollowedOrigin(Protocol):
    """An origin that is compared with what was read of it before.

    Attributes:
        name: The name for people, such as that of the folder.
        note: What a person should know about the run, if anything.
        error: Why nothing can be read, although it is known what was read before.
        kept_ids: The ids of sources that stay although their log of additions no longer has them.
    """

    name: str
    note: str
    error: CarrelError | None
    kept_ids: AbstractSet[str]

    async def list_items(self) -> Sequence[Sequence[str]]:
        """Return the names of the items to read, in batches."""

    def read(
        self, names: Sequence[str]
    ) -> AbstractAsyncContextManager[Iterable[Source | LinkList | InputProblem]]:
        """Read a batch, and remember which sources it has before any of them is saved."""

    async def remember(self, names: Sequence[str], rejected: Mapping[str, str]) -> None:
        """Remember that a batch was saved, except the rejected sources, by id with the reason."""

    def find_missing(self) -> Missing | None:
        """Return what is missing, or None if the origin did not list everything that it has."""

    async def complete(
        self, forgotten: AbstractSet[str], read_at: datetime | None, failures: Sequence[Failure]
    ) -> None:
        """Store what is remembered.

        Args:
            forgotten: The ids of the missing sources that were forgotten.
            read_at: When everything was read; None if time ran out first, or nothing can be read.
            failures: What could not be read or was not allowed to be forgotten.
        """

    def label(self, name: str) -> str:
        """Return the name of an item or source in messages."""


async def sync(
    origin: FollowedOrigin,
    ctx: Context,
    budget: Budget,
    report: Report,
    is_confirmed: Callable[[str], bool] | None = None,
) -> None:
    """Read what is new, batch by batch, and then forget what is missing.

    What cannot be read is reported by name, and everything else is saved. The next run completes a
    run that was killed.

    Args:
        is_confirmed: Says of the id of a missing source whether it may be forgotten. By default,
            all of them may be forgotten, unless more than a third of the files or sources is
            missing, which is reported as a failure.

    Raises:
        InvalidInput: The origin cannot be read.
        Unavailable: The origin does not answer.
    """
    if budget.spent:
        report.finished = False
        return
    first = len(report.failures)
    try:
        is_complete = await _read_all(origin, ctx, budget, report)
    except OutOfTime:
        is_complete = False
    report.note = to_one_line(f"{report.note} {origin.note}")
    if origin.kept_ids:
        report.counts["sources kept"] += len(origin.kept_ids)
    missing = origin.find_missing() if is_complete else None
    ids = _select_forgettable(origin.name, missing, report, is_confirmed)
    if origin.error and not ids:
        await origin.complete(frozenset(), None, report.failures[first:])
        raise origin.error
    forgotten: set[str] = set()
    for block in split(sorted(ids), BATCH_SIZE):
        if budget.spent:
            is_complete = False
            break
        await MissingSources(ctx, report).forget(block)
        forgotten.update(block)
    read_at = ctx.clock() if is_complete else None
    await origin.complete(forgotten, read_at, report.failures[first:])
    report.finished = report.finished and is_complete


async def _read_all(origin: FollowedOrigin, ctx: Context, budget: Budget, report: Report) -> bool:
    """Read and save all batches. Return False if time runs out first."""
    for names in await origin.list_items():
        if budget.spent:
            return False
        rejected: dict[str, str] = {}
        lists: list[LinkList] = []
        async with origin.read(names) as items:
            sources = _select_sources(items, lists, origin, report)
            limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
            remaining = chunk_in_batches(sources, limits, ctx.zone)
            # Reading and chunking a megabyte takes a second, and would block the event loop. The
            # thread also adds problems to the report, which nothing else changes meanwhile.
            while batch := await asyncio.to_thread(next, remaining, None):
                if budget.spent:
                    return False
                for source, reason in await save_batch(batch, ctx, budget, report):
                    name = f"{to_headline(source.title, _TITLE_LENGTH)} ({source.source_id})"
                    report.failures.append(Failure(to_one_line(origin.label(name)), reason))
                    rejected[source.source_id] = reason
        await store_link_lists(lists, ctx.database, report)
        await origin.remember(names, rejected)
    return True


def _select_sources(
    items: Iterable[Source | LinkList | InputProblem],
    lists: list[LinkList],
    origin: FollowedOrigin,
    report: Report,
) -> Iterator[Source]:
    """Yield the sources. Add the lists of links to `lists`, and the problems to the report."""
    for item in items:
        if isinstance(item, InputProblem):
            problems = report.warnings if item.kept else report.failures
            name = to_one_line(origin.label(item.name))
            problems.append(Failure(name, to_one_line(item.reason)))
        elif isinstance(item, LinkList):
            lists.append(item)
        else:
            yield item


def _select_forgettable(
    name: str,
    missing: Missing | None,
    report: Report,
    is_confirmed: Callable[[str], bool] | None,
) -> AbstractSet[str]:
    """Return the missing sources that may be forgotten; report a failure if they are too many."""
    if missing is None:
        return frozenset()
    if is_confirmed:
        return frozenset(filter(is_confirmed, missing.ids))
    if missing.is_alarming:
        report.failures.append(missing.make_alarm(name))
        return frozenset()
    return missing.ids
