"""Deploys functions and tests them, and restores the previous release if they fail.

A release is a set of functions that is deployed together. Its manifest describes the functions and
names their bundles, which contain their source. A release that passed the smoke test is good.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.deployment import save_deployment
from infra.cloud.errors import CommandFailed
from infra.cloud.smoke_key import obtain_smoke_key
from infra.cloud.terraform import StateLocked
from shared.core.errors import CarrelError
from shared.core.installation import carrel_command, carrel_on_deployment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from infra.cloud.cloud import Cloud
    from infra.cloud.smoke import SmokeReport

MAX_SMOKE_ATTEMPTS: Final = 6
"""The smoke test is tried this often. Grants and new revisions take minutes to reach all of
Google's front ends."""
SMOKE_RETRY_SECONDS: Final = 15.0
"""The pause between two attempts of the smoke test."""
FIRST_RELEASE_RETRY_SECONDS: Final = 60.0
"""The pause before a project's first deployment is tried again."""
URL_OUTPUT: Final = "gateway_url"
"""The name of the Terraform output with the gateway's URL."""


def list_bundle_names(manifest: Mapping[str, Any]) -> list[str]:
    """List the names of the bundles in a manifest."""
    return sorted({function["bundle"] for function in manifest["functions"].values()})


def read_staged_manifest(cloud: Cloud) -> dict[str, Any]:
    """Read the staged manifest.

    Raises:
        CommandFailed: Nothing is staged.
    """
    try:
        manifest: dict[str, Any] = json.loads(cloud.manifest.read_bytes())
    except FileNotFoundError as error:
        raise CommandFailed(f"Nothing is staged. Run `{carrel_command()} stage` first.") from error
    return manifest


def ensure_manifest(cloud: Cloud) -> Path:
    """Return the path of the last good release's manifest or, before a release, the staged one.

    Terraform cannot run without a manifest. If none is staged, the bundles are staged.
    """
    if last_good := cloud.bucket.load_last_good_release():
        return _write_manifest(cloud, last_good.manifest)
    if not cloud.manifest.exists():
        cloud.stage(cloud.dist)
    return cloud.manifest


def upload_bundles(cloud: Cloud) -> None:
    """Upload new bundles, and add the generation of each bundle to the manifest.

    A generation is the version number of an object in a bucket, by which Terraform requests exactly
    the uploaded bundle.
    """
    manifest = read_staged_manifest(cloud)
    names = list_bundle_names(manifest)
    uploaded = cloud.bucket.upload_missing(cloud.dist, names)
    cloud.echo(f"  {len(uploaded)} of {len(names)} bundles were new")
    generations = cloud.bucket.list_generations()
    for function in manifest["functions"].values():
        function["generation"] = generations[function["bundle"]]
    temporary = cloud.manifest.with_suffix(".new")
    temporary.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    temporary.replace(cloud.manifest)


def release(cloud: Cloud) -> None:
    """Deploy the changed functions and run the smoke test; if either fails, roll back.

    Raises:
        StateLocked: Another run holds the lock on the state. Nothing was rolled back.
        CommandFailed: The release failed. The message says which release is live now.
    """
    key = obtain_smoke_key(cloud)
    cloud.terraform.init()
    try:
        _apply(cloud)
        _require_smoke_test(cloud, key)
    except StateLocked:
        raise
    except Exception as error:
        raise CommandFailed(f"{_describe_error(error)}\n{_roll_back(cloud, key)}") from error
    cloud.bucket.save_release(cloud.manifest.read_text("utf-8"), cloud.deployment)


def _apply(cloud: Cloud) -> None:
    """Deploy the staged functions, and retry a project's first deployment once.

    In a new project, Google's own accounts receive their roles late. Until then, creating functions
    may fail (https://github.com/firebase/firebase-tools/issues/5588).
    """
    try:
        cloud.terraform.apply(cloud.variables, cloud.manifest)
    except CommandFailed as error:
        if isinstance(error, StateLocked) or cloud.bucket.load_last_good_release():
            raise
        cloud.echo(
            f"{error.message}\n  retrying in {FIRST_RELEASE_RETRY_SECONDS:.0f} seconds:"
            " a new project may not be ready yet"
        )
        cloud.sleep(FIRST_RELEASE_RETRY_SECONDS)
        cloud.terraform.apply(cloud.variables, cloud.manifest)


def _require_smoke_test(cloud: Cloud, key: str) -> None:
    """Run the smoke test.

    Raises:
        CommandFailed: The test failed in every attempt.
    """
    report = _run_smoke_test(cloud, key)
    if not report.passed:
        raise CommandFailed(f"The smoke test failed: {report.lines[-1]}.")


def _run_smoke_test(cloud: Cloud, key: str) -> SmokeReport:
    """Run the smoke test until it passes, at most `MAX_SMOKE_ATTEMPTS` times."""
    url = cloud.terraform.read_outputs()[URL_OUTPUT]
    for remaining in reversed(range(MAX_SMOKE_ATTEMPTS)):
        report = asyncio.run(_await_smoke_test(cloud, url, key))
        if report.passed or not remaining:
            break
        cloud.echo(f"  not yet: {report.lines[-1]}")
        cloud.sleep(SMOKE_RETRY_SECONDS)
    cloud.echo("\n".join(f"  {line}" for line in report.lines))
    return report


async def _await_smoke_test(cloud: Cloud, url: str, key: str) -> SmokeReport:
    return await cloud.smoke(url, key)


def _roll_back(cloud: Cloud, key: str) -> str:
    """Deploy the last good release again, and return a message about the result."""
    last_good = cloud.bucket.load_last_good_release()
    if last_good is None:
        return f"There is no earlier release to restore. Run `{carrel_on_deployment('doctor')}`."
    manifest = _write_manifest(cloud, last_good.manifest)
    variables = cloud.dist / "last-good.tfvars.json"
    save_deployment(last_good.deployment, variables)
    cloud.echo("Rolling back to the last release that passed its smoke test ...")
    try:
        cloud.terraform.apply(variables, manifest)
        _require_smoke_test(cloud, key)
    except Exception as error:  # noqa: BLE001 - the caller raises the first error
        command = carrel_on_deployment("doctor")
        return f"The rollback failed too: {_describe_error(error)}\nRun `{command}`."
    return (
        "The previous release is live again. Read the functions' logs, fix the problem, and"
        " deploy again."
    )


def _describe_error(error: Exception) -> str:
    if isinstance(error, CommandFailed | CarrelError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _write_manifest(cloud: Cloud, manifest: Mapping[str, Any]) -> Path:
    """Write the manifest of the last good release next to the staged one, and return its path."""
    cloud.dist.mkdir(parents=True, exist_ok=True)
    path = cloud.dist / "last-good.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path
