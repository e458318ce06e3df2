"""The real Terraform configuration is deployed and destroyed with a fake provider."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from infra.cloud.bootstrap import DATABASES, GRANTS, SECRETS
from infra.cloud.errors import CommandFailed
from infra.cloud.plan import FULL_DEPLOY, INDEXES_ONLY, run_steps
from infra.cloud.smoke import SmokeReport
from infra.cloud.smoke_key import SECRET_NAME
from infra.cloud.teardown import destroy, is_preserved
from infra.cloud.terraform import FOLDER, Terraform
from tests.support import terraform_deployment
from tests.support.deploying_checkout import NEEDS_TERRAFORM, get_message
from tests.support.fakes.terraform_provider import TerraformProvider
from tests.support.manifests import make_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from infra.cloud.cloud import Cloud
    from tests.support.deploying_checkout import Checkout
    from tests.support.fakes.google_cloud import FakeGoogleCloud

pytestmark = [NEEDS_TERRAFORM, pytest.mark.slow]

BEFORE_TERRAFORM = FULL_DEPLOY[:3]
"""The steps before the first that runs Terraform or stages bundles."""
UNTIL_PREREQUISITES = FULL_DEPLOY[:6]
"""The steps until databases, indexes and secrets exist. No function exists then."""


@pytest.fixture(scope="module")
def provider() -> Iterator[TerraformProvider]:
    """The fake Google provider."""
    with TerraformProvider() as terraform_provider:
        yield terraform_provider


@pytest.fixture
def cloud(checkout: Checkout, provider: TerraformProvider, tmp_path: Path) -> Cloud:
    """A new deployment of the real configuration."""
    copy = terraform_deployment.Deployment.prepare(tmp_path / "copy", provider.environment)
    base = checkout.make_cloud()
    terraform = Terraform(
        folder=copy.folder / "infra" / "terraform",
        environment={**base.terraform.environment, **provider.environment},
    )
    return replace(
        base, terraform=terraform, stage=make_stage("0123456789abcdef"), smoke=pass_smoke_test
    )


def make_stage(digest: str) -> Callable[[Path], None]:
    """Return a function that stages a manifest whose bundles have this digest in their names."""

    def stage(target: Path) -> None:
        (target / "bundles").mkdir(parents=True, exist_ok=True)
        content = json.dumps(make_manifest()).replace("0123456789abcdef", digest)
        for function in json.loads(content)["functions"].values():
            (target / function["bundle"]).write_text(digest)
        (target / "manifest.json").write_text(content)

    return stage


async def pass_smoke_test(url: str, _key: str) -> SmokeReport:
    """Replace the smoke test, which would need a running gateway."""
    assert url.startswith("https://carrel-gateway-")
    return SmokeReport(passed=True, lines=["it answers"])


async def fail_smoke_test(_url: str, _key: str) -> SmokeReport:
    """Replace the smoke test for a release that does not work."""
    return SmokeReport(passed=False, lines=["it does not answer"])


def list_resource_kinds(cloud: Cloud) -> set[str]:
    """Return the kinds of the deployed resources, without data sources."""
    all_kinds = {address.partition(".")[0] for address in cloud.terraform.list_addresses()}
    return all_kinds - {"data"}


def find_deployed_digests(cloud: Cloud) -> set[str]:
    """Return the digests in the names of the bundles that functions run."""
    state = json.loads((cloud.terraform.folder / "terraform.tfstate").read_text())
    [functions] = [
        resource
        for resource in state["resources"]
        if resource["type"] == "google_cloudfunctions2_function"
    ]
    sources = [
        instance["attributes"]["build_config"][0]["source"][0]["storage_source"][0]["object"]
        for instance in functions["instances"]
    ]
    return {source.rpartition("-")[2].removesuffix(".zip") for source in sources}


@pytest.mark.parametrize("address", [*DATABASES, *SECRETS, *GRANTS])
def test_the_first_resources_are_in_the_configuration(address: str) -> None:
    kind, name = address.split(".")
    text = "\n".join(path.read_text("utf-8") for path in FOLDER.glob("*.tf"))
    assert f'resource "{kind}" "{name}"' in text


def test_prerequisites_exist_before_any_function(cloud: Cloud) -> None:
    run_steps(cloud, UNTIL_PREREQUISITES)
    prerequisite_kinds = {address.partition(".")[0] for address in (*DATABASES, *SECRETS, *GRANTS)}
    assert prerequisite_kinds <= list_resource_kinds(cloud)
    assert "google_cloudfunctions2_function" not in list_resource_kinds(cloud)
    names = {"ACCESS_SECRETS", SECRET_NAME}
    assert {f'{SECRETS[0]}["{name}"]' for name in names} <= set(cloud.terraform.list_addresses())


def make_database(name: str) -> dict[str, str]:
    """Make a database as Google's API describes it."""
    return {"name": name, "locationId": "europe-west1", "type": "FIRESTORE_NATIVE"}


def test_an_existing_database_must_be_imported_first(cloud: Cloud, google: FakeGoogleCloud) -> None:
    project = cloud.deployment.project
    google.projects[project].databases["(default)"] = make_database("(default)")
    with pytest.raises(CommandFailed) as failure:
        run_steps(cloud, UNTIL_PREREQUISITES)

    command = shlex.split(get_message(failure).split("Next: ")[1].splitlines()[0])
    assert command == [
        "terraform",
        f"-chdir={cloud.terraform.folder}",
        "import",
        f"-var-file={cloud.variables}",
        f"-var=manifest={cloud.manifest}",
        "google_firestore_database.knowledge",
        f"projects/{project}/databases/(default)",
    ]
    assert "Collections of the same names would mix" in get_message(failure)
    assert not list_resource_kinds(cloud)

    # The fake provider cannot import, but a database that it creates is in the state, too.
    cloud.terraform.apply(cloud.variables, cloud.manifest, [command[-2]])
    run_steps(cloud, UNTIL_PREREQUISITES)
    assert set(DATABASES[:2]) <= set(cloud.terraform.list_addresses())


def test_databases_of_terraform_need_no_import(cloud: Cloud, google: FakeGoogleCloud) -> None:
    run_steps(cloud, UNTIL_PREREQUISITES)
    databases = google.projects[cloud.deployment.project].databases
    databases |= {name: make_database(name) for name in ("(default)", "access")}
    run_steps(cloud, UNTIL_PREREQUISITES)
    run_steps(cloud, INDEXES_ONLY)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"locationId": "nam5"}, 'Write "firestore_location": "nam5"'),
        ({"type": "DATASTORE_MODE"}, "not in native mode. Choose another project"),
    ],
)
def test_an_incompatible_database_is_never_imported(
    change: dict[str, str], expected: str, cloud: Cloud, google: FakeGoogleCloud
) -> None:
    incompatible_database = make_database("access") | change
    google.projects[cloud.deployment.project].databases["access"] = incompatible_database
    with pytest.raises(CommandFailed) as failure:
        run_steps(cloud, UNTIL_PREREQUISITES)
    assert expected in get_message(failure)


def test_a_build_changes_no_index_after_a_deployment(cloud: Cloud) -> None:
    run_steps(cloud, FULL_DEPLOY)
    assert "google_cloudfunctions2_function" in list_resource_kinds(cloud)
    addresses_before = cloud.terraform.list_addresses()
    run_steps(cloud, INDEXES_ONLY)
    assert cloud.terraform.list_addresses() == addresses_before


def test_a_failed_release_restores_the_previous_bundles(cloud: Cloud) -> None:
    run_steps(cloud, FULL_DEPLOY)
    failing_cloud = replace(cloud, stage=make_stage("fedcba9876543210"), smoke=fail_smoke_test)
    with pytest.raises(CommandFailed) as failure:
        run_steps(failing_cloud, FULL_DEPLOY)
    assert "The smoke test failed: it does not answer." in get_message(failure)
    assert find_deployed_digests(cloud) == {"0123456789abcdef"}


def test_destroy_keeps_databases_texts_and_secrets(cloud: Cloud) -> None:
    run_steps(cloud, FULL_DEPLOY)
    destroy(cloud, data=False)
    assert list_resource_kinds(cloud) == {
        "google_project_service",
        "google_firestore_database",
        "google_firestore_index",
        "google_firestore_field",
        "google_secret_manager_secret",
        "google_storage_bucket",
    }


def test_a_destroyed_deployment_can_be_deployed_again(cloud: Cloud) -> None:
    run_steps(cloud, FULL_DEPLOY)
    addresses_before = cloud.terraform.list_addresses()
    destroy(cloud, data=False)
    run_steps(cloud, FULL_DEPLOY)
    assert cloud.terraform.list_addresses() == addresses_before


def test_destroy_with_data_leaves_nothing(cloud: Cloud) -> None:
    run_steps(cloud, FULL_DEPLOY)
    destroy(cloud, data=True)
    assert list_resource_kinds(cloud) == set()


def test_destroying_nothing_does_nothing(cloud: Cloud) -> None:
    run_steps(cloud, BEFORE_TERRAFORM)
    destroy(cloud, data=False)
    assert list_resource_kinds(cloud) == set()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("google_firestore_database.access", True),
        ("google_storage_bucket.texts", True),
        ('google_storage_bucket_iam_member.function["ingest INGEST_BUCKET"]', False),
        ('google_secret_manager_secret_iam_member.function["gateway ACCESS_SECRETS"]', False),
        ("data.google_project.carrel", True),
        ('google_cloudfunctions2_function.carrel["gateway"]', False),
    ],
)
def test_destroy_keeps_data_but_not_access_to_it(address: str, *, expected: bool) -> None:
    assert is_preserved(address) == expected
