"""A deployment can be repeated, and is resumed after a kill or a failed release."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import click
import pytest

from infra.build.discovery import ROOT
from infra.cloud.release import SMOKE_ATTEMPTS, deploy
from infra.cloud.smoke_key import SECRET_NAME
from shared.accounts.access_key import AccessKey
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Scope
from shared.firestore.connection import Connection
from tests.support.deploying_checkout import NEEDS_TERRAFORM, WORKING_CODE, Checkout, get_message
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.secret_manager import FakeSecretManager

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


def read_state(checkout: Checkout, storage: FakeCloudStorage, google: FakeSecretManager) -> object:
    """Return everything that a deployment creates, except for random values."""
    bucket = f"{checkout.project}-carrel"
    return {
        "objects": {name: storage.read_text(bucket, name) for name in storage.list_names(bucket)},
        "values": {name: len(values) for name, values in google.secrets.items()},
        "running": checkout.read_running(),
        "keys": [(key.user_id, key.scopes) for key in read_keys(checkout.project)],
    }


def test_a_first_deployment_creates_everything(
    checkout: Checkout, storage: FakeCloudStorage, google: FakeSecretManager
) -> None:
    deploy(checkout.make_cloud())
    functions = checkout.read_manifest()["functions"]
    bucket = f"{checkout.project}-carrel"
    bundles = {function["bundle"]: function["generation"] for function in functions.values()}
    assert set(storage.list_names(bucket)) == {*bundles, "deployment.tfvars.json"}
    assert bundles == {name: storage.blobs[bucket, name].generation for name in bundles}
    deployment_file = checkout.folder / "deployment.tfvars.json"
    assert storage.read_text(bucket, deployment_file.name) == deployment_file.read_text()
    assert checkout.read_running() == {
        name: function["bundle"] for name, function in functions.items()
    }
    [access_secrets] = google.secrets["ACCESS_SECRETS"]
    assert len(json.loads(access_secrets)) == 1


def test_the_smoke_test_has_its_own_read_only_key(
    checkout: Checkout, google: FakeSecretManager
) -> None:
    deploy(checkout.make_cloud())
    [key] = read_keys(checkout.project)
    assert key.user_id == "smoke"
    assert key.scopes == frozenset({Scope.READ})
    [text] = google.secrets[SECRET_NAME]
    assert key.key_id in text


def test_deploying_again_updates_only_changed_functions(checkout: Checkout) -> None:
    deploy(checkout.make_cloud())
    checkout.write_code(WORKING_CODE | {"search-kb": "better"})
    deploy(checkout.make_cloud())
    first_deployed, redeployed = checkout.read_deployed()[:3], checkout.read_deployed()[3:]
    assert sorted(first_deployed) == ["embed", "gateway", "search-kb"]
    assert redeployed == ["search-kb"]
    assert len(read_keys(checkout.project)) == 1


@pytest.mark.parametrize(
    "kill_line",
    [
        "Creating databases",
        "generated at random",
        "Deploying what",
        "Testing it",
        "the gateway runs",
    ],
)
def test_a_deployment_killed_at_any_step_can_be_resumed(
    kill_line: str, checkout: Checkout, storage: FakeCloudStorage, google: FakeSecretManager
) -> None:
    """The process is killed when it prints a line that contains `kill_line`."""
    arguments = json.dumps([str(checkout.folder), checkout.project, checkout.google, kill_line])
    command = [sys.executable, "-m", "tests.support.killed_deploy", arguments]
    killed_process = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, check=False
    )
    assert killed_process.returncode == -signal.SIGKILL

    deploy(checkout.make_cloud())
    resumed_state = read_state(checkout, storage, google)
    deploy(checkout.make_cloud())
    assert read_state(checkout, storage, google) == resumed_state
    assert len(read_keys(checkout.project)) == 1
    assert len(google.secrets["ACCESS_SECRETS"]) == 1


def test_a_failed_release_says_how_to_go_back(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    deploy(checkout.make_cloud())
    bundles_before = checkout.read_running()
    deployment_path = (f"{checkout.project}-carrel", "deployment.tfvars.json")
    generation = storage.blobs[deployment_path].generation
    checkout.write_code(WORKING_CODE | {"gateway": "bad"})
    lines: list[str] = []
    with pytest.raises(click.ClickException) as failure:
        deploy(checkout.make_cloud(lines.append))
    assert "The smoke test failed: the gateway runs bundles/gateway-bad" in get_message(failure)
    assert "To go back, check out the former release first" in get_message(failure)
    assert len([line for line in lines if "not yet" in line]) == SMOKE_ATTEMPTS - 1
    assert storage.blobs[deployment_path].generation == generation

    checkout.write_code(WORKING_CODE)
    deploy(checkout.make_cloud())
    assert checkout.read_running() == bundles_before


def test_a_build_deploys_what_is_staged(checkout: Checkout) -> None:
    deploy(checkout.make_cloud())
    checkout.write_code(WORKING_CODE | {"embed": "better"})
    cloud = checkout.make_cloud()
    cloud.stage(cloud.dist)
    checkout.write_code(WORKING_CODE)
    deploy(cloud, staged=True)
    assert checkout.read_deployed()[3:] == ["embed"]


def test_a_build_without_a_manifest_says_how_to_stage(checkout: Checkout) -> None:
    with pytest.raises(click.ClickException, match=r"Run `\.venv/bin/carrel stage`"):
        deploy(checkout.make_cloud(), staged=True)


def test_a_revoked_smoke_key_is_replaced(checkout: Checkout, google: FakeSecretManager) -> None:
    deploy(checkout.make_cloud())
    [key] = read_keys(checkout.project)

    async def revoke() -> None:
        connection = Connection(checkout.project, "access")
        try:
            await AccessStore(connection).keys.revoke(key.key_id, key.created_at)
        finally:
            await connection.aclose()

    asyncio.run(revoke())
    deploy(checkout.make_cloud())
    assert len(google.secrets[SECRET_NAME]) == 2
