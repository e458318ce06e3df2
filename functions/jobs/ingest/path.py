"""Ingestion of files on this machine. Sources of deleted files are kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.batches import SourceBatch, batches, save_batch
from functions.jobs.ingest.readers.fields import headline, to_one_line
from functions.jobs.ingest.readers.reading import InputProblem, list_files, read, read_files
from functions.jobs.ingest.roots import possible_moves
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.ingestion import BATCH_SIZE
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


async def ingest_path(path: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Read a file or a folder, and write what differs from the database, batch by batch.

    An unchanged source costs one read and no write. A broken file is reported by name, and the
    others are saved. The next run completes a run that was killed. If Readwise itself is followed,
    exports of it are skipped: they would bring back what was edited since.

    Raises:
        InvalidInput: Nothing can be read from the path.
    """
    if budget.spent:
        report.finished = False
        return
    listing = await ctx.database.retry_on_conflict(partial(_listing, Path(path), ctx))
    report.note = to_one_line(f"{report.note} {_note(listing)}")
    follows_readwise = ctx.settings.readwise_token is not None
    remaining = batches(_sources(listing, report, without_books=follows_readwise))
    # Reading and chunking a megabyte takes a second and would block the event loop, and the lease.
    while batch := await asyncio.to_thread(next, remaining, None):
        if budget.spent:
            report.finished = False
            break
        for source, reason in await save_batch(batch, ctx, budget, report):
            name = f"{headline(source.title, _TITLE_LENGTH)} ({source.source_id})"
            report.failures.append(Failure(name, reason))


async def _listing(path: Path, ctx: Context) -> FileListing:
    """List the files of the path, and register its folder if ids contain the folder's name."""
    stored = await Roots(ctx.database).read()
    listing = await asyncio.to_thread(list_files, path, stored.roots)
    if listing.is_named_after_folder:
        listing = await _under_former_name(listing, stored.roots, ctx)
        await Roots(ctx.database).replace(stored, listing.registration.roots)
    return listing


async def _under_former_name(
    listing: FileListing, roots: Sequence[Root], ctx: Context
) -> FileListing:
    """List the folder under the name of one that has moved, if it has the same texts.

    At least half of a sample must be stored under the former folder's name, word for word. Of
    several former folders the one with the most matches is chosen.
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
    """Return the ids of the first chunks of up to 30 texts; each id has a hash of the text.

    Books of an export have the same ids in every folder, and are left out.
    """
    names = [name for name in listing.files if not name.lower().endswith(".json")]
    files = {name: listing.files[name] for name in names[:: len(names) // BATCH_SIZE + 1]}
    items = read_files(replace(listing, files=files, problems=()))
    sources = (item for item in items if isinstance(item, Source))
    batch = next(batches(sources), SourceBatch())
    return [source.chunks[0].chunk_id for source in batch.accepted if source.chunks]


def _note(listing: FileListing) -> str:
    notes = [listing.registration.note] if listing.is_named_after_folder else []
    if listing.not_read:
        notes.append(f"Not read: {listing.not_read}.")
    return " ".join(notes)


async def count_texts(path: str) -> int:
    """Count the readable texts of the path."""
    items = read(Path(path))
    return await asyncio.to_thread(lambda: sum(isinstance(item, Source) for item in items))


def _sources(listing: FileListing, report: Report, *, without_books: bool) -> Iterator[Source]:
    """Yield the readable sources; problems go into the report."""
    for item in read_files(listing, without_books=without_books):
        if isinstance(item, InputProblem):
            items = report.warnings if item.kept else report.failures
            items.append(Failure(item.name, to_one_line(item.reason)))
        else:
            yield item
