"""A deployment with its clients and files, which every deployment step needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from infra.cloud.bucket import Bucket
    from infra.cloud.deployment import Deployment
    from infra.cloud.google_api import GoogleApi
    from infra.cloud.secret_values import SecretValues
    from infra.cloud.smoke import SmokeReport
    from infra.cloud.terraform import Terraform


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A deployment, with connections to its services.

    Attributes:
        deployment: The deployment that the checkout describes.
        variables: The file that describes the deployment.
        dist: The folder in which bundles and the manifest are staged.
        api: Google's REST APIs.
        bucket: The deployment's bucket.
        secrets: The values of the deployment's secrets.
        terraform: Creates all other resources.
        stage: Writes the bundles and the manifest to `dist`.
        smoke: Runs the smoke test on a URL with a key.
        ask: Asks the person at the terminal for the value of a secret.
        echo: Prints progress.
        key: The smoke test's key, or an empty string if the environment contains none.
    """

    deployment: Deployment
    variables: Path
    dist: Path
    api: GoogleApi
    bucket: Bucket
    secrets: SecretValues
    terraform: Terraform
    stage: Callable[[Path], object]
    smoke: Callable[[str, str], Awaitable[SmokeReport]]
    ask: Callable[[str], str]
    echo: Callable[[str], object]
    key: str = ""

    @property
    def manifest(self) -> Path:
        """The path of the staged manifest."""
        return self.dist / "manifest.json"

    def sleep(self, seconds: float) -> None:
        """Wait between two attempts."""
        self.api.sleep(seconds)
