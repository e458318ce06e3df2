"""The files of a batch in Cloud Storage: written and read as streams, a few megabytes at a time."""

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

PIECE: Final = 4 * 1024 * 1024
"""Bytes that are sent or fetched at once."""
LINES: Final = 100
"""The most lines that are read together."""
ATTEMPT_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 60.0
"""How long to wait for one answer, and to try again what failed for now."""
_ADVICE: Final = "grant the service account roles/storage.objectUser on the bucket; check its name"


class _Feed:
    """Blocks that come from an event loop, as a file that another thread reads."""

    def __init__(self, blocks: AsyncIterator[bytes], loop: AbstractEventLoop) -> None:
        self._blocks = blocks
        self._loop = loop
        self._held = b""
        self._given = 0

    def read(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        while len(self._held) < size and (block := self._next()):
            self._held += block
        given, self._held = self._held[:size], self._held[size:]
        self._given += len(given)
        return given

    def tell(self) -> int:
        """How much was read."""
        return self._given

    def _next(self) -> bytes:
        async def block() -> bytes:
            return await anext(self._blocks, b"")

        return asyncio.run_coroutine_threadsafe(block(), self._loop).result()


class BatchFiles:
    """Files below a prefix of a bucket."""

    def __init__(
        self,
        address: str,
        project: str,
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Open nothing yet; the arguments are those of `StorageFolder`."""
        self._folder = StorageFolder(
            address, project, attempt_seconds=attempt_seconds, retry_seconds=retry_seconds
        )

    def address(self, name: str) -> str:
        """gs://... of a file."""
        return f"{self._folder.address}/{name}"

    async def write(self, name: str, blocks: AsyncIterator[bytes]) -> None:
        """Write a file; until the last block is written, there is none.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket is not there, or not for us.
        """
        feed = _Feed(blocks, asyncio.get_running_loop())
        with translate_errors(_refused):
            await asyncio.to_thread(self._write, name, feed)

    async def names(self, folder: str) -> list[str]:
        """The names of the files below a folder.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket is not there, or not for us.
        """
        with translate_errors(_refused):
            return await asyncio.to_thread(self._names, folder)

    async def lines(self, name: str) -> AsyncIterator[list[bytes]]:
        """The lines of a file, some at a time.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The file is not there, or not for us.
        """
        with translate_errors(_refused):
            reader = self._folder.blob(name).open(
                "rb",
                chunk_size=PIECE,
                retry=self._folder.retry,
                timeout=self._folder.attempt_seconds,
            )
            cut = b""  # what was fetched of a line whose end was not
            while piece := await asyncio.to_thread(reader.read, PIECE):  # by lines: a byte a call
                whole = BytesIO(cut + piece).readlines()
                cut = b"" if whole[-1].endswith(b"\n") else whole.pop()
                for start in range(0, len(whole), LINES):
                    yield whole[start : start + LINES]
            if cut:
                yield [cut]

    async def delete(self, folder: str) -> None:
        """Delete the files below a folder, those that are there.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket is not there, or not for us.
        """
        for name in await self.names(folder):
            with translate_errors(_refused):
                await asyncio.to_thread(self._delete, name)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._folder.aclose()

    def _write(self, name: str, feed: _Feed) -> None:
        self._folder.blob(name, chunk_size=PIECE).upload_from_file(
            feed,
            content_type="application/jsonl",
            retry=self._folder.retry,
            timeout=self._folder.attempt_seconds,
        )

    def _names(self, folder: str) -> list[str]:
        found = self._folder.bucket.list_blobs(
            prefix=f"{self._folder.prefix}{folder}/",
            retry=self._folder.retry,
            timeout=self._folder.attempt_seconds,
        )
        return [blob.name.removeprefix(self._folder.prefix) for blob in found]

    def _delete(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        try:
            self._folder.blob(name).delete(
                retry=self._folder.retry, timeout=self._folder.attempt_seconds
            )
        except NotFound:  # the first answer was lost
            return


def _refused(_error: Exception, status: int) -> PlatformFault:
    log.error("bucket_refused", status=status, advice=_ADVICE)
    return PlatformFault(f"Cloud Storage refuses this deployment ({status}): {_ADVICE}.")
