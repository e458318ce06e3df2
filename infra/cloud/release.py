"""Deploys, smoke-tests and removes Carrel. Every step can be repeated.

A manifest describes the functions that are deployed together, and names their bundles, which
contain their source.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from infra.cloud.deployment import FILE_NAME
from infra.cloud.secret_values import ACCESS_SECRETS
from infra.cloud.smoke_key import obtain_smoke_key
from shared.core.installation import carrel_command, carrel_deploy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from infra.cloud.bucket import Bucket
    from infra.cloud.deployment import Deployment
    from infra.cloud.secret_values import SecretValues
    from infra.cloud.smoke import SmokeReport
    from infra.cloud.terraform import Terraform

DATABASES: Final = ("google_firestore_database.knowledge", "google_firestore_database.access")
"""The addresses of the databases in Terraform's configuration."""
DATA: Final = (
    *DATABASES,
    "google_firestore_index.carrel",
    "google_firestore_field.carrel",
    "google_secret_manager_secret.carrel",
)
"""The addresses of databases, indexes and secrets."""
TEXTS: Final = "google_storage_bucket.texts"
"""The address of the bucket with texts."""
GRANTS: Final = (
    "google_project_iam_member.build",
    "google_artifact_registry_repository_iam_member.build",
    "google_secret_manager_secret_iam_member.function",
)
"""The addresses of the grants that builds and functions need when they start. A grant takes effect
only after some minutes."""
SMOKE_ATTEMPTS: Final = 6
"""The smoke test is tried this many times. Grants and new revisions take minutes to reach all of
Google's front ends."""
_SMOKE_PAUSE_SECONDS: Final = 15.0
_RANDOM_BYTES: Final = 48
"""A generated secret has this many random bytes: 64 characters of base64."""
_PRESERVED: Final = re.compile(
    r"data\."
    r"|google_(firestore_(database|index|field)|storage_bucket|secret_manager_secret)\."
    r"|google_project_service\."
)
"""The addresses that are preserved unless data is deleted: those of databases, texts, the secrets
on which keys and sign-ins depend, and Google's APIs, which other programs may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A deployment, with connections to its services.

    Attributes:
        stage: Writes the bundles and the manifest to a folder.
        smoke: Runs the smoke test on a URL with a key.
        ask: Asks the person at the terminal for the value of a secret.
        echo: Prints progress.
        sleep: Waits between two attempts.
        key: The smoke test's key, or an empty string if the environment contains none.
    """

    deployment: Deployment
    bucket: Bucket
    secrets: SecretValues
    terraform: Terraform
    stage: Callable[[Path], object]
    smoke: Callable[[str, str], Awaitable[SmokeReport]]
    ask: Callable[[str], str]
    echo: Callable[[str], object]
    sleep: Callable[[float], object] = time.sleep
    key: str = ""

    @property
    def dist(self) -> Path:
        """The folder in which bundles and the manifest are staged."""
        return self.terraform.manifest.parent


def deploy(cloud: Cloud, *, staged: bool = False) -> str:
    """Deploy what changed, test it, and return the gateway's URL.

    Databases, indexes and secrets come before the functions, because a function does not start if
    its secret has no value (https://cloud.google.com/functions/docs/configuring/secrets).

    Args:
        cloud: The deployment.
        staged: Whether to deploy what is staged already, as builds do. They may neither create the
            bucket nor ask for secrets.

    Raises:
        ClickException: A step failed. The message says what to do.
    """
    if staged:
        cloud.terraform.init()
        _upload_bundles(cloud)
    else:
        cloud.echo("Preparing the bucket and the functions' bundles ...")
        cloud.bucket.ensure(cloud.deployment.region)
        cloud.terraform.init()
        _require_location(cloud)
        cloud.stage(cloud.dist)
        _upload_bundles(cloud)
        cloud.echo("Creating databases, indexes and secrets ...")
        cloud.terraform.apply(*DATA, *GRANTS)
        _fill_secrets(cloud)
    key = cloud.key or obtain_smoke_key(cloud.deployment.project, cloud.secrets)
    cloud.echo("Deploying what changed ...")
    cloud.terraform.apply()
    url = str(cloud.terraform.read_outputs()["gateway_url"])
    cloud.echo("Testing it ...")
    _require_smoke_test(cloud, url, key)
    cloud.bucket.save_deployment(cloud.terraform.variables.read_bytes())
    return url


def _upload_bundles(cloud: Cloud) -> None:
    """Upload new bundles, and add the generation of each bundle to the manifest.

    The generation pins Terraform to the bundle that was just uploaded.
    """
    path = cloud.terraform.manifest
    if not path.exists():
        raise click.ClickException(f"Nothing is staged. Run `{carrel_command()} stage` first.")
    manifest: dict[str, Any] = json.loads(path.read_bytes())
    functions = manifest["functions"].values()
    names = {function["bundle"] for function in functions}
    generations = cloud.bucket.upload_bundles(cloud.dist, names)
    for function in functions:
        function["generation"] = generations[function["bundle"]]
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    temporary.replace(path)


def _require_location(cloud: Cloud) -> None:
    """Require that no database would move. Terraform would first delete its indexes, and then fail.

    Raises:
        ClickException: A database is at a location other than configured.
    """
    resources = cloud.terraform.read_resources()
    for location in {resources[name]["location_id"] for name in DATABASES if name in resources}:
        if location != cloud.deployment.firestore_location:
            raise click.ClickException(
                f"The databases are in {location} and cannot be moved. Write"
                f' "firestore_location": "{location}" in {FILE_NAME}.'
            )


def _fill_secrets(cloud: Cloud) -> None:
    """Add a value to each secret that has none: a random one to ACCESS_SECRETS.

    The person at the terminal enters all other values.

    Raises:
        ClickException: The answer is empty or has unprintable characters.
    """
    if not cloud.secrets.has(ACCESS_SECRETS):
        cloud.secrets.add(ACCESS_SECRETS, json.dumps([secrets.token_urlsafe(_RANDOM_BYTES)]))
        cloud.echo(f"  {ACCESS_SECRETS}: generated at random")
    for name in sorted(cloud.deployment.secrets):
        if cloud.secrets.has(name):
            continue
        value = cloud.ask(name).strip()
        if not value or not value.isprintable():
            project = cloud.deployment.project
            command = f"gcloud secrets versions add {name} --project {project} --data-file=-"
            message = f"{name} has no value yet. Run `{carrel_deploy()}` or `{command}`."
            raise click.ClickException(message)
        cloud.secrets.add(name, value)


def _require_smoke_test(cloud: Cloud, url: str, key: str) -> None:
    """Run the smoke test until it passes, at most `SMOKE_ATTEMPTS` times.

    Raises:
        ClickException: The test failed in every attempt. The message says how to go back.
    """

    async def run() -> SmokeReport:
        return await cloud.smoke(url, key)

    for remaining in reversed(range(SMOKE_ATTEMPTS)):
        report = asyncio.run(run())
        if report.passed or not remaining:
            break
        cloud.echo(f"  not yet: {report.lines[-1]}")
        cloud.sleep(_SMOKE_PAUSE_SECONDS)
    cloud.echo("\n".join(f"  {line}" for line in report.lines))
    if not report.passed:
        options = f"--project {cloud.deployment.project} --region {cloud.deployment.region}"
        raise click.ClickException(
            f"The smoke test failed: {report.lines[-1]}.\n"
            "The new functions are live. Their logs say why:"
            f" gcloud functions logs read carrel-gateway --gen2 {options}\n"
            f"Fix the problem and run `{carrel_deploy()}` again. To go back, check out the former"
            " release first; data stays as it is."
        )


def destroy(cloud: Cloud, *, data: bool) -> None:
    """Delete all of Terraform's resources or, without `data`, only those not in `_PRESERVED`."""
    cloud.terraform.init()
    if not cloud.terraform.manifest.exists():  # Terraform cannot run without one
        cloud.stage(cloud.dist)
    if data:
        # Databases, texts and secrets cannot be deleted until their protection is removed.
        cloud.terraform.apply(*DATA, TEXTS, protect_data=False)
        cloud.terraform.destroy(protect_data=False)
        return
    addresses = [name for name in cloud.terraform.read_resources() if not is_preserved(name)]
    if addresses:
        cloud.terraform.destroy(*addresses)


def is_preserved(address: str) -> bool:
    """Return whether an address belongs to a preserved resource or to a data source."""
    return _PRESERVED.match(address) is not None
