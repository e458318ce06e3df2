"""Writes and reads the files of a batch in Cloud Storage as streams.

A batch is a large number of requests to a model, in one file. Google's client blocks, so it runs in
threads. It is imported late, to keep cold starts short.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING, Final

from shared.core.cloud_storage import StorageFolder, translate_errors
from shared.core.errors import PlatformFault
from shared.core.log import log

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""This many bytes are sent or fetched at a time. Cloud Storage requires a multiple of 256 KiB."""
MAX_LINES: Final = 100
"""At most this many lines are yielded together."""
ATTEMPT_SECONDS: Final = 20.0
"""A response from Cloud Storage is awaited for this long."""
RETRY_SECONDS: Final = 60.0
"""Transient errors are retried for this long."""
_ADVICE: Final = "grant the service account roles/storage.objectUser on the bucket; check its name"


class _BlockReader:
    """Lets another thread read the blocks that an event loop produces, like a file."""

    def __init__(self, blocks: AsyncIterator[bytes], loop: AbstractEventLoop) -> None:
        self._blocks = blocks
        self._loop = loop
        self._buffer = b""
        self._position = 0

    def read(self, size: int) -> bytes:
        """Read this many bytes, or fewer at the end of the file."""
        while len(self._buffer) < size and (block := self._read_block()):
            self._buffer += block
        content, self._buffer = self._buffer[:size], self._buffer[size:]
        self._position += len(content)
        return content

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position

    def _read_block(self) -> bytes:
        """Wait for the next block, and return it, or nothing at the end."""

        async def block() -> bytes:
            return await anext(self._blocks, b"")

        return asyncio.run_coroutine_threadsafe(block(), self._loop).result()


class BatchFiles:
    """The files in a folder of a bucket."""

    def __init__(
        self,
        address: str,
        project: str,
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Use a folder of a bucket. The client connects on first use.

        Args:
            address: The gs:// address of the folder.
            retry_seconds: How long to retry transient errors.
        """
        self._folder = StorageFolder(
            address, project, attempt_seconds=attempt_seconds, retry_seconds=retry_seconds
        )

    def get_address(self, name: str) -> str:
        """Return the gs:// address of a file."""
        return f"{self._folder.address}/{name}"

    async def write(self, name: str, blocks: AsyncIterator[bytes]) -> None:
        """Write a file. It does not exist before the last block is written.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket does not exist, or access is denied.
        """
        reader = _BlockReader(blocks, asyncio.get_running_loop())
        with translate_errors(_make_bucket_error):
            await asyncio.to_thread(self._write, name, reader)

    async def list_names(self, folder: str) -> list[str]:
        """List the names of the files in a subfolder.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket does not exist, or access is denied.
        """
        with translate_errors(_make_bucket_error):
            return await asyncio.to_thread(self._list_names, folder)

    async def iterate_lines(self, name: str) -> AsyncIterator[list[bytes]]:
        """Yield the lines of a file in groups.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The file does not exist, or access is denied.
        """
        with translate_errors(_make_bucket_error):
            reader = self._folder.blob(name).open(
                "rb",
                chunk_size=BLOCK_BYTES,
                retry=self._folder.retry,
                timeout=self._folder.attempt_seconds,
            )
            partial_line = b""
            while block := await asyncio.to_thread(reader.read, BLOCK_BYTES):
                # The reader's own `readline` would make a call for each byte.
                lines = BytesIO(partial_line + block).readlines()
                partial_line = b"" if lines[-1].endswith(b"\n") else lines.pop()
                for start in range(0, len(lines), MAX_LINES):
                    yield lines[start : start + MAX_LINES]
            if partial_line:
                yield [partial_line]

    async def delete(self, folder: str) -> None:
        """Delete the files in a subfolder, if there are any.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket does not exist, or access is denied.
        """
        for name in await self.list_names(folder):
            with translate_errors(_make_bucket_error):
                await asyncio.to_thread(self._delete, name)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._folder.aclose()

    def _write(self, name: str, reader: _BlockReader) -> None:
        self._folder.blob(name, chunk_size=BLOCK_BYTES).upload_from_file(
            reader,
            content_type="application/jsonl",
            retry=self._folder.retry,
            timeout=self._folder.attempt_seconds,
        )

    def _list_names(self, folder: str) -> list[str]:
        blobs = self._folder.bucket.list_blobs(
            prefix=f"{self._folder.prefix}{folder}/",
            retry=self._folder.retry,
            timeout=self._folder.attempt_seconds,
        )
        return [blob.name.removeprefix(self._folder.prefix) for blob in blobs]

    def _delete(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        try:
            self._folder.blob(name).delete(
                retry=self._folder.retry, timeout=self._folder.attempt_seconds
            )
        except NotFound:  # an earlier attempt succeeded, and its answer was lost
            return


def _make_bucket_error(_error: Exception, status: int) -> PlatformFault:
    """Log that the bucket rejects a request, and make the error. The status is that of HTTP."""
    log.error("bucket_refused", status=status, advice=_ADVICE)
    return PlatformFault(f"Cloud Storage rejects this deployment ({status}): {_ADVICE}.")
