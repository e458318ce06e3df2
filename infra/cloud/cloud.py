"""Everything that deploying works with, made in one place."""

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
    from infra.cloud.smoke import Smoke
    from infra.cloud.terraform import Terraform


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """One deployment, and what reaches it.

    Attributes:
        deployment: What it is.
        variables: The file that says so.
        dist: Where bundles and the manifest are staged.
        api: Google's REST APIs.
        bucket: Its bucket.
        secrets: Its secrets' values.
        terraform: What makes the rest.
        stage: Writes the bundles and the manifest to `dist`.
        smoke: The smoke test, of an address with a key.
        ask: The value of a secret, from whoever is at the terminal.
        say: Tells them how it goes.
        key: The smoke test's key, where the environment brings it.
    """

    deployment: Deployment
    variables: Path
    dist: Path
    api: GoogleApi
    bucket: Bucket
    secrets: SecretValues
    terraform: Terraform
    stage: Callable[[Path], object]
    smoke: Callable[[str, str], Awaitable[Smoke]]
    ask: Callable[[str], str]
    say: Callable[[str], object]
    key: str = ""

    @property
    def manifest(self) -> Path:
        """What is staged."""
        return self.dist / "manifest.json"
