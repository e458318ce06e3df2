"""Files on this machine: what they hold goes in; what is gone from them stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from functions.jobs.ingest.chunking import chunked
from functions.jobs.ingest.readers.reading import BrokenInput, read
from functions.jobs.ingest.readers.readwise_export import is_book
from shared.domain.source import Source
from shared.job import Failure
from shared.store.ingestion import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.deps import Deps
    from shared.job import Budget, Report
    from shared.store.ingestion import ChunkedSource


async def read_path(path: str, deps: Deps, budget: Budget, report: Report) -> None:
    """Read a file or a folder, and write what differs from the database, block by block.

    What is unchanged costs one read a source and no write. A broken file is reported by name and
    the rest goes in. Killed anywhere, the next run completes what is missing. Where Readwise itself
    is followed, an export of it is left out: it would bring back what was edited since.

    Raises:
        InvalidInput: Nothing can be read from the path.
    """
    follows_readwise = deps.settings.readwise_token is not None
    blocks = _blocks(Path(path), report, without_books=follows_readwise)
    # Reading and chunking take a second a megabyte: the loop must stay free to renew the lease.
    while block := await asyncio.to_thread(next, blocks, None):
        if budget.spent:
            report.finished = False
            break
        report.counts += await deps.store.ingestion.save(block, deps.clock())
        report.counts["read"] += len(block)
        budget.progress(len(block))


async def count(path: str) -> int:
    """How many texts the path holds."""
    found = read(Path(path))
    return await asyncio.to_thread(lambda: sum(isinstance(each, Source) for each in found))


def _blocks(path: Path, report: Report, *, without_books: bool) -> Iterator[list[ChunkedSource]]:
    """Sources, thirty at a time; what is broken goes into the report."""
    block: list[ChunkedSource] = []
    for source in _sources(path, report):
        if without_books and is_book(source.source_id):
            continue
        block.append(chunked(source))
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _sources(path: Path, report: Report) -> Iterator[Source]:
    for item in read(path):
        if isinstance(item, BrokenInput):
            report.failures.append(Failure(item.name, item.reason))
        else:
            yield item
