"""The files of a batch in Cloud Storage: written and read as streams, a few megabytes at a time.

Google's client waits for its answers, so its calls run in threads. It tries again by itself what
may be tried again.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from shared.errors import PlatformFault, Unavailable
from shared.logs import log

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator, Iterator

    from google.api_core.retry import Retry
    from google.cloud.storage import Bucket, Client

    from shared.errors import CarrelError

PIECE: Final = 4 * 1024 * 1024
"""Bytes that are sent or fetched at once."""
LINES: Final = 100
"""Lines that are read together."""
ATTEMPT_SECONDS: Final = 20.0
RETRY_SECONDS: Final = 60.0
"""How long to wait for one answer, and to try again what failed for now."""
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_UNAUTHORIZED: Final = 401
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
        """Open nothing yet.

        Args:
            address: gs://bucket or gs://bucket/prefix.
            project: The Google Cloud project.
            attempt_seconds: How long to wait for one answer.
            retry_seconds: How long to try again what failed for now.
        """
        self._bucket_name, _, prefix = address.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        self._project = project
        self._attempt_seconds = attempt_seconds
        self._retry_seconds = retry_seconds

    def address(self, name: str) -> str:
        """gs://... of a file."""
        return f"gs://{self._bucket_name}/{self._prefix}{name}"

    async def write(self, name: str, blocks: AsyncIterator[bytes]) -> None:
        """Write a file; until the last block is written, there is none.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket is not there, or not for us.
        """
        feed = _Feed(blocks, asyncio.get_running_loop())
        with _translated():
            await asyncio.to_thread(self._write, name, feed)

    async def names(self, folder: str) -> list[str]:
        """The names of the files below a folder.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket is not there, or not for us.
        """
        with _translated():
            return await asyncio.to_thread(self._names, folder)

    async def lines(self, name: str) -> AsyncIterator[list[bytes]]:
        """The lines of a file, some at a time.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The file is not there, or not for us.
        """
        with _translated():
            reader = self._bucket.blob(self._prefix + name).open(
                "rb", chunk_size=PIECE, retry=self._retry, timeout=self._attempt_seconds
            )
            while found := await asyncio.to_thread(lambda: list(islice(reader, LINES))):
                yield found

    async def delete(self, folder: str) -> None:
        """Delete the files below a folder, those that are there.

        Raises:
            Unavailable: Cloud Storage is down, slow or out of quota.
            PlatformFault: The bucket is not there, or not for us.
        """
        for name in await self.names(folder):
            with _translated():
                await asyncio.to_thread(self._delete, name)

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await asyncio.to_thread(self._client.close)

    def _write(self, name: str, feed: _Feed) -> None:
        self._bucket.blob(self._prefix + name, chunk_size=PIECE).upload_from_file(
            feed,
            content_type="application/jsonl",
            retry=self._retry,
            timeout=self._attempt_seconds,
        )

    def _names(self, folder: str) -> list[str]:
        found = self._bucket.list_blobs(
            prefix=f"{self._prefix}{folder}/", retry=self._retry, timeout=self._attempt_seconds
        )
        return [blob.name.removeprefix(self._prefix) for blob in found]

    def _delete(self, name: str) -> None:
        from google.api_core.exceptions import NotFound

        try:
            self._bucket.blob(self._prefix + name).delete(
                retry=self._retry, timeout=self._attempt_seconds
            )
        except NotFound:  # the first answer was lost
            return

    @cached_property
    def _retry(self) -> Retry:
        from google.cloud.storage.retry import DEFAULT_RETRY

        retry: Retry = DEFAULT_RETRY.with_timeout(self._retry_seconds)
        return retry

    @cached_property
    def _client(self) -> Client:
        # Else it asks for the bucket itself too, in a thread that outlives it, and for traces only.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        from google.cloud.storage import Client

        return Client(project=self._project)

    @cached_property
    def _bucket(self) -> Bucket:
        return self._client.bucket(self._bucket_name)


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of Google's client as ours."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from requests import RequestException

    try:
        yield
    except (api.RetryError, RequestException, DataCorruption, auth.TransportError) as error:
        raise _down() from error
    except api.GoogleAPICallError as error:
        raise _meaning(error.code) from error
    except InvalidResponse as error:
        raise _meaning(error.response.status_code) from error
    except auth.GoogleAuthError as error:
        raise _meaning(_UNAUTHORIZED) from error


def _meaning(status: int | None) -> CarrelError:
    if status in _TRANSIENT:
        return _down()
    log.error("bucket_refused", status=status, advice=_ADVICE)
    return PlatformFault(f"Cloud Storage refuses this deployment ({status}): {_ADVICE}.")


def _down() -> Unavailable:
    return Unavailable("Cloud Storage does not answer: try again later.", retry_after=60)
