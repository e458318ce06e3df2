"""Receives files that people add in the console, for the scheduler to read.

Files go to disk as they arrive, so large files are never held in memory. The scheduler sees their
folder once it is complete.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from python_multipart import FormParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect

from infra.local.scheduler import get_upload_folder, wake
from shared.core.errors import InvalidInput, Unavailable
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from python_multipart.multipart import Field, File
    from starlette.requests import Request

_MEMORY_BYTES: Final = 64_000
"""A smaller file stays in memory until it is complete."""
_WAIT_SECONDS: Final = 10.0
"""How long to wait for the scheduler. It is long enough for a few small files."""
_POLL_SECONDS: Final = 0.1
_STALE_SECONDS: Final = 24 * 3600.0
"""An upload that is older and not complete belonged to a process that was killed."""
_CUT_OFF: Final = "The upload was cut off. Nothing was added. Add the files again."
_BAD_NAME: Final = "A file has no name, or its name is too long. Nothing was added. Rename it."


class LocalUploads:
    """Uploads to this machine.

    Attributes:
        max_files: The maximum number of files in an upload.
        max_bytes: The maximum size of an upload. Readers have limits of their own for each file.
    """

    max_files = 1_000
    max_bytes = 2_000_000_000

    @asynccontextmanager
    async def receive(self, request: Request) -> AsyncIterator[LocalUpload]:
        """Receive a form with files. They are deleted at the end of the block, unless submitted.

        Raises:
            InvalidInput: The form is cut off or too large, or the name of a file is not allowed.
            Unavailable: The disk is full.
        """
        parent = get_upload_folder()
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in parent.glob(".*"):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        # The scheduler reads uploads in the order of their names.
        with TemporaryDirectory(
            prefix=f".{time.time_ns()}-", dir=parent, ignore_cleanup_errors=True
        ) as folder:
            upload = LocalUpload(Path(folder), self.max_files)
            await self._write(request, upload)
            if not upload.is_complete:
                raise InvalidInput(_CUT_OFF)
            if not upload.count:
                raise InvalidInput("Choose one or more files. Nothing was added.")
            yield upload

    async def _write(self, request: Request, upload: LocalUpload) -> None:
        """Write the files of a form to disk."""
        too_large = InvalidInput(
            f"These files are larger than {self.max_bytes // 1_000_000:,} MB in total. Nothing was"
            " added. Add them in smaller batches."
        )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.max_bytes:
            raise too_large
        size = 0
        try:
            parser = upload.make_parser(request.headers.get("content-type", ""))
            async for data in request.stream():
                size += len(data)
                if size > self.max_bytes:
                    raise too_large
                await asyncio.to_thread(parser.write, data)
        except (ClientDisconnect, FormParserError):
            raise InvalidInput(_CUT_OFF) from None
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise Unavailable("The disk is full. Nothing was added.") from None


class LocalUpload:
    """A form with files, which are in a folder.

    Attributes:
        count: The number of files.
        is_complete: Whether the form has ended.
    """

    def __init__(self, folder: Path, max_files: int) -> None:
        self.count = 0
        self.is_complete = False
        self._folder = folder
        self._max_files = max_files
        self._fields: dict[bytes, bytes] = {}

    def get_field(self, name: str) -> str:
        """Return the value of a field that is not a file, or an empty string."""
        return self._fields.get(name.encode(), b"").decode(errors="replace")

    async def submit(self) -> bool:
        """Have the files read, and return whether they were read within `_WAIT_SECONDS`."""
        folder = self._folder.with_name(self._folder.name.removeprefix("."))
        self._folder.rename(folder)
        wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                while folder.exists():  # noqa: ASYNC110 - another process may read them
                    await asyncio.sleep(_POLL_SECONDS)
        return not folder.exists()

    def make_parser(self, content_type: str) -> FormParser:
        """Make a parser that writes the files into the folder."""
        kind, options = parse_options_header(content_type)
        config = {
            "MAX_MEMORY_FILE_SIZE": _MEMORY_BYTES,
            "UPLOAD_DIR": str(self._folder),
            "UPLOAD_DELETE_TMP": False,
        }
        return FormParser(
            kind.decode(),
            self._add_field,
            self._add_file,
            self._end,
            options.get(b"boundary"),
            config=config,
        )

    def _add_field(self, field: Field) -> None:
        self._fields[field.field_name or b""] = field.value or b""

    def _add_file(self, file: File) -> None:
        """Give a file its name: the last part of its path, which may be a Windows path."""
        path = (file.file_name or b"").decode(errors="replace")
        name = path.replace("\\", "/").rpartition("/")[2]
        if not path and not file.size:  # this is what a browser sends if no file was chosen
            return
        if self.count == self._max_files:
            raise InvalidInput(
                f"At most {format_count(self._max_files, 'file')} can be added at once. Nothing was"
                f" added. To add a folder, use this command: {carrel('ingest FOLDER')}"
            )
        if name in {"", ".", ".."} or "\0" in name:
            raise InvalidInput(_BAD_NAME)
        self.count += 1
        if file.in_memory:
            file.flush_to_disk()
        file.close()
        try:
            if (self._folder / name).exists():
                raise InvalidInput(
                    f"Two files have the name “{name}”. Nothing was added. Rename one of them, or"
                    " add one after the other."
                )
            Path(os.fsdecode(file.actual_file_name or b"")).rename(self._folder / name)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise InvalidInput(_BAD_NAME) from None

    def _end(self) -> None:
        self.is_complete = True
