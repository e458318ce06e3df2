"""Deploys functions and tests them, and restores the previous release if they fail."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.deployment import save_deployment
from infra.cloud.errors import CommandFailed
from infra.cloud.smoke_key import obtain_smoke_key
from infra.cloud.terraform import StateLocked
from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from infra.cloud.cloud import Cloud
    from infra.cloud.smoke import SmokeReport

MAX_SMOKE_TESTS: Final = 6
"""The smoke test is repeated: grants and new revisions take minutes to reach all of Google's
front ends."""
SMOKE_RETRY_SECONDS: Final = 15.0
FIRST_RELEASE_RETRY_SECONDS: Final = 60.0
URL_OUTPUT: Final = "gateway_url"
"""Terraform's output with the gateway's URL."""


def bundles(manifest: Mapping[str, Any]) -> list[str]:
    """The bundles that a manifest names."""
    return sorted({function["bundle"] for function in manifest["functions"].values()})


def staged_manifest(cloud: Cloud) -> dict[str, Any]:
    """Read the staged manifest.

    Raises:
        CommandFailed: Nothing is staged.
    """
    try:
        manifest: dict[str, Any] = json.loads(cloud.manifest.read_bytes())
    except FileNotFoundError as error:
        raise CommandFailed("Nothing is staged. Next: carrel stage") from error
    return manifest


def live_or_staged_manifest(cloud: Cloud) -> Path:
    """A file with the last good release's manifest; without such a release, the staged manifest."""
    release = cloud.bucket.last_good_release()
    if release:
        return _write_manifest(cloud, release[0])
    if not cloud.manifest.exists():
        cloud.stage(cloud.dist)
    return cloud.manifest


def upload_bundles(cloud: Cloud) -> None:
    """Upload new bundles, and add each bundle's generation in the bucket to the manifest."""
    manifest = staged_manifest(cloud)
    names = bundles(manifest)
    uploaded = cloud.bucket.upload_missing(cloud.dist, names)
    cloud.echo(f"  {len(uploaded)} of {len(names)} bundles were new")
    generations = cloud.bucket.generations()
    for function in manifest["functions"].values():
        function["generation"] = generations[function["bundle"]]
    temporary = cloud.manifest.with_suffix(".new")
    temporary.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    temporary.replace(cloud.manifest)


def release(cloud: Cloud) -> None:
    """Deploy the functions that changed and run the smoke test; roll back if it fails.

    Raises:
        CommandFailed: The release failed; the message says which release is live now.
    """
    key = obtain_smoke_key(cloud)
    cloud.terraform.init()
    try:
        _apply(cloud)
        _require_smoke_test(cloud, key)
    except StateLocked:
        raise
    except Exception as failure:
        raise CommandFailed(f"{_message_of(failure)}\n{_roll_back(cloud, key)}") from failure
    cloud.bucket.save_release(cloud.manifest.read_text("utf-8"), cloud.deployment)


def _apply(cloud: Cloud) -> None:
    """Deploy the staged functions; retry the first deployment once.

    In a new project Google's own accounts get their roles late, and creating functions fails:
    https://github.com/firebase/firebase-tools/issues/5588
    """
    try:
        cloud.terraform.apply(cloud.variables, cloud.manifest)
    except CommandFailed as failure:
        if isinstance(failure, StateLocked) or cloud.bucket.last_good_release():
            raise
        cloud.echo(f"{failure.message}\n  retrying in a minute: a new project may not be ready yet")
        cloud.api.pause(FIRST_RELEASE_RETRY_SECONDS)
        cloud.terraform.apply(cloud.variables, cloud.manifest)


def _require_smoke_test(cloud: Cloud, key: str) -> None:
    report = _run_smoke_test(cloud, key)
    if not report.passed:
        raise CommandFailed(f"The smoke test failed: {report.lines[-1]}.")


def _run_smoke_test(cloud: Cloud, key: str) -> SmokeReport:
    url = cloud.terraform.outputs()[URL_OUTPUT]
    for remaining in reversed(range(MAX_SMOKE_TESTS)):
        report = asyncio.run(_smoke(cloud, url, key))
        if report.passed or not remaining:
            break
        cloud.echo(f"  not yet: {report.lines[-1]}")
        cloud.api.pause(SMOKE_RETRY_SECONDS)
    cloud.echo("\n".join(f"  {line}" for line in report.lines))
    return report


async def _smoke(cloud: Cloud, url: str, key: str) -> SmokeReport:
    return await cloud.smoke(url, key)


def _roll_back(cloud: Cloud, key: str) -> str:
    """Deploy the last good release again; return a message about the result."""
    last_good = cloud.bucket.last_good_release()
    if last_good is None:
        return "There is no earlier release to restore. Next: carrel --cloud doctor"
    manifest = _write_manifest(cloud, last_good[0])
    variables = cloud.dist / "last-good.tfvars.json"
    save_deployment(last_good[1], variables)
    cloud.echo("Rolling back to the last release that passed its smoke test ...")
    try:
        cloud.terraform.apply(variables, manifest)
        _require_smoke_test(cloud, key)
    except Exception as failure:  # noqa: BLE001 - the caller raises the first failure
        return f"The rollback failed too: {_message_of(failure)}\nNext: carrel --cloud doctor"
    return (
        "The previous release is live again. Next: read the functions' logs, fix the problem,"
        " deploy again."
    )


def _message_of(failure: Exception) -> str:
    if isinstance(failure, CommandFailed | CarrelError):
        return failure.message
    return f"{type(failure).__name__}: {failure}"


def _write_manifest(cloud: Cloud, manifest: Mapping[str, Any]) -> Path:
    cloud.dist.mkdir(parents=True, exist_ok=True)
    path = cloud.dist / "last-good.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path
