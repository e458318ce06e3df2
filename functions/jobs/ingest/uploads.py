"""Reads uploaded files once.

An upload is a folder with the files of one request, which is deleted when they were read. It is not
followed: nothing is forgotten because of it, and a later file of the same name updates the source.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.reading import (
    FAULT,
    InputProblem,
    find_format_by_name,
    read_files,
)
from functions.jobs.ingest.readers.source_file import SourceFile
from shared.core.errors import CarrelError
from shared.knowledge.followed import UPLOADS, FileState, Followed
from shared.knowledge.source import Source
from shared.runtime.job import Failure, format_failures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime
    from pathlib import Path

    from functions.jobs.ingest.readers.source_file import LinkList
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

COLLECTION: Final = "\0uploads"
"""The prefix of source ids. No folder has a name with a NUL character."""
_NO_FORMAT: Final = "has a format that cannot be read"


@asynccontextmanager
async def read_upload(folder: Path, ctx: Context, _budget: Budget) -> AsyncIterator[UploadedFiles]:
    """Open an upload as an origin. A fault also deletes it, so that it stops no later run."""
    files = UploadedFiles(folder, ctx)
    try:
        yield files
    except CarrelError:
        raise
    except Exception:
        await files.complete(frozenset(), ctx.clock(), [Failure("upload", FAULT)])
        raise


class UploadedFiles:
    """The files of an upload, as an origin from which nothing is ever missing."""

    name = "uploads"
    note = ""
    error: CarrelError | None = None
    kept_ids: AbstractSet[str] = frozenset()

    def __init__(self, folder: Path, ctx: Context) -> None:
        self._folder = folder
        self._followed = Followed(ctx.database, UPLOADS, FileState)
        self._warnings: list[Failure] = []
        self._without_books = ctx.settings.readwise_token is not None

    async def list_items(self) -> Sequence[Sequence[str]]:
        """List all files as one batch."""
        paths = await asyncio.to_thread(lambda: sorted(self._folder.iterdir()))
        return [[path.name for path in paths]]

    @asynccontextmanager
    async def read(
        self, names: Sequence[str]
    ) -> AsyncIterator[Iterable[Source | LinkList | InputProblem]]:
        """Read all files."""
        yield self._read(names)

    async def remember(self, names: Sequence[str], rejected: Mapping[str, str]) -> None:
        """Remember nothing: an upload is read once."""

    def find_missing(self) -> None:
        """Return None: an upload does not contain everything."""

    async def complete(
        self,
        forgotten: AbstractSet[str],  # noqa: ARG002 - none is ever missing
        read_at: datetime | None,
        failures: Sequence[Failure],
    ) -> None:
        """Store the problems, and delete the files, unless time ran out."""
        if read_at:
            problems = format_failures([*failures, *self._warnings])
            await self._followed.store_outcome(read_at, problems)
            await asyncio.to_thread(shutil.rmtree, self._folder)

    def label(self, name: str) -> str:
        """Return the name itself."""
        return name

    def _read(self, names: Sequence[str]) -> Iterator[Source | LinkList | InputProblem]:
        readable = [name for name in names if find_format_by_name(PurePath(name))]
        for name in sorted({*names} - {*readable}):
            yield InputProblem(name, _NO_FORMAT)
        files = [SourceFile(self._folder / name, name, COLLECTION, name) for name in readable]
        for item in read_files(files, without_books=self._without_books):
            if isinstance(item, InputProblem) and item.kept:
                self._warnings.append(Failure(f"{item.name} (kept)", to_one_line(item.reason)))
            # A source without text would make what is stored of it disappear.
            if not isinstance(item, Source) or any(part.text.strip() for part in item.sections):
                yield item
            elif not (item.is_deleted or item.adds_only):
                yield InputProblem(item.title, "has no text")
