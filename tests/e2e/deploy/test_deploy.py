"""A deployment can be repeated, is resumed after a kill, and is rolled back if it fails."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import ROOT
from infra.cloud.errors import CommandFailed
from infra.cloud.plan import FULL_DEPLOY, INDEXES_ONLY, RELEASE_ONLY, run_steps
from infra.cloud.release import list_bundle_names
from infra.cloud.smoke_key import SECRET_NAME
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Scope
from shared.core.errors import Forbidden
from shared.firestore.connection import Connection
from tests.support.deploying_checkout import NEEDS_TERRAFORM, WORKING_CODE, get_message
from tests.support.fakes.cloud_storage import FORBIDDEN, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from shared.accounts.access_key import AccessKey
    from tests.support.deploying_checkout import Checkout
    from tests.support.fakes.cloud_storage import FakeCloudStorage
    from tests.support.fakes.google_cloud import FakeGoogleCloud

pytestmark = [NEEDS_TERRAFORM, pytest.mark.slow]


def read_keys(project: str) -> list[AccessKey]:
    """Return the stored access keys."""

    async def list_keys() -> list[AccessKey]:
        connection = Connection(project, "access")
        try:
            return await AccessStore(connection).keys.list_keys()
        finally:
            await connection.aclose()

    return asyncio.run(list_keys())


def read_state(checkout: Checkout, storage: FakeCloudStorage, google: FakeGoogleCloud) -> object:
    """Return everything that a deployment creates, except for random values."""
    project = google.projects[checkout.project]
    bucket = f"{checkout.project}-carrel"
    return {
        "objects": {name: storage.read_text(bucket, name) for name in storage.list_names(bucket)},
        "values": {name: len(values) for name, values in project.secrets.items()},
        "services": project.services,
        "running": checkout.read_running(),
        "keys": [(key.user_id, key.scopes) for key in read_keys(checkout.project)],
    }


def test_a_first_deployment_creates_everything(
    checkout: Checkout, storage: FakeCloudStorage, google: FakeGoogleCloud
) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    manifest = checkout.read_manifest()
    bucket = f"{checkout.project}-carrel"
    assert set(storage.list_names(bucket)) == {
        *list_bundle_names(manifest),
        "deployment.tfvars.json",
        "releases/last-good.json",
    }
    release = json.loads(storage.read_text(bucket, "releases/last-good.json"))
    deployment = json.loads(storage.read_text(bucket, "deployment.tfvars.json"))
    assert release == {"manifest": manifest, "deployment": deployment}
    assert checkout.read_running() == {
        name: function["bundle"] for name, function in manifest["functions"].items()
    }
    [access_secrets] = google.projects[checkout.project].secrets["ACCESS_SECRETS"]
    assert len(json.loads(access_secrets)) == 1


def test_the_manifest_names_the_generation_of_each_bundle(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    bucket = f"{checkout.project}-carrel"
    release = json.loads(storage.read_text(bucket, "releases/last-good.json"))
    stored_generations = {
        name: storage.blobs[bucket, name].generation
        for name in storage.list_names(bucket)
        if name.startswith("bundles/")
    }
    released_functions = release["manifest"]["functions"].values()
    assert stored_generations == {
        function["bundle"]: function["generation"] for function in released_functions
    }


def test_the_smoke_test_has_its_own_read_only_key(
    checkout: Checkout, google: FakeGoogleCloud
) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    [key] = read_keys(checkout.project)
    assert key.user_id == "smoke"
    assert key.scopes == frozenset({Scope.READ})
    [text] = google.projects[checkout.project].secrets[SECRET_NAME]
    assert key.key_id in text


def test_deploying_again_updates_only_changed_functions(checkout: Checkout) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    checkout.write_code(WORKING_CODE | {"search-kb": "better"})
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    first_deployed, redeployed = checkout.read_deployed()[:3], checkout.read_deployed()[3:]
    assert sorted(first_deployed) == ["embed", "gateway", "search-kb"]
    assert redeployed == ["search-kb"]
    assert len(read_keys(checkout.project)) == 1


@pytest.mark.parametrize(
    "kill_line",
    [
        *(f"[{number}/" for number in range(2, len(FULL_DEPLOY) + 1)),
        "bundles were new",
        "generated at random",
        "the gateway runs",
    ],
)
def test_a_deployment_killed_at_any_step_can_be_resumed(
    kill_line: str, checkout: Checkout, storage: FakeCloudStorage, google: FakeGoogleCloud
) -> None:
    """The process is killed when it prints a line that contains `kill_line`."""
    arguments = json.dumps([str(checkout.folder), checkout.project, checkout.google, kill_line])
    command = [sys.executable, "-m", "tests.support.killed_deploy", arguments]
    killed_process = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, check=False
    )
    assert killed_process.returncode == -signal.SIGKILL

    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    resumed_state = read_state(checkout, storage, google)
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert read_state(checkout, storage, google) == resumed_state
    assert len(read_keys(checkout.project)) == 1
    assert len(google.projects[checkout.project].secrets["ACCESS_SECRETS"]) == 1


def test_a_failed_release_is_rolled_back(checkout: Checkout, storage: FakeCloudStorage) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    bundles_before = checkout.read_running()
    release = storage.read_text(f"{checkout.project}-carrel", "releases/last-good.json")
    checkout.write_code(WORKING_CODE | {"gateway": "bad"})
    with pytest.raises(CommandFailed) as failure:
        run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert checkout.read_running() == bundles_before
    assert storage.read_text(f"{checkout.project}-carrel", "releases/last-good.json") == release
    assert "The smoke test failed: the gateway runs bundles/gateway-bad" in get_message(failure)
    assert "The previous release is live again." in get_message(failure)


def test_an_error_in_the_smoke_test_rolls_back(checkout: Checkout) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    bundles_before = checkout.read_running()
    checkout.write_code(WORKING_CODE | {"gateway": "broken"})
    with pytest.raises(CommandFailed) as failure:
        run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert checkout.read_running() == bundles_before
    assert "KeyError: 'chunks'\nThe previous release is live again." in get_message(failure)


def test_a_release_is_saved_atomically_with_its_deployment(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    cloud = checkout.make_cloud()
    first_release = cloud.bucket.load_last_good_release()
    later_deployment = cloud.deployment.model_copy(update={"alert_email": "ada@example.com"})
    storage.faults["upload"].extend([Fault(), FORBIDDEN])
    with pytest.raises(Forbidden):
        cloud.bucket.save_release('{"functions": {}}', later_deployment)
    assert cloud.bucket.load_last_good_release() == first_release
    cloud.bucket.save_release('{"functions": {}}', later_deployment)
    assert cloud.bucket.load_last_good_release() == ({"functions": {}}, later_deployment)


def test_a_failed_first_release_cannot_be_rolled_back(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    checkout.write_code(WORKING_CODE | {"gateway": "bad"})
    with pytest.raises(CommandFailed, match="no earlier release to restore") as failure:
        run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert "Run `.venv/bin/carrel --cloud doctor`" in get_message(failure)
    assert "releases/last-good.json" not in storage.list_names(f"{checkout.project}-carrel")


def test_a_failed_apply_is_rolled_back(checkout: Checkout) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    bundles_before = checkout.read_running()
    kill_shell = "$(kill -9 $PPID)"
    checkout.write_code(WORKING_CODE | {"embed": kill_shell})
    with pytest.raises(CommandFailed, match="terraform apply failed"):
        run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert checkout.read_running() == bundles_before


def make_hesitant_terraform(folder: Path) -> str:
    """Return a PATH with a Terraform that fails once, as in a new project."""
    programs = folder / "hesitant"
    programs.mkdir()
    path = programs / "terraform"
    path.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        "  *-target=*) ;;\n"
        f"  *apply*) mkdir {programs}/refused 2>&- && echo 'Error 403: not yet' >&2 && exit 1 ;;\n"
        "esac\n"
        f'exec {shutil.which("terraform")} "$@"\n'
    )
    path.chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def test_a_first_release_is_retried(checkout: Checkout, tmp_path: Path) -> None:
    lines: list[str] = []
    hesitant_checkout = replace(checkout, path=make_hesitant_terraform(tmp_path))
    run_steps(hesitant_checkout.make_cloud(lines.append), FULL_DEPLOY)
    assert checkout.read_running().keys() == set(WORKING_CODE)
    [retry_line] = [line for line in lines if "retrying" in line]
    assert "Error 403: not yet" in retry_line


def test_a_later_release_is_not_retried(checkout: Checkout, tmp_path: Path) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    checkout.write_code(WORKING_CODE | {"embed": "better"})
    hesitant_checkout = replace(checkout, path=make_hesitant_terraform(tmp_path))
    with pytest.raises(CommandFailed, match="Error 403: not yet"):
        run_steps(hesitant_checkout.make_cloud(), FULL_DEPLOY)


def test_a_build_deploys_indexes_then_staged_functions(checkout: Checkout) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    checkout.write_code(WORKING_CODE | {"embed": "better"})
    cloud = checkout.make_cloud()
    cloud.stage(cloud.dist)
    run_steps(cloud, INDEXES_ONLY)
    assert len(checkout.read_deployed()) == 3
    run_steps(cloud, RELEASE_ONLY)
    assert checkout.read_deployed()[3:] == ["embed"]


def test_a_release_without_a_manifest_says_how_to_stage(checkout: Checkout) -> None:
    with pytest.raises(CommandFailed, match=r"Nothing is staged\. Run `\.venv/bin/carrel stage`"):
        run_steps(checkout.make_cloud(), RELEASE_ONLY)


def test_a_revoked_smoke_key_is_replaced(checkout: Checkout, google: FakeGoogleCloud) -> None:
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    [key] = read_keys(checkout.project)

    async def revoke() -> None:
        connection = Connection(checkout.project, "access")
        try:
            await AccessStore(connection).keys.revoke(key.key_id, key.created_at)
        finally:
            await connection.aclose()

    asyncio.run(revoke())
    run_steps(checkout.make_cloud(), FULL_DEPLOY)
    assert len(google.projects[checkout.project].secrets[SECRET_NAME]) == 2
