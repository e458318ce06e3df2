"""Receives files that people add in the console, for the scheduler to read.

The files of a form go to disk as they arrive, one after the other, so that a large one needs no
memory. Their folder becomes visible to the scheduler when it is complete.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect

from infra.local.scheduler import get_upload_folder, wake
from shared.core.errors import InvalidInput, Unavailable
from shared.core.installation import carrel
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import BinaryIO

    from starlette.requests import Request

_MAX_FIELD_BYTES: Final = 10_000
"""The maximum size of everything in a form that is not a file."""
_WAIT_SECONDS: Final = 10.0
"""How long to wait for the scheduler. Within this time, it reads a few small files."""
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
            InvalidInput: The form is cut off or too large, or a file cannot have its name here.
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
            try:
                await self._write(request, upload)
            finally:
                upload.close()
            if not upload.count:
                raise InvalidInput("Choose one or more files. Nothing was added.")
            yield upload

    async def _write(self, request: Request, upload: LocalUpload) -> None:
        """Write the parts of a form to disk."""
        too_large = InvalidInput(
            f"These files have more than {self.max_bytes // 1_000_000:,} MB together. Nothing was"
            " added. Add them in several steps."
        )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.max_bytes:
            raise too_large
        _, options = parse_options_header(request.headers.get("content-type"))
        size = 0
        try:
            parser = MultipartParser(options.get(b"boundary", b""), upload.make_callbacks())
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
        if not upload.is_complete:
            raise InvalidInput(_CUT_OFF)


class LocalUpload:
    """A form with files (RFC 7578), which a parser writes to a folder.

    Attributes:
        count: The number of files.
        is_complete: Whether the form has ended.
    """

    def __init__(self, folder: Path, max_files: int) -> None:
        self.count = 0
        self.is_complete = False
        self._folder = folder
        self._max_files = max_files
        self._fields: dict[str, bytes] = {}
        self._field_bytes = 0
        self._header_name = self._header_value = self._disposition = b""
        self._field: str | None = None
        self._file: BinaryIO | None = None

    def get_field(self, name: str) -> str:
        """Return the value of a field that is not a file, or an empty string."""
        return self._fields.get(name, b"").decode(errors="replace")

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

    def make_callbacks(self) -> Any:
        """Return the methods that a parser calls with the parts of the form."""
        return {
            "on_header_field": self._add_to_header_name,
            "on_header_value": self._add_to_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_part,
            "on_part_data": self._add_data,
            "on_part_end": self.close,
            "on_end": self._end,
        }

    def close(self) -> None:
        """Close the file of a part, if one is open."""
        if self._file:
            self._file.close()
        self._file = self._field = None
        self._disposition = b""

    def _add_to_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_to_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _begin_part(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"filename" not in options:
            self._field = options.get(b"name", b"").decode(errors="replace")
            self._count_field_bytes(len(self._disposition))
        elif options[b"filename"]:  # a browser sends an empty name if no file was chosen
            self._file = self._create_file(options[b"filename"].decode(errors="replace"))

    def _create_file(self, path: str) -> BinaryIO:
        """Create a file whose name is the last part of a path, which may be one of Windows."""
        name = path.replace("\\", "/").rpartition("/")[2]
        if self.count == self._max_files:
            raise InvalidInput(
                f"At most {format_count(self._max_files, 'file')} can be added at once. Nothing was"
                f" added. To add a folder, use this command: {carrel('ingest FOLDER')}"
            )
        if name in {"", ".", ".."} or "\0" in name:
            raise InvalidInput(_BAD_NAME)
        self.count += 1
        try:
            return (self._folder / name).open("xb")
        except FileExistsError:
            raise InvalidInput(
                f"Two files have the name “{name}”. Nothing was added. Rename one of them, or add"
                " one after the other."
            ) from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise InvalidInput(_BAD_NAME) from None

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._file:
            self._file.write(data[start:end])
        elif self._field is not None:
            self._count_field_bytes(end - start)
            self._fields[self._field] = self._fields.get(self._field, b"") + data[start:end]

    def _count_field_bytes(self, count: int) -> None:
        self._field_bytes += count
        if self._field_bytes > _MAX_FIELD_BYTES:
            raise InvalidInput("This is not a form of the page. Nothing was added.")

    def _end(self) -> None:
        self.is_complete = True
