"""Follow a Cloud Storage prefix: read what is new there, and delete what is gone.

An object is read once for each of its generations. It is told by listing the prefix, which costs a
request a thousand objects, and comparing digests, which costs one read.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar

from functions.jobs.ingest.batches import blocks, gone
from functions.jobs.ingest.bucket.contents import ObjectContents, sources
from functions.jobs.ingest.bucket.state import BucketState, of_many
from functions.jobs.ingest.bucket.storage import BucketObjects, ObjectChanged, ObjectUnreadable
from functions.jobs.ingest.readers.decoding import SourceFile
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.reading import ENDINGS, count_kinds, ending_of, too_large
from functions.jobs.ingest.readers.readwise_export import is_book
from functions.jobs.ingest.saving import save
from shared.knowledge.bucket_sync import BucketSync, ObjectState
from shared.knowledge.ingestion import BLOCK, Ingestion
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from functions.jobs.ingest.bucket.storage import ListedObject
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

BATCH_BYTES: Final = 32 * 1024 * 1024
"""What is downloaded before it is read: in the cloud, files lie in memory."""
Item = TypeVar("Item")

_AT_ONCE: Final = 8
"""Downloads under way."""


async def follow_bucket(address: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Bring the base to what the files below a prefix say, thirty files at a time.

    A record that cannot be read is reported, and what was read of its file before stays. A prefix
    that is suddenly empty is reported, and nothing is deleted.

    Before anything is written of a file, it is kept which sources it holds: killed anywhere, the
    next run completes this one, whatever has become of the file meanwhile.

    Raises:
        InvalidInput: The bucket cannot be read.
        Unavailable: Cloud Storage does not answer.
    """
    if budget.spent:
        report.finished = False
        return
    async with BucketObjects(address, ctx.settings.google_cloud_project) as objects:
        listing = await objects.listing()
        visible = {name: each for name, each in listing.items() if not _is_hidden(name)}
        readable = {
            name: each
            for name, each in visible.items()
            if ending_of(PurePosixPath(name)) in ENDINGS
        }
        if others := Counter(ending_of(PurePosixPath(name)) for name in visible.keys() - readable):
            report.note = f"Not read: {count_kinds(others)}."
        holdings = BucketState(BucketSync(ctx.database, objects.address), readable)
        held_anything = await holdings.load()
        if held_anything and not listing:
            reason = "is empty all at once; to have all that came of it deleted, put any file there"
            report.failures.append(Failure(objects.address, reason))
            return
        await _Run(ctx, budget, report, objects, holdings).complete(readable)


class _Run:
    """One run."""

    def __init__(
        self,
        ctx: Context,
        budget: Budget,
        report: Report,
        objects: BucketObjects,
        holdings: BucketState,
    ) -> None:
        self._context = ctx
        self._budget = budget
        self._report = report
        self._objects = objects
        self._holdings = holdings
        self._was_read: set[str] = set()

    async def complete(self, listing: Mapping[str, ListedObject]) -> None:
        """Read what is new; then delete what is gone, and nobody has taken over."""
        for names in _batches(self._holdings.new(), listing):
            with tempfile.TemporaryDirectory(prefix="carrel-ingest-") as folder:
                await self._read(names, listing, Path(folder))
            if not self._report.finished:
                return
        for names in _blocks(self._holdings.gone()):
            if self._is_over():
                return
            lost = [source_id for name in names for source_id in self._holdings.of(name).ids]
            for name in names:
                self._holdings.forget(name)
            await self._give_up(lost)
            await self._holdings.store()

    async def _read(
        self, names: Sequence[str], listing: Mapping[str, ListedObject], at: Path
    ) -> None:
        """Read some objects, and write what they hold."""
        if self._is_over():
            return
        files = await self._downloaded(names, listing, at)
        found = [await self._contents(name, listing[name], file) for name, file in files.items()]
        await self._holdings.store()
        left = blocks(sources(found))
        # Reading and chunking take a second a megabyte: the loop must stay free.
        while block := await asyncio.to_thread(next, left, None):
            if self._is_over():
                return
            for source, reason in await save(block, self._context, self._budget, self._report):
                self._refuse(source.source_id, reason, found)
        for each in found:
            await self._settle(each)
        await self._holdings.store()

    async def _downloaded(
        self, names: Sequence[str], listing: Mapping[str, ListedObject], folder: Path
    ) -> dict[str, Path]:
        """The files of the objects that could be downloaded; of others, it is said why not."""
        slots = asyncio.Semaphore(_AT_ONCE)

        async def download(number: int, name: str) -> Path | None:
            path = folder / f"{number}{PurePosixPath(name).suffix}"
            if reason := too_large(name, listing[name].size):
                self._fail(name, reason)
                return None
            try:
                async with slots:
                    await self._objects.download(name, listing[name].generation, path)
            except ObjectChanged:  # the next run lists it as it is then
                return None
            except ObjectUnreadable as error:
                self._fail(name, str(error))
                return None
            return path

        downloads = (download(*each) for each in enumerate(names))
        # All of them end before the folder goes, also where one fails.
        paths = dict(
            zip(names, await asyncio.gather(*downloads, return_exceptions=True), strict=True)
        )
        if errors := [each for each in paths.values() if isinstance(each, BaseException)]:
            raise errors[0]
        return {name: path for name, path in paths.items() if isinstance(path, Path)}

    async def _contents(self, name: str, listed: ListedObject, file: Path) -> ObjectContents:
        """What a file holds; the sources that it is about to hold are claimed for it."""
        place = SourceFile(file, name, self._objects.collection, key=name)
        found = ObjectContents(name, listed.generation, place)
        await asyncio.to_thread(found.read, self._is_left)
        self._holdings.claim(name, found.ids)
        self._was_read.add(name)
        for record, reason in found.broken + found.refused:
            self._fail(record, reason)
        self._report.warnings += [self._failure(*warning) for warning in found.warnings]
        return found

    def _refuse(self, source_id: str, reason: str, files: Sequence[ObjectContents]) -> None:
        """A record that can be read and does not go in is as good as one that cannot."""
        for each in files:
            if record := each.ids.get(source_id):
                each.broken.append((record, reason))
                self._fail(record, reason)

    async def _settle(self, found: ObjectContents) -> None:
        """Delete what a file holds no more, if all of it can be read, and keep what it holds."""
        before = self._holdings.of(found.name).ids
        left = dict.fromkeys([*before, *found.ids] if found.broken else found.ids)
        self._holdings.put(found.name, ObjectState(found.generation, tuple(left)))
        await self._give_up([source_id for source_id in before if source_id not in left])
        holders = self._holdings.holders(found.ids) if of_many(found.name) else {}
        for other, ids in holders.items():
            if other != found.name and self._holdings.is_current(other):
                self._report.warnings.append(self._failure(found.name, _shared(other, len(ids))))

    async def _give_up(self, ids: Sequence[str]) -> None:
        """Delete the sources that no object holds any more.

        Where another object holds one, what is stored may be the text of the object that gave it
        up: so the next run reads the other again, unless this one has.
        """
        holders = self._holdings.holders(ids) if ids else {}
        for name in filter(self._holdings.is_current, holders.keys() - self._was_read):
            self._holdings.put(name, replace(self._holdings.of(name), generation=0))
        await self._delete(sorted(set(ids).difference(*holders.values())))

    async def _delete(self, ids: Sequence[str]) -> None:
        for block in _blocks(each for each in ids if not self._is_left(each)):
            nothing = [gone(source_id) for source_id in block]
            self._report.counts += await Ingestion(self._context.database).save(
                nothing, self._context.clock()
            )

    def _is_left(self, source_id: str) -> bool:
        """Whether Readwise itself is followed, and knows better."""
        return self._context.settings.readwise_token is not None and is_book(source_id)

    def _is_over(self) -> bool:
        if self._budget.spent:
            self._report.finished = False
        return not self._report.finished

    def _fail(self, name: str, reason: str) -> None:
        self._report.failures.append(self._failure(name, reason))

    def _failure(self, name: str, reason: str) -> Failure:
        return Failure(to_one_line(f"{self._objects.address}/{name}"), to_one_line(reason))


def _shared(other: str, count: int) -> str:
    records = "a record" if count == 1 else f"{count:,} records"
    return f"holds {records} of {other} too, and was read later: its text counts; keep one of them"


def _is_hidden(name: str) -> bool:
    """Whether an object, or a folder that it is in, is hidden; one that marks a folder is, too."""
    return name.endswith("/") or any(part.startswith(".") for part in PurePosixPath(name).parts)


def _batches(names: Iterable[str], listing: Mapping[str, ListedObject]) -> Iterator[list[str]]:
    """Cut objects into batches of thirty, or of so many bytes."""
    batch: list[str] = []
    size = 0
    for name in names:
        if len(batch) == BLOCK or (batch and size + listing[name].size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += listing[name].size
    if batch:
        yield batch


def _blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    left = iter(items)
    while block := list(islice(left, BLOCK)):
        yield block
