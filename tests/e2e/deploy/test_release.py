"""Deploying has an order, can be repeated and resumed, and keeps secrets and data.

A script takes Terraform's place: it notes how it is called and answers with a state, since what
Terraform makes of its configuration is tested in `tests/e2e/test_terraform.py`.
"""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import click
import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.cloud.bucket import Bucket
from infra.cloud.deployment import FILE_NAME, Deployment
from infra.cloud.release import (
    DATA,
    DATABASES,
    GRANTS,
    SMOKE_ATTEMPTS,
    TEXTS,
    Cloud,
    deploy,
    destroy,
    is_preserved,
)
from infra.cloud.secret_values import SecretValues
from infra.cloud.smoke import SmokeReport
from infra.cloud.smoke_key import SECRET_NAME
from infra.cloud.terraform import FOLDER, Terraform
from shared.accounts.access_key import AccessKey
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Scope
from shared.firestore.connection import Connection
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.secret_manager import FakeSecretManager

SECRET_VALUE = "typed-by-a-person-and-seen-by-nobody"
URL = "https://carrel.example.com"
TERRAFORM = f"""#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >> calls
env >> environment
case "$2" in
  output) echo '{{"gateway_url": {{"value": "{URL}"}}}}' ;;
  show) cat state.json ;;
esac
"""
TARGETS = " ".join(f"-target={address}" for address in (*DATA, *GRANTS))


@dataclass
class Checkout:
    """A checkout that deploys to stand-ins for Google's services."""

    folder: Path
    project: str
    google: str
    code: dict[str, str] = field(default_factory=lambda: {"gateway": "good", "search-kb": "good"})
    passes: bool = True
    lines: list[str] = field(default_factory=list)

    def make_cloud(self, *secrets: str, answer: str = SECRET_VALUE) -> Cloud:
        fields = {"project": self.project, "secrets": secrets}
        settings = {"EMBEDDING_PROVIDER": "vertex"}
        deployment = Deployment.model_validate({**fields, "settings": settings})
        (self.folder / FILE_NAME).write_text(deployment.model_dump_json())
        session = AuthorizedSession(AnonymousCredentials())
        return Cloud(
            deployment=deployment,
            bucket=Bucket(self.project),
            secrets=SecretValues(self.project, session=session, address=self.google),
            terraform=Terraform(
                backend={},
                variables=self.folder / FILE_NAME,
                manifest=self.folder / "dist" / "manifest.json",
                environment={"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"},
            ),
            stage=self._stage,
            smoke=self._test,
            ask=lambda _: answer,
            echo=self.lines.append,
            sleep=lambda _: None,
        )

    def _stage(self, target: Path) -> None:
        (target / "bundles").mkdir(parents=True, exist_ok=True)
        bundles = {key: f"bundles/{key}-{code}.zip" for key, code in self.code.items()}
        for bundle in bundles.values():
            (target / bundle).write_text(bundle)
        functions = {key: {"bundle": bundle} for key, bundle in bundles.items()}
        (target / "manifest.json").write_text(json.dumps({"functions": functions}))

    async def _test(self, url: str, key: str) -> SmokeReport:
        assert url == URL
        assert key.startswith("carrel_")
        return SmokeReport(passed=self.passes, lines=["what it answers"])

    def read_calls(self) -> list[str]:
        """Return Terraform's commands and targets so far, without the other options."""
        calls = [line.split() for line in (self.folder / "calls").read_text().splitlines()]
        kept = ("-target=", "-var=protect_data=false")
        return [" ".join([c[1], *(part for part in c if part.startswith(kept))]) for c in calls]

    def write_state(self, *addresses: str, **values: Any) -> None:
        resources = [{"address": address, "values": values} for address in addresses]
        state = {"values": {"root_module": {"resources": resources}}}
        (self.folder / "state.json").write_text(json.dumps(state))

    def read_keys(self) -> list[AccessKey]:
        return asyncio.run(self._use_keys(lambda store: store.keys.list_keys()))

    def revoke(self, key: AccessKey) -> None:
        asyncio.run(self._use_keys(lambda store: store.keys.revoke(key.key_id, key.created_at)))

    async def _use_keys(self, use: Callable[[AccessStore], Any]) -> Any:
        connection = Connection(self.project, "access")
        try:
            return await use(AccessStore(connection))
        finally:
            await connection.aclose()


@pytest.fixture
def checkout(
    tmp_path: Path,
    project: str,
    google: FakeSecretManager,
    storage: FakeCloudStorage,  # noqa: ARG001 - Google's client connects to it
) -> Checkout:
    """A checkout without a deployment."""
    program = tmp_path / "terraform"
    program.write_text(TERRAFORM)
    program.chmod(0o755)
    checkout = Checkout(tmp_path, project, google.address)
    checkout.write_state(*DATABASES, location_id="europe-west1")
    return checkout


def test_a_first_deployment_creates_everything(
    checkout: Checkout, storage: FakeCloudStorage, google: FakeSecretManager
) -> None:
    assert deploy(checkout.make_cloud()) == URL
    assert checkout.read_calls() == ["init", "show", f"apply {TARGETS}", "apply", "output"]
    bucket = f"{checkout.project}-carrel"
    manifest = json.loads((checkout.folder / "dist" / "manifest.json").read_text())
    bundles = {entry["bundle"]: entry["generation"] for entry in manifest["functions"].values()}
    assert bundles == {name: storage.blobs[bucket, name].generation for name in bundles}
    assert set(storage.list_names(bucket)) == {*bundles, FILE_NAME}
    assert storage.read_text(bucket, FILE_NAME) == (checkout.folder / FILE_NAME).read_text()
    assert {name: len(values) for name, values in google.secrets.items()} == {
        "ACCESS_SECRETS": 1,
        "READWISE_TOKEN": 0,
        SECRET_NAME: 1,
    }
    assert len(json.loads(google.secrets["ACCESS_SECRETS"][0])) == 1
    [key] = checkout.read_keys()
    assert (key.user_id, key.scopes) == ("smoke", frozenset({Scope.READ}))
    assert key.key_id in google.secrets[SECRET_NAME][0]


def test_a_deployment_stopped_at_any_line_can_be_resumed(
    checkout: Checkout, storage: FakeCloudStorage, google: FakeSecretManager
) -> None:
    def stop_after(lines: int) -> Callable[[str], None]:
        numbers = count(1)

        def echo(_: str) -> None:
            if next(numbers) == lines:
                raise KeyboardInterrupt

        return echo

    bucket = f"{checkout.project}-carrel"
    for lines in count(1):
        cloud = replace(checkout.make_cloud("READWISE_TOKEN"), echo=stop_after(lines))
        try:
            deploy(cloud)
            break
        except KeyboardInterrupt:
            assert FILE_NAME not in storage.list_names(bucket)
    assert lines > 4
    names = storage.list_names(bucket)
    generations = {name: storage.blobs[bucket, name].generation for name in names}
    uploads = storage.calls["upload"]
    deploy(checkout.make_cloud("READWISE_TOKEN"))
    assert storage.calls["upload"] == uploads + 1  # the deployment, and no bundle
    del generations[FILE_NAME]
    assert {name: storage.blobs[bucket, name].generation for name in generations} == generations
    assert {len(values) for values in google.secrets.values()} == {1}
    assert len(checkout.read_keys()) == 1


def test_a_failed_release_says_how_to_go_back(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    checkout.passes = False
    with pytest.raises(click.ClickException) as failure:
        deploy(checkout.make_cloud())
    assert "The smoke test failed: what it answers" in str(failure.value)
    assert "To go back, check out the former release first" in str(failure.value)
    assert len([line for line in checkout.lines if "not yet" in line]) == SMOKE_ATTEMPTS - 1
    assert FILE_NAME not in storage.list_names(f"{checkout.project}-carrel")


def test_a_build_deploys_what_is_staged_and_creates_no_data(
    checkout: Checkout, storage: FakeCloudStorage
) -> None:
    deploy(checkout.make_cloud())
    checkout.code["gateway"] = "better"
    cloud = checkout.make_cloud()
    cloud.stage(cloud.dist)
    checkout.code["gateway"] = "not staged"
    deploy(cloud, staged=True)
    assert checkout.read_calls()[5:] == ["init", "apply", "output"]
    names = storage.list_names(f"{checkout.project}-carrel")
    assert [name for name in names if "gateway" in name] == [
        "bundles/gateway-better.zip",
        "bundles/gateway-good.zip",
    ]


def test_a_build_without_a_manifest_says_how_to_stage(checkout: Checkout) -> None:
    with pytest.raises(click.ClickException, match=r"Run `\.venv/bin/carrel stage`"):
        deploy(checkout.make_cloud(), staged=True)


def test_a_revoked_smoke_key_is_replaced(checkout: Checkout, google: FakeSecretManager) -> None:
    deploy(checkout.make_cloud())
    checkout.revoke(checkout.read_keys()[0])
    deploy(checkout.make_cloud())
    assert len(google.secrets[SECRET_NAME]) == 2


def test_no_secret_is_printed_passed_or_left_on_disk(
    checkout: Checkout, google: FakeSecretManager, capfd: pytest.CaptureFixture[str]
) -> None:
    deploy(checkout.make_cloud("READWISE_TOKEN"))
    assert google.secrets["READWISE_TOKEN"] == [SECRET_VALUE]
    paths = [path for path in checkout.folder.rglob("*") if path.is_file()]
    assert {"calls", "environment"} <= {path.name for path in paths}
    files = [path.read_text("utf-8", "replace") for path in paths]
    outputs = [*checkout.lines, *files, *google.addresses, *capfd.readouterr()]
    for [value] in google.secrets.values():
        assert not any(value in text for text in outputs)


def test_a_secret_that_has_a_value_is_not_asked_for(
    checkout: Checkout, google: FakeSecretManager
) -> None:
    google.secrets["READWISE_TOKEN"] = ["known"]
    deploy(checkout.make_cloud("READWISE_TOKEN"))
    assert google.secrets["READWISE_TOKEN"] == ["known"]


@pytest.mark.parametrize("answer", ["\n", "a\x07b"])
def test_a_secret_without_an_answer_stops_before_functions(checkout: Checkout, answer: str) -> None:
    with pytest.raises(click.ClickException, match="gcloud secrets versions add READWISE_TOKEN"):
        deploy(checkout.make_cloud("READWISE_TOKEN", answer=answer))
    assert checkout.read_calls() == ["init", "show", f"apply {TARGETS}"]


def test_a_database_is_never_moved(checkout: Checkout) -> None:
    checkout.write_state("google_firestore_database.access", location_id="nam5")
    with pytest.raises(click.ClickException, match='Write "firestore_location": "nam5"'):
        deploy(checkout.make_cloud())
    assert checkout.read_calls() == ["init", "show"]


def test_destroy_keeps_data_unless_it_is_to_be_deleted(checkout: Checkout) -> None:
    cloud = checkout.make_cloud()
    kept = (*DATA, TEXTS, "google_project_service.carrel", "data.google_project.carrel")
    checkout.write_state(*kept)
    destroy(cloud, data=False)
    checkout.write_state(*kept, "google_cloudfunctions2_function.carrel")
    destroy(cloud, data=False)
    destroy(cloud, data=True)
    unprotect = " ".join(f"-target={address}" for address in (*DATA, TEXTS))
    assert checkout.read_calls() == [
        "init",
        "show",
        *("init", "show", "destroy -target=google_cloudfunctions2_function.carrel"),
        *("init", f"apply -var=protect_data=false {unprotect}", "destroy -var=protect_data=false"),
    ]
    assert cloud.terraform.manifest.exists()  # Terraform cannot run without one


@pytest.mark.parametrize("address", [*DATA, TEXTS, *GRANTS])
def test_the_first_resources_are_in_the_configuration(address: str) -> None:
    kind, name = address.split(".")
    text = "\n".join(path.read_text("utf-8") for path in FOLDER.glob("*.tf"))
    assert f'resource "{kind}" "{name}"' in text


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
