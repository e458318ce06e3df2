"""The objects below a prefix of Cloud Storage, through Google's own client.

The client blocks: its calls run in threads. `STORAGE_EMULATOR_HOST` leads it elsewhere.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Self

from shared.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.api_core.retry import Retry
    from google.cloud.storage import Client

ATTEMPT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 120.0
"""How long to wait for one answer, and to try again what failed for now."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An object, as a listing has it: its generation, and its size in bytes; 0: it has none."""

    generation: int
    size: int


class Moved(Exception):
    """The object has another generation by now, or none."""


class Closed(Exception):
    """This one object cannot be read, though others can; the message says why."""


class Objects:
    """The objects of a bucket below a prefix, which is a folder: `notes` is not `notes-2024`."""

    def __init__(
        self,
        address: str,
        *,
        attempt_seconds: float = ATTEMPT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Connect to nothing yet.

        Args:
            address: `gs://bucket`, or `gs://bucket/prefix`.
            attempt_seconds: How long to wait for one answer.
            retry_seconds: How long to try again what failed for now.
        """
        self.address = address.rstrip("/")
        self._bucket, _, prefix = self.address.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._attempt_seconds = attempt_seconds
        self._retry_seconds = retry_seconds

    @property
    def collection(self) -> str:
        """The prefix's own name, as a folder has one; without a prefix, the bucket's."""
        return self.address.rpartition("/")[2]

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await asyncio.to_thread(self._client.close)

    async def listing(self) -> dict[str, Listed]:
        """Every object, by its name below the prefix. One request a thousand.

        Raises:
            InvalidInput: There is no such bucket, or it may not be read.
            Unavailable: Cloud Storage does not answer.
        """
        return await asyncio.to_thread(self._listing)

    async def download(self, name: str, generation: int, path: Path) -> None:
        """Write an object's content to a file.

        Raises:
            Moved: It has changed since it was listed.
            Closed: It may not be read, or arrives damaged.
            Unavailable: Cloud Storage does not answer.
        """
        await asyncio.to_thread(self._download, name, generation, path)

    def _listing(self) -> dict[str, Listed]:
        found = self._client.list_blobs(
            self._bucket,
            prefix=self._prefix,
            fields="items(name,generation,size),nextPageToken",
            timeout=self._attempt_seconds,
            retry=self._retry,
        )
        with _translated():
            return {
                blob.name.removeprefix(self._prefix): Listed(blob.generation, blob.size or 0)
                for blob in found
            }

    def _download(self, name: str, generation: int, path: Path) -> None:
        from google.api_core.exceptions import Forbidden, NotFound, PreconditionFailed
        from google.cloud.storage.exceptions import DataCorruption

        blob = self._client.bucket(self._bucket).blob(self._prefix + name)
        download = partial(
            blob.download_to_filename,
            path,
            if_generation_match=generation,
            timeout=self._attempt_seconds,
            retry=None,
        )
        try:
            with _translated(Forbidden, NotFound, PreconditionFailed):
                self._retry(download, on_error=_hang_up)()
        except (NotFound, PreconditionFailed) as error:
            raise Moved from error
        except Forbidden as error:
            raise Closed("cannot be opened: this job may not read it") from error
        except DataCorruption as error:
            raise Closed("arrives damaged") from error

    @cached_property
    def _retry(self) -> Retry:
        from google.cloud.storage.retry import DEFAULT_RETRY

        retry: Retry = DEFAULT_RETRY.with_timeout(self._retry_seconds)
        return retry

    @cached_property
    def _client(self) -> Client:
        from google.cloud.storage import Client

        return Client()


def _hang_up(error: Exception) -> None:
    """Close what a refused download leaves open: Google's client forgets to."""
    if (response := getattr(error, "response", None)) is not None:
        response.close()


@contextmanager
def _translated(*but: type[Exception]) -> Iterator[None]:
    """Errors of Google's client as ours, but for some."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from requests import RequestException

    down = (api.RetryError, api.ServerError, api.TooManyRequests, RequestException)
    try:
        yield
    except but as error:
        _hang_up(error)
        raise
    except (*down, auth.TransportError) as error:
        _hang_up(error)
        raise Unavailable("Cloud Storage does not answer: try again later.") from error
    except (api.ClientError, auth.GoogleAuthError) as error:
        _hang_up(error)
        said = f"Cloud Storage refuses to read INGEST_BUCKET ({type(error).__name__})"
        advice = "check its name, and grant the service account roles/storage.objectViewer on it"
        raise InvalidInput(f"{said}: {advice}.") from error
