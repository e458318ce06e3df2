"""Commands with --cloud work on what this checkout has deployed, without being told more."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.build.discovery import ROOT
from infra.cloud.deployment import Deployment, write
from infra.cloud.failures import NotDone
from infra.cloud.google_api import GoogleApi
from infra.cloud.place import share_secret, share_secrets_of_jobs, work_in_the_cloud
from infra.cloud.secret_values import SecretValues
from shared.core.settings import Settings
from tests.support.fake_deployment import said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fakes.google_cloud import FakeGoogleCloud

TOUCHED = (
    "ACCESS_SECRETS", "ALLOWED_EMAILS", "BILLING_URL", "BULK_BUCKET", "EMBEDDING_PROVIDER",
    "FIRESTORE_EMULATOR_HOST", "GENERATION_PROVIDER", "GOOGLE_CLIENT_ID", "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_QUOTA_PROJECT", "INGEST_BUCKET", "OPENAI_API_KEY", "OPENAI_DIMENSION",
    "READWISE_TOKEN", "TIME_ZONE", "VERTEX_DIMENSION",
)  # fmt: skip


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set, and what gets set is put back afterwards."""
    for name in TOUCHED:
        monkeypatch.setenv(name, "for now")
        monkeypatch.delenv(name)


@pytest.fixture
def deployed(tmp_path: Path, project: str) -> Path:
    path = tmp_path / "deployment.tfvars.json"
    settings = {"EMBEDDING_PROVIDER": "vertex"}
    write(Deployment(project=project, settings=settings, embedding_dimension=1024), path)
    return path


def test_the_deployment_says_where_and_how(deployed: Path, project: str) -> None:
    work_in_the_cloud(embedding=True, path=deployed)
    assert (project, "vertex", "1024") == (
        os.environ["GOOGLE_CLOUD_PROJECT"],
        os.environ["EMBEDDING_PROVIDER"],
        os.environ["VERTEX_DIMENSION"],
    )


def test_the_quota_is_the_deployments_own(deployed: Path, project: str) -> None:
    work_in_the_cloud(embedding=False, path=deployed)
    assert project == os.environ["GOOGLE_CLOUD_QUOTA_PROJECT"]


def test_the_emulator_is_left_out_of_it(deployed: Path) -> None:
    os.environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:1"
    work_in_the_cloud(embedding=False, path=deployed)
    assert "FIRESTORE_EMULATOR_HOST" not in os.environ


def test_the_environment_beats_the_deployment(deployed: Path) -> None:
    os.environ["EMBEDDING_PROVIDER"] = "openai"
    work_in_the_cloud(embedding=True, path=deployed)
    assert "openai" == os.environ["EMBEDDING_PROVIDER"]


def test_of_another_project_nothing_is_taken_over(deployed: Path) -> None:
    os.environ["GOOGLE_CLOUD_PROJECT"] = "another-one"
    with pytest.raises(NotDone, match="set EMBEDDING_PROVIDER in the environment"):
        work_in_the_cloud(embedding=True, path=deployed)
    work_in_the_cloud(embedding=False, path=deployed)
    assert "another-one" == os.environ["GOOGLE_CLOUD_PROJECT"]


@pytest.mark.parametrize(
    ("settings", "secrets"),
    [
        ({"GOOGLE_CLIENT_ID": "1-a", "ALLOWED_EMAILS": '["ada@x.org"]'}, ["GOOGLE_CLIENT_SECRET"]),
        ({"GENERATION_PROVIDER": "vertex", "TIME_ZONE": "Europe/Berlin"}, ["READWISE_TOKEN"]),
        ({"EMBEDDING_PROVIDER": "openai"}, ["OPENAI_API_KEY"]),
        ({"BILLING_URL": "https://bills.example.com"}, ["BILLING_TOKEN"]),
    ],
)
def test_commands_can_work_whatever_secrets_the_functions_have(
    settings: dict[str, str], secrets: list[str], tmp_path: Path, project: str
) -> None:
    path = tmp_path / "deployment.tfvars.json"
    settings = {"EMBEDDING_PROVIDER": "vertex", **settings}
    described = {"project": project, "settings": settings, "secrets": secrets}
    write(Deployment.model_validate_json(json.dumps(described)), path)
    work_in_the_cloud(embedding=True, path=path)
    assert project == Settings().google_cloud_project


def test_texts_are_where_terraform_keeps_them(deployed: Path, project: str) -> None:
    work_in_the_cloud(embedding=True, path=deployed)
    texts = f"gs://{project}-carrel-texts"
    found = Settings()
    assert (f"{texts}/texts", f"{texts}/bulk") == (found.ingest_bucket, found.bulk_bucket)
    terraform = (ROOT / "infra" / "terraform" / "storage.tf").read_text("utf-8")
    assert '"${var.project}-carrel-texts"' in terraform


def test_texts_are_where_the_settings_say(tmp_path: Path, project: str) -> None:
    settings = {"EMBEDDING_PROVIDER": "vertex", "INGEST_BUCKET": "gs://elsewhere/notes"}
    path = tmp_path / "deployment.tfvars.json"
    write(Deployment(project=project, settings=settings), path)
    work_in_the_cloud(embedding=True, path=path)
    assert "gs://elsewhere/notes" == Settings().ingest_bucket


def test_without_a_deployment_somebody_must_say_where(tmp_path: Path) -> None:
    with pytest.raises(NotDone, match="set GOOGLE_CLOUD_PROJECT and EMBEDDING_PROVIDER") as failure:
        work_in_the_cloud(embedding=True, path=tmp_path / "none.json")
    assert "`carrel deploy`" in said(failure)


@pytest.fixture
def values(project: str, google: FakeGoogleCloud) -> SecretValues:
    """Secret Manager's values of that project."""
    session = AuthorizedSession(AnonymousCredentials())  # type: ignore[no-untyped-call]
    google.projects[project].services.add("secretmanager.googleapis.com")
    return SecretValues(GoogleApi(session, google.address), project)


def test_jobs_have_the_secrets_that_they_declare_and_that_are_in_use(
    deployed: Path, values: SecretValues
) -> None:
    values.add("READWISE_TOKEN", "of the owner")
    values.add("ACCESS_SECRETS", "of the gateway")
    work_in_the_cloud(embedding=True, path=deployed)
    share_secrets_of_jobs(["ingest", "embed"], lambda _: values)
    assert "of the owner" == os.environ["READWISE_TOKEN"]
    assert "OPENAI_API_KEY" not in os.environ
    assert "ACCESS_SECRETS" not in os.environ


def test_a_secret_that_a_job_is_told_is_not_looked_up(deployed: Path) -> None:
    def nobody(_: str) -> SecretValues:
        raise AssertionError

    work_in_the_cloud(embedding=True, path=deployed)
    os.environ["READWISE_TOKEN"] = "told"
    share_secrets_of_jobs(["ingest", "index"], nobody)
    assert "told" == os.environ["READWISE_TOKEN"]


def test_on_a_laptop_no_secret_is_looked_up() -> None:
    os.environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:1"
    share_secrets_of_jobs(["ingest"])
    assert "READWISE_TOKEN" not in os.environ


def test_keys_are_made_with_the_deployments_own_secret(
    deployed: Path, values: SecretValues
) -> None:
    values.add("ACCESS_SECRETS", '["what the gateway has, and nobody else in the world"]')
    work_in_the_cloud(embedding=False, path=deployed)
    share_secret(lambda _: values)
    assert "what the gateway has" in os.environ["ACCESS_SECRETS"]
