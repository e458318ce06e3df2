"""Lists and downloads the objects below a prefix of Cloud Storage."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from shared.core.cloud_storage import StorageFolder, close_response, translate_errors
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

ATTEMPT_SECONDS: Final = 30.0
"""The time limit of one request."""
RETRY_SECONDS: Final = 120.0
"""The time limit of a request and all its retries together."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object in a listing: its generation, and its size in bytes (0 if unknown)."""

    generation: int
    size: int


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

    @property
    def collection(self) -> str:
        """The last part of the prefix, or the name of the bucket."""
        return self.address.rpartition("/")[2]

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
            ObjectUnreadable: Permission to read the object is missing, or the download is damaged.
            Unavailable: Cloud Storage does not answer.
        """
        await asyncio.to_thread(self._download, name, generation, path)

    def _list_objects(self) -> dict[str, ListedObject]:
        folder = self._folder
        blobs = folder.bucket.list_blobs(
            prefix=folder.prefix,
            fields="items(name,generation,size),nextPageToken",
            timeout=folder.attempt_seconds,
            retry=folder.retry,
        )
        with translate_errors(_make_bucket_error):
            return {
                blob.name.removeprefix(folder.prefix): ListedObject(blob.generation, blob.size or 0)
                for blob in blobs
            }

    def _download(self, name: str, generation: int, path: Path) -> None:
        from google.api_core.exceptions import Forbidden, NotFound, PreconditionFailed
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
                _make_bucket_error, Forbidden, NotFound, PreconditionFailed, DataCorruption
            ):
                self._folder.retry(download, on_error=close_response)()
        except (NotFound, PreconditionFailed) as error:
            raise ObjectChanged from error
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
