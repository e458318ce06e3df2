"""Folders in Cloud Storage, through Google's own client.

The client blocks, so what uses it runs in threads. It tries again by itself what may be tried
again. `STORAGE_EMULATOR_HOST` leads it elsewhere.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final

from shared.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.api_core.retry import Retry
    from google.cloud.storage import Blob, Bucket, Client

    from shared.core.errors import CarrelError

    ErrorMapper = Callable[[Exception, int], CarrelError]
    """What it means that Cloud Storage refuses us: its error, and the HTTP status."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_UNAUTHORIZED: Final = 401


class StorageFolder:
    """A prefix of a bucket; `notes` is not `notes-2024`.

    Attributes:
        address: gs://bucket or gs://bucket/prefix, without a slash at its end.
        prefix: What the names of its files begin with.
        attempt_seconds: How long to wait for one answer.
    """

    def __init__(
        self, address: str, project: str, *, attempt_seconds: float, retry_seconds: float
    ) -> None:
        """Connect to nothing yet.

        Args:
            address: gs://bucket or gs://bucket/prefix.
            project: The Google Cloud project.
            attempt_seconds: How long to wait for one answer.
            retry_seconds: How long to try again what failed for now.
        """
        self.address = address.rstrip("/")
        self._bucket_name, _, prefix = self.address.removeprefix("gs://").partition("/")
        self.prefix = f"{prefix}/" if prefix else ""
        self.attempt_seconds = attempt_seconds
        self._project = project
        self._retry_seconds = retry_seconds

    def blob(self, name: str, chunk_size: int | None = None) -> Blob:
        """The client's handle of a file."""
        return self.bucket.blob(self.prefix + name, chunk_size=chunk_size)

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await asyncio.to_thread(self._client.close)

    @cached_property
    def bucket(self) -> Bucket:
        """The client's handle of the bucket."""
        return self._client.bucket(self._bucket_name)

    @cached_property
    def retry(self) -> Retry:
        """How the client tries again."""
        from google.cloud.storage.retry import DEFAULT_RETRY

        retry: Retry = DEFAULT_RETRY.with_timeout(self._retry_seconds)
        return retry

    @cached_property
    def _client(self) -> Client:
        # Else it asks for the bucket itself too, in a thread that outlives it, and for traces only.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        from google.cloud.storage import Client

        return Client(project=self._project)


@contextmanager
def translate_errors(refused: ErrorMapper, *but: type[Exception]) -> Iterator[None]:
    """Errors of Google's client as ours, but for some.

    Raises:
        Unavailable: Cloud Storage is down, slow or out of quota.
        CarrelError: What `refused` says.
    """
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from requests import RequestException

    try:
        yield
    except but as error:
        close_response(error)
        raise
    except (api.RetryError, RequestException, DataCorruption, auth.TransportError) as error:
        close_response(error)
        raise _down() from error
    except api.GoogleAPICallError as error:
        close_response(error)
        raise _meaning(error, error.code, refused) from error
    except InvalidResponse as error:
        close_response(error)
        raise _meaning(error, error.response.status_code, refused) from error
    except auth.GoogleAuthError as error:
        raise refused(error, _UNAUTHORIZED) from error


def close_response(error: Exception) -> None:
    """Close what a refused download leaves open: Google's client forgets to."""
    close = getattr(getattr(error, "response", None), "close", None)
    if close is not None:
        close()


def _meaning(error: Exception, status: int | None, refused: ErrorMapper) -> CarrelError:
    return _down() if status is None or status in _TRANSIENT else refused(error, status)


def _down() -> Unavailable:
    return Unavailable("Cloud Storage does not answer: try again later.", retry_after=60)
