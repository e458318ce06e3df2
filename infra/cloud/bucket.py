"""The bucket `<project>-carrel`, which is there before Terraform is and outlives it.

It is versioned, and holds Terraform's state under `terraform/`, the functions' bundles under
`bundles/`, each named by what is in it, and what passed its smoke test last, with the deployment
that it was deployed with, as `releases/last-good.json`. Of that deployment, builds take a copy:
`deployment.tfvars.json`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from google.api_core.exceptions import Forbidden as ApiForbidden
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.cloud.storage.constants import PUBLIC_ACCESS_PREVENTION_ENFORCED

from infra.cloud.deployment import NAME, Deployment, parsed
from infra.cloud.failures import NotDone
from shared.core.cloud_storage import translate_errors
from shared.core.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from google.cloud.storage import Client

LAST_GOOD: Final = "releases/last-good.json"
STATE_PREFIX: Final = "terraform"
_FORBIDDEN: Final = 403
_SECONDS: Final = 120


class Bucket:
    """The bucket of one deployment."""

    def __init__(self, client: Client, name: str) -> None:
        """Reach it through Google's client; nothing is asked yet."""
        self.name = name
        self._bucket = client.bucket(name)

    def make(self, project_number: str, region: str) -> bool:
        """Make it unless it is there: versioned, and closed to the public.

        Returns:
            Whether it had to be made.

        Raises:
            NotDone: Its name is taken by somebody else: names of buckets are the whole world's.
                Whoever holds it could put functions of their own in the place of ours.
        """
        bucket = self._bucket
        try:
            with translate_errors(_refused, ApiForbidden, NotFound):
                bucket.reload()
        except NotFound:
            self._protect()
            with translate_errors(_refused):
                bucket.create(location=region)
            return True
        except ApiForbidden as error:
            raise self._not_ours(f"or you may not see it. {error}") from error
        if str(bucket.project_number) != project_number:
            raise self._not_ours("it is of another project.")
        if not self._is_protected():
            self._protect()
            with translate_errors(_refused):
                bucket.patch()
        return False

    def upload_missing(self, folder: Path, names: Iterable[str]) -> list[str]:
        """Bring bundles there that are not there yet. Their names say what is in them.

        Returns:
            Those that were missing.
        """
        missing = sorted(set(names) - self.generations().keys())
        for name in missing:
            self._create(name, (folder / name).read_bytes())
        return missing

    def generations(self) -> dict[str, int]:
        """The bundles that are there, and of each the generation: the number of its version."""
        with translate_errors(_refused):
            found = self._bucket.list_blobs(prefix="bundles/")
            return {blob.name: int(blob.generation) for blob in found}

    def last_good(self) -> tuple[dict[str, Any], Deployment] | None:
        """The manifest that passed its smoke test last, with its deployment; None before the first.

        They are one object, so that no crash leaves a manifest with another's deployment.
        """
        text = self._read(LAST_GOOD)
        if text is None:
            return None
        held = json.loads(text)
        return held["manifest"], parsed(json.dumps(held["deployment"]), self._place(LAST_GOOD))

    def keep(self, manifest: str, deployment: Deployment) -> None:
        """Remember what passed its smoke test.

        The copy for builds comes first: killed in between, they deploy with what has just passed,
        and what is gone back to is still the whole release before.
        """
        self._write(NAME, deployment.to_json())
        held = {"manifest": json.loads(manifest), "deployment": json.loads(deployment.to_json())}
        self._write(LAST_GOOD, json.dumps(held, indent=2) + "\n")

    def _is_protected(self) -> bool:
        access = self._bucket.iam_configuration
        is_closed = access.get("publicAccessPrevention") == PUBLIC_ACCESS_PREVENTION_ENFORCED
        is_uniform = access.uniform_bucket_level_access_enabled
        return bool(self._bucket.versioning_enabled and is_closed and is_uniform)

    def _protect(self) -> None:
        self._bucket.versioning_enabled = True
        access = self._bucket.iam_configuration
        access.public_access_prevention = PUBLIC_ACCESS_PREVENTION_ENFORCED
        access.uniform_bucket_level_access_enabled = True

    def _not_ours(self, why: str) -> NotDone:
        return NotDone(
            f"The bucket gs://{self.name} belongs to somebody else, {why}\n"
            "Nothing was written there. Next: choose another project, for another name"
        )

    def _place(self, name: str) -> str:
        return f"gs://{self.name}/{name}"

    def _read(self, name: str) -> bytes | None:
        try:
            with translate_errors(_refused, NotFound):
                content: bytes = self._bucket.blob(name).download_as_bytes(timeout=_SECONDS)
        except NotFound:
            return None
        return content

    def _write(self, name: str, text: str) -> None:
        with translate_errors(_refused):
            self._bucket.blob(name).upload_from_string(
                text, content_type="application/json", timeout=_SECONDS
            )

    def _create(self, name: str, content: bytes) -> None:
        try:
            with translate_errors(_refused, PreconditionFailed):
                self._bucket.blob(name).upload_from_string(
                    content,
                    content_type="application/zip",
                    if_generation_match=0,
                    timeout=_SECONDS,
                )
        except PreconditionFailed:
            return  # another run was faster, with the same content


def _refused(error: Exception, status: int) -> Forbidden:
    may = " May you write to it?" if status == _FORBIDDEN else ""
    return Forbidden(f"Cloud Storage refused ({status}): {error}.{may}")
