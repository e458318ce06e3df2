"""Accesses folders in Cloud Storage, through Google's client.

The client blocks, so its callers run it in threads. It retries transient errors itself, because
only the client can resume an upload or a download, as `retry_with_backoff` could not.
`STORAGE_EMULATOR_HOST` directs the client to a test server.
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
    """A function that maps an error of the client and its HTTP status to one of Carrel's errors."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_UNAUTHORIZED: Final = 401


class StorageFolder:
    """A bucket, or a folder in a bucket.

    Attributes:
        address: gs://bucket or gs://bucket/prefix, without a trailing slash.
        prefix: The prefix of the names of the folder's files. It ends with a slash, so that the
            folder `notes` does not contain the files of `notes-2024`.
        attempt_seconds: How long to wait for one answer.
    """

    def __init__(
        self, address: str, project: str, *, attempt_seconds: float, retry_seconds: float
    ) -> None:
        """Parse the address. The client connects on first use.

        Args:
            retry_seconds: How long to retry transient errors.
        """
        self.address = address.rstrip("/")
        self._bucket_name, _, prefix = self.address.removeprefix("gs://").partition("/")
        self.prefix = f"{prefix}/" if prefix else ""
        self.attempt_seconds = attempt_seconds
        self._project = project
        self._retry_seconds = retry_seconds

    def blob(self, name: str, chunk_size: int | None = None) -> Blob:
        """Return the client's handle for a file."""
        return self.bucket.blob(self.prefix + name, chunk_size=chunk_size)

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await asyncio.to_thread(self._client.close)

    @cached_property
    def bucket(self) -> Bucket:
        """The client's handle for the bucket."""
        return self._client.bucket(self._bucket_name)

    @cached_property
    def retry(self) -> Retry:
        """The client's retry policy."""
        from google.cloud.storage.retry import DEFAULT_RETRY

        retry: Retry = DEFAULT_RETRY.with_timeout(self._retry_seconds)
        return retry

    @cached_property
    def _client(self) -> Client:
        # Otherwise the client loads the bucket's metadata for traces in a thread that outlives the
        # client.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        from google.cloud.storage import Client

        return Client(project=self._project)


@contextmanager
def translate_errors(on_refusal: ErrorMapper, *untranslated: type[Exception]) -> Iterator[None]:
    """Translate the errors of Google's client, except the `untranslated` ones.

    Raises:
        Unavailable: Cloud Storage is down, slow or out of quota.
        CarrelError: Cloud Storage rejected the request; `on_refusal` makes the error.
    """
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from requests import RequestException

    try:
        yield
    except untranslated as error:
        close_response(error)
        raise
    except (api.RetryError, RequestException, DataCorruption, auth.TransportError) as error:
        close_response(error)
        raise _make_unavailable_error() from error
    except api.GoogleAPICallError as error:
        close_response(error)
        raise _map_error(error, error.code, on_refusal) from error
    except InvalidResponse as error:
        close_response(error)
        raise _map_error(error, error.response.status_code, on_refusal) from error
    except auth.GoogleAuthError as error:
        raise on_refusal(error, _UNAUTHORIZED) from error


def close_response(error: Exception) -> None:
    """Close the response of a rejected download, which Google's client leaves open."""
    close = getattr(getattr(error, "response", None), "close", None)
    if close is not None:
        close()


def _map_error(error: Exception, status: int | None, on_refusal: ErrorMapper) -> CarrelError:
    return (
        _make_unavailable_error()
        if status is None or status in _TRANSIENT
        else on_refusal(error, status)
    )


def _make_unavailable_error() -> Unavailable:
    return Unavailable("Cloud Storage does not answer: try again later.", retry_after=60)
