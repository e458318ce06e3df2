"""Files on this machine: what they hold goes in; what is gone from them stays."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.batches import SourceBatch, blocks
from functions.jobs.ingest.readers.fields import headline, to_one_line
from functions.jobs.ingest.readers.reading import InputProblem, list_files, read, read_files
from functions.jobs.ingest.roots import possible_moves
from functions.jobs.ingest.saving import save
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import BLOCK
from shared.knowledge.roots import Roots
from shared.knowledge.source import Source
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from functions.jobs.ingest.readers.reading import FileListing
    from shared.knowledge.roots import Root
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

_TITLE_LENGTH: Final = 80


async def read_path(path: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Read a file or a folder, and write what differs from the database, block by block.

    What is unchanged costs one read a source and no write. A broken file is reported by name and
    the rest goes in. Killed anywhere, the next run completes what is missing. Where Readwise itself
    is followed, an export of it is left out: it would bring back what was edited since.

    Raises:
        InvalidInput: Nothing can be read from the path.
    """
    if budget.spent:
        report.finished = False
        return
    listing = await ctx.database.retry_on_conflict(partial(_listing, Path(path), ctx))
    report.note = to_one_line(f"{report.note} {_note(listing)}")
    follows_readwise = ctx.settings.readwise_token is not None
    left = blocks(_sources(listing, report, without_books=follows_readwise))
    # Reading and chunking take a second a megabyte: the loop must stay free to renew the lease.
    while block := await asyncio.to_thread(next, left, None):
        if budget.spent:
            report.finished = False
            break
        for source, reason in await save(block, ctx, budget, report):
            name = f"{headline(source.title, _TITLE_LENGTH)} ({source.source_id})"
            report.failures.append(Failure(name, reason))


async def _listing(path: Path, ctx: Context) -> FileListing:
    """What the path holds, once its folder has a name in the base, if ids are made with it."""
    stored = await Roots(ctx.database).read()
    listing = await asyncio.to_thread(list_files, path, stored.roots)
    if listing.is_named_after_folder:
        listing = await _under_former_name(listing, stored.roots, ctx)
        await Roots(ctx.database).replace(stored, listing.registration.roots)
    return listing


async def _under_former_name(
    listing: FileListing, roots: Sequence[Root], ctx: Context
) -> FileListing:
    """The listing as that of a folder which is gone, if this one holds the same texts.

    At least half of a sample must be stored under the former folder's name, word for word. Of
    several former folders the one with the most matches is taken.
    """
    moves = await asyncio.to_thread(possible_moves, listing.registration.root, roots)
    listings = [replace(listing, registration=move) for move in moves]
    samples = [await asyncio.to_thread(_sample, listing) for listing in listings]
    chunk_ids = [chunk_id for sample in samples for chunk_id in sample]
    stored = {chunk.chunk_id for chunk in await Chunks(ctx.database).get_all(chunk_ids)}
    best, best_count = listing, 0
    for former, sample in zip(listings, samples, strict=True):
        count = len(stored.intersection(sample))
        if count > best_count and 2 * count >= len(sample):
            best, best_count = former, count
    return best


def _sample(listing: FileListing) -> list[str]:
    """The ids of the first chunks of up to 30 texts; a hash of the words is part of such an id.

    Books of an export have the same ids in each folder: they are left out.
    """
    names = [name for name in listing.files if not name.lower().endswith(".json")]
    files = {name: listing.files[name] for name in names[:: len(names) // BLOCK + 1]}
    items = read_files(replace(listing, files=files, refused=()))
    block = next(blocks(item for item in items if isinstance(item, Source)), SourceBatch())
    return [source.chunks[0].chunk_id for source in block.fit if source.chunks]


def _note(listing: FileListing) -> str:
    notes = [listing.registration.note] if listing.is_named_after_folder else []
    if listing.not_read:
        notes.append(f"Not read: {listing.not_read}.")
    return " ".join(notes)


async def count(path: str) -> int:
    """How many texts the path holds."""
    found = read(Path(path))
    return await asyncio.to_thread(lambda: sum(isinstance(each, Source) for each in found))


def _sources(listing: FileListing, report: Report, *, without_books: bool) -> Iterator[Source]:
    """What can be read; what is broken goes into the report."""
    for item in read_files(listing, without_books=without_books):
        if isinstance(item, InputProblem):
            items = report.warnings if item.kept else report.failures
            items.append(Failure(item.name, to_one_line(item.reason)))
        else:
            yield item
