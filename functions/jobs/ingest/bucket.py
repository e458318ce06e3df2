"""Follows the objects below a prefix of Cloud Storage.

Each content of an object is read once. To find changes, a run lists the prefix (one request per
thousand objects), and loads the states of all objects.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Self

from functions.jobs.ingest.followed_files import FollowedFiles, has_records
from functions.jobs.ingest.readers.reading import (
    InputProblem,
    count_kinds,
    describe_foreign,
    explain_excess,
    find_format_by_name,
    get_extension,
    read_files,
)
from functions.jobs.ingest.readers.source_file import LinkList, SourceFile
from shared.core.blocks import pack
from shared.core.cloud_storage import StorageFolder, close_response, translate_errors
from shared.core.errors import InvalidInput
from shared.core.installation import carrel
from shared.runtime.job import format_failures
from shared.writer.ingestion import BATCH_SIZE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Failure

ATTEMPT_SECONDS: Final = 30.0
"""The time limit of one request."""
RETRY_SECONDS: Final = 120.0
"""The time limit of a request and all its retries together."""
BATCH_BYTES: Final = 32 * 1024 * 1024
"""The approximate size of a download batch. In the cloud, files are in memory."""
_CONCURRENCY: Final = 8
"""The number of objects that are downloaded concurrently."""
_VERSION_BYTES: Final = 8
"""The number of bytes of a content hash that are stored."""


@asynccontextmanager
async def follow_bucket(ctx: Context, _budget: Budget) -> AsyncIterator[FollowedBucket]:
    """Open the configured bucket as an origin."""
    address = ctx.settings.ingest_bucket or ""
    async with BucketObjects(address, ctx.settings.google_cloud_project) as objects:
        yield FollowedBucket(objects, ctx)


class FollowedBucket(FollowedFiles):
    """The objects of a bucket below a prefix, which are files in formats that can be read."""

    def __init__(self, objects: BucketObjects, ctx: Context) -> None:
        follows_readwise = ctx.settings.readwise_token is not None
        super().__init__(ctx.database, objects.address, follows_readwise=follows_readwise)
        self.name = objects.address
        self.command = carrel("jobs run ingest --yes")
        self._objects = objects
        self._listing: dict[str, ListedObject] = {}
        self._not_read: Counter[str] = Counter()

    async def list_items(self) -> Sequence[Sequence[str]]:
        """List the objects that have changed, in batches to download."""
        stored = await self.load()
        listing = await self._objects.fetch_listing()
        visible = {name: listed for name, listed in listing.items() if not _is_hidden(name)}
        self._listing = {
            name: listed
            for name, listed in visible.items()
            if find_format_by_name(PurePosixPath(name))
        }
        for name in visible.keys() - self._listing.keys():
            self._count_not_read(name)
        self.compare({name: listed.version for name, listed in self._listing.items()}, stored)
        changed = self.list_changed()
        return list(pack(changed, BATCH_SIZE, BATCH_BYTES, lambda name: self._listing[name].size))

    @asynccontextmanager
    async def read(
        self, names: Sequence[str]
    ) -> AsyncIterator[Iterable[Source | LinkList | InputProblem]]:
        """Download objects to a folder while the block runs, and read them."""
        with tempfile.TemporaryDirectory(prefix="carrel-ingest-") as folder:
            files, problems = await self._download_all(names, Path(folder))
            problems += await asyncio.to_thread(self.register, files)
            self._unsaved.update(files)
            await self.store()
            sources = read_files(
                [self._assign_id(file) for file in files.values()],
                without_books=self._without_books,
            )
            yield chain(problems, sources)

    async def complete(
        self, forgotten: AbstractSet[str], read_at: datetime | None, failures: Sequence[Failure]
    ) -> None:
        """Store also when the bucket was read, and what could not be read when it last changed."""
        await super().complete(forgotten, read_at, failures)
        has_changes = failures or self._read_names
        problems = format_failures(failures) if has_changes else None
        await self._followed.store_outcome(read_at, problems)

    def locate(self, name: str) -> tuple[str, str]:
        """Return the last part of the prefix, or the name of the bucket, and the object's name."""
        return self.name.rpartition("/")[2], name

    def label(self, name: str) -> str:
        """Return the address of an object."""
        return f"{self.name}/{name}"

    async def _download_all(
        self, names: Sequence[str], folder: Path
    ) -> tuple[dict[str, SourceFile], list[InputProblem]]:
        """Download objects, and return the files, and why others cannot be read."""
        slots = asyncio.Semaphore(_CONCURRENCY)
        paths = [
            folder / f"{number}{PurePosixPath(name).suffix}" for number, name in enumerate(names)
        ]
        # All downloads end before the folder is deleted, even if one fails.
        results = await asyncio.gather(
            *(self._download(name, path, slots) for name, path in zip(names, paths, strict=True)),
            return_exceptions=True,
        )
        files: dict[str, SourceFile] = {}
        problems: list[InputProblem] = []
        for name, result in zip(names, results, strict=True):
            match result:
                case SourceFile():
                    files[name] = result
                case InputProblem(reason=""):
                    self._count_not_read(name)
                case InputProblem():
                    problems.append(result)
                case BaseException():
                    raise result
        return files, problems

    async def _download(
        self, name: str, path: Path, slots: asyncio.Semaphore
    ) -> SourceFile | InputProblem | None:
        """Download an object. One that was changed since it was listed is left to the next run."""
        if reason := explain_excess(name, self._listing[name].size):
            return InputProblem(name, reason)
        try:
            async with slots:
                await self._objects.download(name, self._listing[name].generation, path)
        except ObjectChanged:
            return None
        except ObjectUnreadable as error:
            return InputProblem(name, str(error))
        if (foreign := describe_foreign(PurePosixPath(name), path)) is not None:
            self.skip(name)
            return InputProblem(name, foreign, kept=True)
        return SourceFile(path, name, *self.locate(name))

    def _assign_id(self, file: SourceFile) -> SourceFile:
        """Return a file with the id of its source, unless it has records."""
        if has_records(file.name):
            return file
        return replace(file, assigned_source_id=self.states[file.name].ids[0])

    def _count_not_read(self, name: str) -> None:
        self._not_read[get_extension(PurePosixPath(name))] += 1
        self.note = f"Not read: {count_kinds(self._not_read)}."


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object in a listing: its generation, its size in bytes (0 if unknown), and its version."""

    generation: int
    size: int
    version: int


class ObjectChanged(Exception):
    """The object was changed or deleted since it was listed."""


class ObjectUnreadable(Exception):
    """This object cannot be read, although the bucket can; the message says why."""


class BucketObjects:
    """The objects of a bucket below a prefix.

    Attributes:
        address: `gs://bucket` or `gs://bucket/prefix`.
    """

    def __init__(
        self,
        address: str,
        project: str,
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._folder = StorageFolder(
            address, project, attempt_seconds=attempt_seconds, retry_seconds=retry_seconds
        )
        self.address = self._folder.address

    async def __aenter__(self) -> Self:
        """Enter the context."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._folder.aclose()

    async def fetch_listing(self) -> dict[str, ListedObject]:
        """List all objects, by name below the prefix. Costs one request per thousand objects.

        Raises:
            InvalidInput: The bucket does not exist, or permission to read it is missing.
            Unavailable: Cloud Storage does not answer.
        """
        return await asyncio.to_thread(self._list_objects)

    async def download(self, name: str, generation: int, path: Path) -> None:
        """Download an object to a file.

        Raises:
            ObjectChanged: The object was changed or deleted since it was listed.
            ObjectUnreadable: Permission to read the object or its key is missing, or the download
                is damaged.
            Unavailable: Cloud Storage does not answer.
        """
        await asyncio.to_thread(self._download, name, generation, path)

    def _list_objects(self) -> dict[str, ListedObject]:
        folder = self._folder
        blobs = folder.bucket.list_blobs(
            prefix=folder.prefix,
            fields="items(name,generation,size,md5Hash,crc32c),nextPageToken",
            timeout=folder.attempt_seconds,
            retry=folder.retry,
        )
        with translate_errors(_make_bucket_error):
            return {
                blob.name.removeprefix(folder.prefix): ListedObject(
                    blob.generation, blob.size or 0, _compute_version(blob)
                )
                for blob in blobs
            }

    def _download(self, name: str, generation: int, path: Path) -> None:
        from google.api_core.exceptions import BadRequest, Forbidden, NotFound, PreconditionFailed
        from google.cloud.storage.exceptions import DataCorruption

        download = partial(
            self._folder.blob(name).download_to_filename,
            path,
            if_generation_match=generation,
            timeout=self._folder.attempt_seconds,
            retry=None,
        )
        try:
            with translate_errors(
                _make_bucket_error,
                BadRequest,
                Forbidden,
                NotFound,
                PreconditionFailed,
                DataCorruption,
            ):
                self._folder.retry(download, on_error=close_response)()
        except (NotFound, PreconditionFailed) as error:
            raise ObjectChanged from error
        except BadRequest as error:
            raise ObjectUnreadable(
                "cannot be opened: it may be encrypted with a key that only its owner has"
            ) from error
        except Forbidden as error:
            raise ObjectUnreadable(
                "cannot be opened: the service account of this job may not read it"
            ) from error
        except DataCorruption as error:
            raise ObjectUnreadable("was damaged in transfer") from error


def _make_bucket_error(error: Exception, _status: int) -> InvalidInput:
    return InvalidInput(
        f"Cloud Storage refuses to read INGEST_BUCKET ({type(error).__name__}): check its name, and"
        " grant the service account roles/storage.objectViewer on it."
    )


def _compute_version(blob: Any) -> int:
    """Return a number that follows from an object's content, or the generation if it has no hash.

    A composite object has no MD5 hash, and one that a key of the customer encrypts has none at all.
    """
    content_hash = blob.md5_hash or blob.crc32c
    if content_hash is None:
        return int(blob.generation)
    return int.from_bytes(base64.b64decode(content_hash)[:_VERSION_BYTES])


def _is_hidden(name: str) -> bool:
    """Return whether an object is hidden, in a hidden folder, or only marks a folder."""
    return name.endswith("/") or any(part.startswith(".") for part in PurePosixPath(name).parts)
