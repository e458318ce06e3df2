"""The real Terraform configuration is deployed and destroyed with a fake provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from infra.cloud.environment import find_gateway_url
from infra.cloud.release import DATA, GRANTS, TEXTS, Cloud, deploy, destroy, is_preserved
from infra.cloud.smoke import SmokeReport
from infra.cloud.terraform import FOLDER
from tests.support import terraform_deployment
from tests.support.deploying_checkout import NEEDS_TERRAFORM, Checkout, write_deployment
from tests.support.fakes.terraform_provider import TerraformProvider
from tests.support.manifests import make_manifest

pytestmark = [NEEDS_TERRAFORM, pytest.mark.slow]


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
    terraform = replace(
        base.terraform,
        folder=copy.folder / "infra" / "terraform",
        backend={},
        environment={**base.terraform.environment, **provider.environment},
    )
    return replace(base, terraform=terraform, stage=stage_manifest, smoke=pass_smoke_test)


def stage_manifest(target: Path) -> None:
    """Stage a manifest with one function of each kind, and its bundles."""
    (target / "bundles").mkdir(parents=True, exist_ok=True)
    manifest = make_manifest()
    for function in manifest["functions"].values():
        (target / function["bundle"]).write_text("a bundle")
    (target / "manifest.json").write_text(json.dumps(manifest))


async def pass_smoke_test(url: str, _key: str) -> SmokeReport:
    """Replace the smoke test, which would need a running gateway."""
    assert url.startswith("https://carrel-gateway-")
    return SmokeReport(passed=True, lines=["it answers"])


def list_resource_kinds(cloud: Cloud) -> set[str]:
    """Return the kinds of the deployed resources, without data sources."""
    all_kinds = {address.partition(".")[0] for address in cloud.terraform.read_resources()}
    return all_kinds - {"data"}


@pytest.mark.parametrize("address", [*DATA, TEXTS, *GRANTS])
def test_the_first_resources_are_in_the_configuration(address: str) -> None:
    kind, name = address.split(".")
    text = "\n".join(path.read_text("utf-8") for path in FOLDER.glob("*.tf"))
    assert f'resource "{kind}" "{name}"' in text


def test_secrets_exist_before_any_function(cloud: Cloud) -> None:
    """So a deployment can ask for their values, without which functions do not start."""
    deployment = cloud.deployment.model_copy(update={"secrets": ("READWISE_TOKEN",)})
    write_deployment(deployment, cloud.terraform.variables)
    with pytest.raises(click.ClickException, match="READWISE_TOKEN has no value yet"):
        deploy(replace(cloud, deployment=deployment, ask=lambda _: ""))
    kinds = {address.partition(".")[0] for address in (*DATA, *GRANTS)}
    assert kinds <= list_resource_kinds(cloud)
    assert "google_cloudfunctions2_function" not in list_resource_kinds(cloud)


def test_the_gateway_has_the_url_that_commands_use(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", cloud.deployment.project)
    assert deploy(cloud) == find_gateway_url(cloud.terraform.variables)


def test_a_database_is_never_moved(cloud: Cloud) -> None:
    deploy(cloud)
    addresses_before = cloud.terraform.read_resources().keys()
    moved_deployment = cloud.deployment.model_copy(update={"firestore_location": "nam5"})
    write_deployment(moved_deployment, cloud.terraform.variables)
    with pytest.raises(click.ClickException, match='Write "firestore_location": "europe-west1"'):
        deploy(replace(cloud, deployment=moved_deployment))
    assert cloud.terraform.read_resources().keys() == addresses_before


def test_a_build_changes_no_resource_after_a_deployment(cloud: Cloud) -> None:
    deploy(cloud)
    assert "google_cloudfunctions2_function" in list_resource_kinds(cloud)
    resources_before = cloud.terraform.read_resources()
    deploy(cloud, staged=True)
    assert cloud.terraform.read_resources() == resources_before


def test_destroy_keeps_databases_texts_and_secrets(cloud: Cloud) -> None:
    deploy(cloud)
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
    deploy(cloud)
    addresses_before = cloud.terraform.read_resources()
    destroy(cloud, data=False)
    deploy(cloud)
    assert cloud.terraform.read_resources() == addresses_before


def test_destroy_with_data_leaves_nothing(cloud: Cloud) -> None:
    deploy(cloud)
    destroy(cloud, data=True)
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
