"""From bundles to functions that answer, or back to those that answered before."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.deployment import write
from infra.cloud.failures import NotDone
from infra.cloud.smoke_key import smoke_key
from infra.cloud.terraform import Locked
from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from infra.cloud.cloud import Cloud
    from infra.cloud.smoke import Smoke

TRIES: Final = 6
"""Rights and new revisions take up to some minutes to reach all of Google's front ends."""
PAUSE: Final = 15.0
SETTLING: Final = 60.0
"""Seconds until a first release is tried again."""
URL: Final = "gateway_url"
"""The output of Terraform with the gateway's address."""


def bundles(manifest: Mapping[str, Any]) -> list[str]:
    """The bundles that a manifest names."""
    return sorted({function["bundle"] for function in manifest["functions"].values()})


def staged(cloud: Cloud) -> dict[str, Any]:
    """The manifest that is staged.

    Raises:
        NotDone: None is.
    """
    try:
        manifest: dict[str, Any] = json.loads(cloud.manifest.read_bytes())
    except FileNotFoundError as error:
        raise NotDone("Nothing is staged. Next: carrel stage") from error
    return manifest


def good_or_staged(cloud: Cloud) -> Path:
    """The manifest of what serves; before the first release that does, what is staged."""
    good = cloud.bucket.last_good()
    if good:
        return _written(cloud, good[0])
    if not cloud.manifest.exists():
        cloud.stage(cloud.dist)
    return cloud.manifest


def upload(cloud: Cloud) -> None:
    """Bring new bundles to the bucket, and note in the manifest the version of each there."""
    manifest = staged(cloud)
    names = bundles(manifest)
    missing = cloud.bucket.upload_missing(cloud.dist, names)
    cloud.say(f"  {len(missing)} of {len(names)} bundles were new")
    generations = cloud.bucket.generations()
    for function in manifest["functions"].values():
        function["generation"] = generations[function["bundle"]]
    fresh = cloud.manifest.with_suffix(".new")
    fresh.write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    fresh.replace(cloud.manifest)


def release(cloud: Cloud) -> None:
    """Deploy the functions that changed, and see whether they answer; else go back.

    Raises:
        NotDone: They do not; the message says what serves now.
    """
    key = smoke_key(cloud)
    cloud.terraform.init()
    try:
        _apply(cloud)
        _expect_answers(cloud, key)
    except Locked:
        raise
    except Exception as failure:
        raise NotDone(f"{_words_of(failure)}\n{_roll_back(cloud, key)}") from failure
    cloud.bucket.keep(cloud.manifest.read_text("utf-8"), cloud.deployment)


def _apply(cloud: Cloud) -> None:
    """Deploy what is staged; the first time in two tries.

    In a new project Google's own accounts get their rights late; what is made before is refused:
    https://github.com/firebase/firebase-tools/issues/5588
    """
    try:
        cloud.terraform.apply(cloud.variables, cloud.manifest)
    except NotDone as failure:
        if isinstance(failure, Locked) or cloud.bucket.last_good():
            raise
        cloud.say(
            f"{failure.message}\n  once more, in a minute: a new project may not be ready yet"
        )
        cloud.api.pause(SETTLING)
        cloud.terraform.apply(cloud.variables, cloud.manifest)


def _expect_answers(cloud: Cloud, key: str) -> None:
    smoke = _smoke(cloud, key)
    if not smoke.well:
        raise NotDone(f"The smoke test failed: {smoke.said[-1]}.")


def _smoke(cloud: Cloud, key: str) -> Smoke:
    url = cloud.terraform.outputs()[URL]
    for remaining in reversed(range(TRIES)):
        smoke = asyncio.run(_tested(cloud, url, key))
        if smoke.well or not remaining:
            break
        cloud.say(f"  not yet: {smoke.said[-1]}")
        cloud.api.pause(PAUSE)
    cloud.say("\n".join(f"  {line}" for line in smoke.said))
    return smoke


async def _tested(cloud: Cloud, url: str, key: str) -> Smoke:
    return await cloud.smoke(url, key)


def _roll_back(cloud: Cloud, key: str) -> str:
    """Deploy again what passed its smoke test last; say what came of it."""
    good = cloud.bucket.last_good()
    if good is None:
        return "There is no earlier release to go back to. Next: carrel --cloud doctor"
    manifest, variables = _written(cloud, good[0]), cloud.dist / "last-good.tfvars.json"
    write(good[1], variables)
    cloud.say("Rolling back to the last release that passed its smoke test ...")
    try:
        cloud.terraform.apply(variables, manifest)
        _expect_answers(cloud, key)
    except Exception as failure:  # noqa: BLE001 - what failed before is what is raised
        return f"Rolling back failed too: {_words_of(failure)}\nNext: carrel --cloud doctor"
    return "The release before it serves again. Next: read the functions' logs, mend, deploy again."


def _words_of(failure: Exception) -> str:
    if isinstance(failure, NotDone | CarrelError):
        return failure.message
    return f"{type(failure).__name__}: {failure}"


def _written(cloud: Cloud, manifest: Mapping[str, Any]) -> Path:
    cloud.dist.mkdir(parents=True, exist_ok=True)
    path = cloud.dist / "last-good.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path
