"""Files on this machine: what they hold goes in; what is gone from them stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.chunking import blocks
from functions.jobs.ingest.readers.fields import headline, one_line
from functions.jobs.ingest.readers.reading import BrokenInput, read
from functions.jobs.ingest.readers.readwise_export import is_book
from functions.jobs.ingest.saving import save
from shared.domain.source import Source
from shared.job import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.deps import Deps
    from shared.job import Budget, Report

_TITLE_LENGTH: Final = 80


async def read_path(path: str, deps: Deps, budget: Budget, report: Report) -> None:
    """Read a file or a folder, and write what differs from the database, block by block.

    What is unchanged costs one read a source and no write. A broken file is reported by name and
    the rest goes in. Killed anywhere, the next run completes what is missing. Where Readwise itself
    is followed, an export of it is left out: it would bring back what was edited since.

    Raises:
        InvalidInput: Nothing can be read from the path.
    """
    follows_readwise = deps.settings.readwise_token is not None
    left = blocks(_sources(Path(path), report, without_books=follows_readwise))
    # Reading and chunking take a second a megabyte: the loop must stay free to renew the lease.
    while block := await asyncio.to_thread(next, left, None):
        if budget.spent:
            report.finished = False
            break
        for source, reason in await save(block, deps, budget, report):
            name = f"{headline(source.title, _TITLE_LENGTH)} ({source.source_id})"
            report.failures.append(Failure(name, reason))


async def count(path: str) -> int:
    """How many texts the path holds."""
    found = read(Path(path))
    return await asyncio.to_thread(lambda: sum(isinstance(each, Source) for each in found))


def _sources(path: Path, report: Report, *, without_books: bool) -> Iterator[Source]:
    """What can be read; what is broken goes into the report."""
    for item in read(path):
        if isinstance(item, BrokenInput):
            report.failures.append(Failure(item.name, one_line(item.reason)))
        elif not (without_books and is_book(item.source_id)):
            yield item
