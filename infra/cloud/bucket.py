"""The bucket `<project>-carrel`, which Terraform does not manage.

The bucket is created before Terraform runs, and remains when a deployment is destroyed. It is
versioned and contains
- `terraform/`: Terraform's state,
- `bundles/`: the functions' bundles, named by their content,
- `deployment.tfvars.json`: the deployment file of the last release that passed its smoke test, for
  builds and for commands in other checkouts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import click
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.cloud.storage import Client
from google.cloud.storage.constants import PUBLIC_ACCESS_PREVENTION_ENFORCED

from infra.cloud.deployment import FILE_NAME, Deployment, parse_deployment
from shared.core.cloud_storage import translate_errors
from shared.core.errors import Forbidden
from shared.core.installation import carrel_deploy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TIMEOUT_SECONDS: Final = 120
"""A response is awaited for this long, because bundles of several megabytes are uploaded."""


class Bucket:
    """The bucket of a project's deployment."""

    def __init__(self, project: str) -> None:
        """Sign in, without sending a request to the bucket."""
        self.name = f"{project}-carrel"
        with _translate_errors():
            self._client = Client(project=project)
        self._bucket = self._client.bucket(self.name)

    def ensure(self, region: str) -> None:
        """Create the bucket unless the project has it; make it versioned and private.

        Raises:
            ClickException: The bucket belongs to another project, whose owner could replace
                Carrel's functions. This can happen because bucket names are global.
        """
        bucket = self._bucket
        bucket.versioning_enabled = True
        bucket.iam_configuration.public_access_prevention = PUBLIC_ACCESS_PREVENTION_ENFORCED
        bucket.iam_configuration.uniform_bucket_level_access_enabled = True
        with _translate_errors():
            names = {own.name for own in self._client.list_buckets(prefix=self.name)}
        if self.name in names:
            with _translate_errors():
                bucket.patch()
            return
        try:
            with _translate_errors(Conflict):
                bucket.create(location=region)
        except Conflict as error:
            raise click.ClickException(
                f"The bucket gs://{self.name} belongs to somebody else. Nothing was written to it."
                " Choose another project, whose bucket has another name."
            ) from error

    def upload_bundles(self, folder: Path, names: Iterable[str]) -> dict[str, int]:
        """Upload the bundles that are missing. A bundle's name identifies its content.

        Returns:
            The generation of each bundle in the bucket, which is its version number.
        """
        for name in sorted(set(names) - self._list_generations().keys()):
            try:
                with _translate_errors(PreconditionFailed):
                    self._bucket.blob(name).upload_from_string(
                        (folder / name).read_bytes(),
                        content_type="application/zip",
                        if_generation_match=0,  # only if there is no such object
                        timeout=_TIMEOUT_SECONDS,
                    )
            except PreconditionFailed:
                continue  # another run has uploaded the same content
        return self._list_generations()

    def save_deployment(self, text: bytes) -> None:
        """Save the deployment file of a release that passed its smoke test."""
        with _translate_errors():
            self._bucket.blob(FILE_NAME).upload_from_string(
                text, content_type="application/json", timeout=_TIMEOUT_SECONDS
            )

    def load_deployment(self) -> Deployment:
        """Load the deployment of the last release that passed its smoke test.

        Raises:
            ClickException: No release has passed yet.
        """
        try:
            with _translate_errors(NotFound):
                text = self._bucket.blob(FILE_NAME).download_as_bytes(timeout=_TIMEOUT_SECONDS)
        except NotFound as error:
            raise click.ClickException(
                f"gs://{self.name} has no {FILE_NAME}, because no release has passed its smoke test"
                f" yet. Run `{carrel_deploy()}`."
            ) from error
        return parse_deployment(text, f"gs://{self.name}/{FILE_NAME}")

    def read_project_number(self) -> str:
        """Read the number of the project that the bucket belongs to."""
        with _translate_errors():
            self._bucket.reload()
        return str(self._bucket.project_number)

    def _list_generations(self) -> dict[str, int]:
        with _translate_errors():
            blobs = self._bucket.list_blobs(prefix="bundles/")
            return {blob.name: int(blob.generation) for blob in blobs}


def _make_forbidden_error(error: Exception, status: int) -> Forbidden:
    return Forbidden(f"Cloud Storage rejected the request ({status}): {error}.")


_translate_errors = partial(translate_errors, _make_forbidden_error)
