"""Bring the knowledge base to what the texts on disk say."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.reading import BrokenInput, read
from shared.domain.chunk import chunks_of
from shared.domain.source import Source
from shared.errors import InvalidInput
from shared.job import Failure, Job, Report
from shared.retrieval.chunking import split
from shared.store.ingestion import BLOCK, ChunkedSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.deps import Deps
    from shared.job import Budget


async def ingest(deps: Deps, budget: Budget) -> Report:
    """Read the configured path, and write what differs from the database, block by block.

    What is unchanged costs one read a source and no write. A broken file is reported by name and
    the rest goes in. Killed anywhere, the next run completes what is missing.

    Raises:
        InvalidInput: No path is configured, or nothing can be read from it.
    """
    report = Report()
    blocks = _blocks(_path(deps), report)
    # Reading and chunking take a second a megabyte: the loop must stay free to renew the lease.
    while block := await asyncio.to_thread(next, blocks, None):
        if budget.spent:
            report.finished = False
            break
        report.counts += await deps.store.ingestion.save(block, deps.clock())
        report.counts["read"] += len(block)
        budget.progress(len(block))
    return report


async def readable(deps: Deps) -> int:
    """How many texts the configured path holds."""
    path = _path(deps)
    return await asyncio.to_thread(lambda: sum(isinstance(each, Source) for each in read(path)))


def _path(deps: Deps) -> Path:
    if not deps.settings.ingest_path:
        raise InvalidInput("Nothing to ingest: set INGEST_PATH to a file or a folder.")
    return Path(deps.settings.ingest_path)


def _blocks(path: Path, report: Report) -> Iterator[list[ChunkedSource]]:
    """Sources, thirty at a time; what is broken goes into the report."""
    block: list[ChunkedSource] = []
    for source in _sources(path, report):
        block.append(_chunked(source))
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


def _chunked(source: Source) -> ChunkedSource:
    spans = [split(section.text) for section in source.sections]
    return ChunkedSource(source, chunks_of(source, spans))


JOB = Job(name="ingest", title="Ingest texts", run=ingest, total=readable, schedule="0 4 * * *")
