"""The bucket `<project>-carrel`, which Terraform does not manage.

The bucket is created before Terraform runs, and remains when a deployment is destroyed. It is
versioned and contains
- `terraform/`: Terraform's state,
- `bundles/`: the functions' bundles, named by their content,
- `releases/last-good.json`: the manifest and the deployment file of the last release that passed
  its smoke test,
- `deployment.tfvars.json`: a copy of that deployment file, for builds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.api_core.exceptions import Forbidden as ApiForbidden
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.cloud.storage.constants import PUBLIC_ACCESS_PREVENTION_ENFORCED

from infra.cloud.deployment import FILE_NAME, Deployment, parse_deployment
from infra.cloud.errors import CommandFailed
from shared.core.cloud_storage import translate_errors
from shared.core.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from google.cloud.storage import Client

LAST_GOOD: Final = "releases/last-good.json"
"""The name of the object with the last release that passed its smoke test."""
STATE_PREFIX: Final = "terraform"
"""The folder of Terraform's state."""
_FORBIDDEN: Final = 403
_TIMEOUT_SECONDS: Final = 120
"""A response is awaited for this long, because bundles of several megabytes are uploaded."""


class Release(NamedTuple):
    """A release that passed its smoke test.

    Attributes:
        manifest: The description of its functions, from which Terraform deploys them again.
        deployment: The description of the deployment at that time.
    """

    manifest: dict[str, Any]
    deployment: Deployment


class Bucket:
    """The bucket of a deployment."""

    def __init__(self, client: Client, name: str) -> None:
        """Store a handle to the bucket without sending a request."""
        self.name = name
        self._bucket = client.bucket(name)

    def ensure(self, project_number: str, region: str) -> bool:
        """Create the bucket unless it exists, versioned and without public access.

        Returns:
            Whether the bucket was created.

        Raises:
            CommandFailed: The bucket belongs to another project, whose owner could replace
                Carrel's functions. This can happen because bucket names are global.
        """
        bucket = self._bucket
        try:
            with translate_errors(_make_forbidden_error, ApiForbidden, NotFound):
                bucket.reload()
        except NotFound:
            self._protect()
            with translate_errors(_make_forbidden_error):
                bucket.create(location=region)
            return True
        except ApiForbidden as error:
            raise self._make_foreign_bucket_error(
                f"or you have no access to it. {error}"
            ) from error
        if str(bucket.project_number) != project_number:
            raise self._make_foreign_bucket_error("because it is in another project.")
        if not self._is_protected():
            self._protect()
            with translate_errors(_make_forbidden_error):
                bucket.patch()
        return False

    def upload_missing(self, folder: Path, names: Iterable[str]) -> list[str]:
        """Upload the bundles that are missing. A bundle's name identifies its content.

        Returns:
            The names of the uploaded bundles.
        """
        missing = sorted(set(names) - self.list_generations().keys())
        for name in missing:
            self._create(name, (folder / name).read_bytes())
        return missing

    def list_generations(self) -> dict[str, int]:
        """List the generation of each bundle, which is its version number in the bucket."""
        with translate_errors(_make_forbidden_error):
            blobs = self._bucket.list_blobs(prefix="bundles/")
            return {blob.name: int(blob.generation) for blob in blobs}

    def load_last_good_release(self) -> Release | None:
        """Load the last release that passed its smoke test, or return None.

        The manifest and the deployment are stored as one object, so that a crash cannot mix two
        releases.
        """
        text = self._read(LAST_GOOD)
        if text is None:
            return None
        release = json.loads(text)
        deployment = parse_deployment(json.dumps(release["deployment"]), self._get_uri(LAST_GOOD))
        return Release(release["manifest"], deployment)

    def save_release(self, manifest: str, deployment: Deployment) -> None:
        """Save a release that passed its smoke test.

        The copy of the deployment for builds is written first. After a crash between the two
        writes, builds use the new deployment, and a rollback restores the complete previous
        release.
        """
        self._write(FILE_NAME, deployment.to_json())
        release = {
            "manifest": json.loads(manifest),
            "deployment": json.loads(deployment.to_json()),
        }
        self._write(LAST_GOOD, json.dumps(release, indent=2) + "\n")

    def _is_protected(self) -> bool:
        """Return whether the bucket keeps old versions, and its objects cannot be made public."""
        access = self._bucket.iam_configuration
        is_closed = access.get("publicAccessPrevention") == PUBLIC_ACCESS_PREVENTION_ENFORCED
        is_uniform = access.uniform_bucket_level_access_enabled
        return bool(self._bucket.versioning_enabled and is_closed and is_uniform)

    def _protect(self) -> None:
        self._bucket.versioning_enabled = True
        access = self._bucket.iam_configuration
        access.public_access_prevention = PUBLIC_ACCESS_PREVENTION_ENFORCED
        access.uniform_bucket_level_access_enabled = True

    def _make_foreign_bucket_error(self, reason: str) -> CommandFailed:
        return CommandFailed(
            f"The bucket gs://{self.name} belongs to somebody else, {reason}\n"
            "Nothing was written to it. Choose another project, whose bucket has another name."
        )

    def _get_uri(self, name: str) -> str:
        return f"gs://{self.name}/{name}"

    def _read(self, name: str) -> bytes | None:
        """Read an object, or return None if it does not exist."""
        try:
            with translate_errors(_make_forbidden_error, NotFound):
                content: bytes = self._bucket.blob(name).download_as_bytes(timeout=_TIMEOUT_SECONDS)
        except NotFound:
            return None
        return content

    def _write(self, name: str, text: str) -> None:
        with translate_errors(_make_forbidden_error):
            self._bucket.blob(name).upload_from_string(
                text, content_type="application/json", timeout=_TIMEOUT_SECONDS
            )

    def _create(self, name: str, content: bytes) -> None:
        """Upload a bundle, unless it exists. A bundle is never overwritten."""
        try:
            with translate_errors(_make_forbidden_error, PreconditionFailed):
                self._bucket.blob(name).upload_from_string(
                    content,
                    content_type="application/zip",
                    if_generation_match=0,  # only if there is no such object
                    timeout=_TIMEOUT_SECONDS,
                )
        except PreconditionFailed:
            return  # another run has uploaded the same content


def _make_forbidden_error(error: Exception, status: int) -> Forbidden:
    hint = " Do you have write access?" if status == _FORBIDDEN else ""
    return Forbidden(f"Cloud Storage rejected the request ({status}): {error}.{hint}")
