"""Ingests files on this machine, and forgets the sources of files that were deleted."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.batches import SourceBatch, chunk_in_batches, save_batch
from functions.jobs.ingest.followed_folder import (
    UNKNOWN_CONTENT,
    FolderChanges,
    FollowedFolder,
    hash_content,
)
from functions.jobs.ingest.missing_sources import MissingSources, describe_removed
from functions.jobs.ingest.readers.fields import to_headline, to_one_line
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import (
    FileListing,
    InputProblem,
    find_identity,
    list_files,
    make_source_file,
    read_entries,
    read_files,
)
from functions.jobs.ingest.roots import list_possible_moves, register
from shared.core.blocks import split
from shared.core.errors import InvalidInput
from shared.core.installation import carrel
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.followed_files import FollowedFiles
from shared.knowledge.roots import Roots
from shared.knowledge.source import Source
from shared.runtime.job import Failure, Report
from shared.writer.ingestion import BATCH_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from functions.jobs.ingest.roots import Registration
    from shared.firestore.database import Database
    from shared.knowledge.roots import Root
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

_TITLE_LENGTH: Final = 80
"""The maximum length of a title in a message, in characters."""
_EMPTIED: Final = (
    "is empty, as if its disk were missing: what was read of it before stays; delete the folder to"
    " have that forgotten"
)


async def ingest_path(  # noqa: PLR0913 - two ways to confirm what is missing
    path: str,
    ctx: Context,
    budget: Budget,
    report: Report,
    *,
    confirmed: AbstractSet[str] | None = None,
    forgets_all: bool = False,
) -> None:
    """Read a file or a folder, and write what differs from the database, batch by batch.

    At the end, the sources of missing files are forgotten. An unchanged source costs one read and
    no write. A broken file is reported by name, and the other files are saved. The next run
    completes a run that was killed. If a Readwise library is followed, its exports are skipped,
    because they would bring back texts that were edited since.

    Args:
        confirmed: The ids of missing sources that may be forgotten. By default, all of them may be
            forgotten, unless more than a third of the files or sources is missing, which is
            reported as a failure.
        forgets_all: Whether all missing sources may be forgotten, however many they are.

    Raises:
        InvalidInput: Nothing can be read from the path.
    """
    if budget.spent:
        report.finished = False
        return
    follows_readwise = ctx.settings.readwise_token is not None
    comparison = await ctx.database.retry_on_conflict(
        lambda: _compare(Path(path), ctx.database, registers=True)
    )
    if follows_readwise:
        comparison = replace(comparison, changes=comparison.changes.without_books())
    listing, changes = comparison.listing, comparison.changes
    confirmed = changes.missing_ids if forgets_all else confirmed
    forgettable = _select_forgettable(comparison, confirmed, report)
    if changes.error and not forgettable:
        raise changes.error
    report.note = to_one_line(f"{report.note} {_format_note(listing)}")
    report.warnings += [
        Failure(to_one_line(str(folder.relative_to(changes.scope))), _EMPTIED)
        for folder in changes.emptied
    ]
    if changes.kept_ids:
        report.counts["sources kept"] += len(changes.kept_ids)
    await comparison.store()
    listing = replace(listing, source_ids=changes.source_ids)
    sources = _read_sources(listing, report, without_books=follows_readwise)
    remaining = chunk_in_batches(sources, ctx.zone)
    # Reading and chunking a megabyte takes a second and would block the event loop, and the lease.
    while batch := await asyncio.to_thread(next, remaining, None):
        if budget.spent:
            report.finished = False
            return
        for source, reason in await save_batch(batch, ctx, budget, report):
            name = f"{to_headline(source.title, _TITLE_LENGTH)} ({source.source_id})"
            report.failures.append(Failure(name, reason))
    forgotten = await _forget(sorted(forgettable), ctx, budget, report)
    await comparison.store(forgotten, ctx.clock() if report.finished else None)


async def _forget(
    source_ids: Sequence[str], ctx: Context, budget: Budget, report: Report
) -> AbstractSet[str]:
    """Forget sources until the time is up, and return the forgotten ones."""
    forgotten: set[str] = set()
    for block in split(source_ids, BATCH_SIZE):
        if budget.spent:
            report.finished = False
            break
        await MissingSources(ctx, report).forget(block)
        forgotten.update(block)
    return forgotten


async def ingest_confirmed(
    path: str, confirmed: AbstractSet[str], ctx: Context, budget: Budget
) -> Report:
    """Ingest a path, and forget only the confirmed missing sources; see `ingest_path`."""
    report = Report()
    await ingest_path(path, ctx, budget, report, confirmed=confirmed)
    report.note = f"{report.note} {describe_removed(report, ctx.zone)}".strip()
    return report


async def compare_path(
    path: Path, database: Database, *, follows_readwise: bool = False
) -> FolderChanges:
    """Compare the files of a path with those that were ingested, and write nothing.

    Raises:
        InvalidInput: Nothing can be read from the path, and nothing was ingested from it before.
    """
    changes = (await _compare(path, database, registers=False)).changes
    return changes.without_books() if follows_readwise else changes


async def load_followed_source_ids(path: Path, database: Database) -> list[str]:
    """Load the ids of the sources that were ingested from a followed folder or a path in it."""
    roots = (await Roots(database).read()).roots
    listing = await asyncio.to_thread(_make_empty_listing, path, roots)
    return await FollowedFolder(database, listing, roots).load_source_ids()


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The files of a path, and their changes.

    Attributes:
        folder: Stores the states of the files; None for a Carrel export, which is not followed.
    """

    listing: FileListing
    changes: FolderChanges
    folder: FollowedFolder | None = None

    async def store(
        self, forgotten: AbstractSet[str] = frozenset(), read_at: datetime | None = None
    ) -> None:
        """Store the states of the files without the forgotten sources.

        Args:
            forgotten: The ids of the missing sources that were forgotten.
            read_at: When the path was read; None if it was not read completely.
        """
        if self.folder and self.changes.states:
            await self.folder.store(
                self.changes.compute_states_after_forgetting(forgotten), read_at
            )


async def _compare(path: Path, database: Database, *, registers: bool) -> _Comparison:
    """List and compare the files of the path."""
    stored = await Roots(database).read()
    roots: Sequence[Root] = stored.roots
    error = None
    try:
        listing = await asyncio.to_thread(list_files, path, roots)
    except InvalidInput as failure:
        listing, error = await asyncio.to_thread(_make_empty_listing, path, roots), failure
    if listing.is_export:
        return _Comparison(listing, FolderChanges(listing.scope))
    if listing.files:
        listing = await _adopt_former_name(listing, roots, database)
        roots = listing.registration.roots
        if registers:
            await Roots(database).replace(stored, roots)
    folder = FollowedFolder(database, listing, roots)
    changes = await folder.find_changes()
    if error and not changes.missing:
        raise error
    return _Comparison(listing, replace(changes, error=error), folder)


def _make_empty_listing(path: Path, roots: Sequence[Root]) -> FileListing:
    """Return the listing of a path that has no files, or is gone."""
    scope = Path(os.path.realpath(path))
    return FileListing(scope, {}, register(scope, roots))


def _select_forgettable(
    comparison: _Comparison, confirmed: AbstractSet[str] | None, report: Report
) -> AbstractSet[str]:
    """Return the missing sources that may be forgotten; report a failure if they are too many."""
    changes = comparison.changes
    if confirmed is not None:
        return changes.missing_ids & confirmed
    if changes.missing_ids and changes.missing_counts.is_alarming:
        alarm = changes.missing_counts.make_alarm(changes.scope.name, carrel("ingest FOLDER --yes"))
        report.failures.append(alarm)
        return frozenset()
    return changes.missing_ids


async def _adopt_former_name(
    listing: FileListing, roots: Sequence[Root], database: Database
) -> FileListing:
    """Return the listing under the name of a folder that has become this one, or unchanged.

    A folder that was moved or renamed is recognized by its texts: at least half of a sample must be
    stored under the former folder's name, word for word. If several former folders qualify, the
    one with the most matches is chosen.
    """
    moves = await asyncio.to_thread(list_possible_moves, listing.registration.root, roots)
    moves = await _filter_by_files(moves, listing, database)
    listings = [
        await _add_stored_ids(replace(listing, registration=move), database) for move in moves
    ]
    samples = [await asyncio.to_thread(_read_sample, listing) for listing in listings]
    chunk_ids = [chunk_id for sample in samples for chunk_id in sample]
    stored = {chunk.chunk_id for chunk in await Chunks(database).get_all(chunk_ids)}
    best, best_count = listing, 0
    for former, sample in zip(listings, samples, strict=True):
        count = len(stored.intersection(sample))
        if count > best_count and 2 * count >= len(sample):
            best, best_count = former, count
    return best


async def _filter_by_files(
    moves: Sequence[Registration], listing: FileListing, database: Database
) -> list[Registration]:
    """Drop the moves in which a folder with other files would have been renamed.

    A renamed folder has the same files if at least half of a sample of its files were in the former
    folder, and if it contains at least half as many files as the former folder.
    """
    likely = [move for move in moves if not move.is_renamed]
    renamed = [move for move in moves if move.is_renamed]
    if not renamed:
        return likely
    names = _pick_sample_names(listing)
    hashes = await asyncio.to_thread(
        lambda: [hash_content(name, listing.files[name]) for name in names]
    )
    for move in renamed:
        states = (await FollowedFiles.of_folder(database, move.root).load_files()).values()
        former = {state.generation for state in states if not state.missing} - {UNKNOWN_CONTENT}
        count = sum(digest in former for digest in hashes)
        if count and 2 * count >= len(hashes) and 2 * len(listing.files) >= len(former):
            likely.append(move)
    return likely


async def _add_stored_ids(listing: FileListing, database: Database) -> FileListing:
    """Return the listing with the source ids that are stored for its files."""
    changes = await FollowedFolder(database, listing, listing.registration.roots).find_changes()
    return replace(listing, source_ids=changes.source_ids)


def _read_sample(listing: FileListing) -> list[str]:
    """Return the id of the first chunk of up to 30 texts. Such an id contains a hash of the text.

    Exports are left out, because their sources have the same ids in every folder.
    """
    files = {name: listing.files[name] for name in _pick_sample_names(listing)}
    items = read_files(replace(listing, files=files, problems=()))
    sources = (item for item in items if isinstance(item, Source))
    batch = next(chunk_in_batches(sources), SourceBatch())
    return [source.chunks[0].chunk_id for source in batch.accepted if source.chunks]


def _pick_sample_names(listing: FileListing) -> list[str]:
    """Return the names of up to 30 files that are not exports, spread evenly over the folder."""
    names = [name for name in listing.files if find_identity(PurePath(name)) is not Identity.ORIGIN]
    return names[:: len(names) // BATCH_SIZE + 1]


def _format_note(listing: FileListing) -> str:
    notes = [listing.registration.note] if listing.is_named_after_folder else []
    if listing.not_read:
        notes.append(f"Not read: {listing.not_read}.")
    return " ".join(notes)


async def count_texts(path: str) -> int:
    """Count the texts at a path. Only files that may contain several texts are read."""
    return await asyncio.to_thread(lambda: sum(_count_texts_per_file(list_files(Path(path)))))


def _count_texts_per_file(listing: FileListing) -> Iterator[int]:
    """Yield the number of texts in each file."""
    for name in listing.files:
        if find_identity(PurePath(name)) is Identity.FILE:
            yield 1
        else:
            entries = read_entries(make_source_file(name, listing))
            yield sum(isinstance(entry, Source) for _, entry in entries)


def _read_sources(listing: FileListing, report: Report, *, without_books: bool) -> Iterator[Source]:
    """Yield the readable sources, and add problems to the report."""
    for item in read_files(listing, without_books=without_books):
        if isinstance(item, InputProblem):
            items = report.warnings if item.kept else report.failures
            items.append(Failure(item.name, to_one_line(item.reason)))
        else:
            yield item
