"""Keeps the knowledge base in step with the objects below a Cloud Storage prefix.

New objects are read, and the sources of deleted objects are forgotten. Each generation of an object
is read once. To find changes, a run lists the prefix (one request per thousand objects) and
compares digests (one read).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.batches import chunk_in_batches, save_batch
from functions.jobs.ingest.bucket.contents import ObjectContents, read_sources
from functions.jobs.ingest.bucket.state import UNREAD, BucketState, is_multi_record
from functions.jobs.ingest.bucket.storage import BucketObjects, ObjectChanged, ObjectUnreadable
from functions.jobs.ingest.missing_sources import MissingSources
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import (
    count_kinds,
    explain_excess,
    find_format_by_name,
    find_identity,
    get_extension,
)
from functions.jobs.ingest.readers.readwise.export import is_book
from functions.jobs.ingest.readers.source_file import SourceFile
from shared.core.blocks import pack, split
from shared.core.installation import carrel
from shared.knowledge.followed_files import FileState, FollowedFiles
from shared.runtime.job import Failure
from shared.writer.ingestion import BATCH_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from functions.jobs.ingest.bucket.storage import ListedObject
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

BATCH_BYTES: Final = 32 * 1024 * 1024
"""The approximate size of a download batch. In the cloud, files are in memory."""

_CONFIRMATION: Final = "jobs run ingest --yes"
_CONCURRENCY: Final = 8
"""The number of objects that are downloaded concurrently."""


async def sync_bucket(
    address: str, ctx: Context, budget: Budget, report: Report, *, forgets_all: bool = False
) -> None:
    """Update the knowledge base from the files below a prefix, a batch at a time.

    A record that cannot be read is reported, and all sources that were read from its file before
    are kept. If more than a third of the files or sources is missing, the run reports a failure and
    forgets nothing.

    The sources of a file are recorded before any of them is written, so the next run completes a
    killed run, even if the file has changed in the meantime.

    Args:
        address: `gs://bucket` or `gs://bucket/prefix`.
        forgets_all: Whether all missing sources may be forgotten, however many they are.

    Raises:
        InvalidInput: The bucket cannot be read.
        Unavailable: Cloud Storage does not answer.
    """
    if budget.spent:
        report.finished = False
        return
    async with BucketObjects(address, ctx.settings.google_cloud_project) as objects:
        listing = await objects.fetch_listing()
        visible = {name: listed for name, listed in listing.items() if not _is_hidden(name)}
        readable = {
            name: listed
            for name, listed in visible.items()
            if find_format_by_name(PurePosixPath(name))
        }
        others = Counter(get_extension(PurePosixPath(name)) for name in visible.keys() - readable)
        state = BucketState(FollowedFiles(ctx.database, objects.address), readable)
        await state.load()
        run = _SyncRun(ctx, budget, report, objects, state)
        await run.complete(readable, forgets_all=forgets_all)
        if others := others + run.foreign:
            report.note = f"Not read: {count_kinds(others)}."


class _SyncRun:
    """A run, with what it has read so far.

    Attributes:
        foreign: The number of unnamed files of other programs, by extension.
        _new_states: The states of objects that have lost sources. They are stored at the end of the
            run, when the lost sources are forgotten.
        _deleted_ids: The ids of books that a file names as deleted. They are never an alarming
            loss.
    """

    def __init__(
        self,
        ctx: Context,
        budget: Budget,
        report: Report,
        objects: BucketObjects,
        state: BucketState,
    ) -> None:
        self._context = ctx
        self._budget = budget
        self._report = report
        self._objects = objects
        self._state = state
        self.foreign: Counter[str] = Counter()
        self._read_names: set[str] = set()
        self._new_states: dict[str, FileState] = {}
        self._deleted_ids: set[str] = set()

    async def complete(self, listing: Mapping[str, ListedObject], *, forgets_all: bool) -> None:
        """Read new objects, then forget the sources that no object contains any longer."""
        unread = self._state.list_unread()
        for names in pack(unread, BATCH_SIZE, BATCH_BYTES, lambda name: listing[name].size):
            with tempfile.TemporaryDirectory(prefix="carrel-ingest-") as folder:
                await self._read_and_save(names, listing, Path(folder))
            if not self._report.finished:
                return
        await self._forget_missing(forgets_all=forgets_all)

    async def _forget_missing(self, *, forgets_all: bool) -> None:
        """Forget the sources of deleted objects and records, unless they are too many."""
        counts = self._state.count_missing(
            self._new_states,
            lambda source_id: source_id in self._deleted_ids or self._is_excluded(source_id),
        )
        if counts.is_alarming and not forgets_all:
            self._report.failures.append(
                counts.make_alarm(self._objects.address, carrel(_CONFIRMATION))
            )
            return
        dropped: list[str] = []
        for name, state in self._new_states.items():
            dropped += set(self._state.get(name).ids).difference(state.ids)
            self._state.put(name, state)
        # States are stored after their sources are forgotten, so that a killed run is completed.
        await self._forget_unless_shared(dropped)
        await self._state.store()
        for names in split(list(self._state.list_deleted()), BATCH_SIZE):
            if self._is_out_of_time():
                return
            ids = [source_id for name in names for source_id in self._state.get(name).ids]
            for name in names:
                self._state.remove(name)
            await self._forget_unless_shared(ids)
            await self._state.store()

    async def _read_and_save(
        self, names: Sequence[str], listing: Mapping[str, ListedObject], folder: Path
    ) -> None:
        """Read some objects, and save their sources."""
        if self._is_out_of_time():
            return
        files = await self._download(names, listing, folder)
        objects = [
            await self._read_contents(name, listing[name], file) for name, file in files.items()
        ]
        await self._state.store()
        remaining = chunk_in_batches(read_sources(objects), self._context.zone)
        # Reading and chunking a megabyte takes a second and would block the event loop.
        while batch := await asyncio.to_thread(next, remaining, None):
            if self._is_out_of_time():
                return
            for source, reason in await save_batch(
                batch, self._context, self._budget, self._report
            ):
                self._mark_broken(source.source_id, reason, objects)
        for contents in objects:
            self._update_state(contents)
        await self._state.store()

    async def _download(
        self, names: Sequence[str], listing: Mapping[str, ListedObject], folder: Path
    ) -> dict[str, Path]:
        """Download objects. Objects that cannot be read are reported and skipped."""
        slots = asyncio.Semaphore(_CONCURRENCY)

        async def download(number: int, name: str) -> Path | None:
            path = folder / f"{number}{PurePosixPath(name).suffix}"
            if reason := explain_excess(name, listing[name].size):
                self._report_failure(name, reason)
                return None
            try:
                async with slots:
                    await self._objects.download(name, listing[name].generation, path)
            except ObjectChanged:  # the next run reads the new generation
                return None
            except ObjectUnreadable as error:
                self._report_failure(name, str(error))
                return None
            return path

        downloads = (download(number, name) for number, name in enumerate(names))
        # All downloads end before the folder is deleted, even if one fails.
        paths = dict(
            zip(names, await asyncio.gather(*downloads, return_exceptions=True), strict=True)
        )
        if errors := [path for path in paths.values() if isinstance(path, BaseException)]:
            raise errors[0]
        return {name: path for name, path in paths.items() if isinstance(path, Path)}

    async def _read_contents(self, name: str, listed: ListedObject, path: Path) -> ObjectContents:
        """Read a file, report its problems, and record its sources before they are saved."""
        file = SourceFile(path, name, self._objects.collection, relative_path=name)
        contents = ObjectContents(name, listed.generation, file)
        await asyncio.to_thread(contents.read, self._is_excluded)
        self._state.register_sources(name, contents.record_names)
        self._read_names.add(name)
        if contents.is_foreign and not contents.warnings:
            self.foreign[get_extension(PurePosixPath(name))] += 1
        for record_name, reason in contents.broken + contents.duplicates:
            self._report_failure(record_name, reason)
        self._report.warnings += [self._make_failure(*warning) for warning in contents.warnings]
        return contents

    def _mark_broken(self, source_id: str, reason: str, objects: Sequence[ObjectContents]) -> None:
        """Treat a record that cannot be saved like one that cannot be read."""
        for contents in objects:
            if record_name := contents.record_names.get(source_id):
                contents.broken.append((record_name, reason))
                self._report_failure(record_name, reason)

    def _update_state(self, contents: ObjectContents) -> None:
        """Set the state of an object whose sources were saved.

        Sources that it no longer contains are forgotten at the end of the run. Until then, the
        object counts as unread, so that the next run finds these sources if this run is killed. If
        a record of the object is broken, all its previous sources are kept. A log of additions
        keeps those that it does not name as deleted.
        """
        previous = self._state.get(contents.name).ids
        present = contents.record_names
        is_log = find_identity(PurePosixPath(contents.name)) is Identity.ORIGIN
        keeps_all = contents.broken or contents.is_foreign or is_log
        deleted = contents.deleted_ids - present.keys()
        stays = [*previous, *present] if keeps_all else present
        ids = {source_id: None for source_id in stays if source_id not in deleted}
        state = FileState(contents.generation, tuple(ids))
        self._deleted_ids |= deleted
        if dropped := [source_id for source_id in previous if source_id not in ids]:
            self._new_states[contents.name] = state
            state = FileState(UNREAD, (*ids, *dropped))
        self._state.put(contents.name, state)
        if is_multi_record(contents.name) and not is_log:
            self._warn_of_shared_records(contents)

    def _warn_of_shared_records(self, contents: ObjectContents) -> None:
        for name, ids in self._state.find_objects_with(contents.record_names).items():
            if name != contents.name and self._state.is_current(name):
                warning = _describe_shared_records(name, len(ids))
                self._report.warnings.append(self._make_failure(contents.name, warning))

    async def _forget_unless_shared(self, ids: Sequence[str]) -> None:
        """Forget the given sources, except those that another object still contains.

        If another object still contains a source, the stored text may come from the object that
        lost the source. So the next run reads the other object again, unless this run has read it.
        """
        ids_by_object = self._state.find_objects_with(ids) if ids else {}
        for name in ids_by_object.keys() - self._read_names:
            if self._state.is_current(name):
                self._state.put(name, replace(self._state.get(name), generation=UNREAD))
        missing = sorted(set(ids).difference(*ids_by_object.values()))
        await MissingSources(self._context, self._report).forget(
            [source_id for source_id in missing if not self._is_excluded(source_id)]
        )

    def _is_excluded(self, source_id: str) -> bool:
        """Return whether a source is a book that Readwise itself keeps up to date."""
        return self._context.settings.readwise_token is not None and is_book(source_id)

    def _is_out_of_time(self) -> bool:
        """Return whether the run must stop, and record that in the report."""
        if self._budget.spent:
            self._report.finished = False
        return not self._report.finished

    def _report_failure(self, name: str, reason: str) -> None:
        self._report.failures.append(self._make_failure(name, reason))

    def _make_failure(self, name: str, reason: str) -> Failure:
        return Failure(to_one_line(f"{self._objects.address}/{name}"), to_one_line(reason))


def _describe_shared_records(other: str, count: int) -> str:
    records = "a record" if count == 1 else f"{count:,} records"
    return f"has {records} of {other} too; its text was read later and is used; keep one of them"


def _is_hidden(name: str) -> bool:
    """Return whether an object is hidden, in a hidden folder, or only marks a folder."""
    return name.endswith("/") or any(part.startswith(".") for part in PurePosixPath(name).parts)
