"""Commands with --cloud work on what this checkout has deployed, without being told more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.cloud.deployment import Deployment, write
from infra.cloud.failures import NotDone
from infra.cloud.google_api import GoogleApi
from infra.cloud.place import share_secret, work_in_the_cloud
from infra.cloud.secret_values import SecretValues

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.google_cloud import FakeGoogleCloud

TOUCHED = (
    "ACCESS_SECRETS", "EMBEDDING_PROVIDER", "FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_QUOTA_PROJECT", "OPENAI_DIMENSION", "VERTEX_DIMENSION",
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


def test_without_a_deployment_somebody_must_say_where(tmp_path: Path) -> None:
    with pytest.raises(NotDone, match="set GOOGLE_CLOUD_PROJECT and EMBEDDING_PROVIDER"):
        work_in_the_cloud(embedding=True, path=tmp_path / "none.json")


def test_keys_are_made_with_the_deployments_own_secret(
    deployed: Path, project: str, google: FakeGoogleCloud
) -> None:
    session = AuthorizedSession(AnonymousCredentials())  # type: ignore[no-untyped-call]
    google.projects[project].services.add("secretmanager.googleapis.com")
    values = SecretValues(GoogleApi(session, google.address), project)
    values.add("ACCESS_SECRETS", '["what the gateway has, and nobody else in the world"]')
    work_in_the_cloud(embedding=False, path=deployed)
    share_secret(lambda asked: SecretValues(GoogleApi(session, google.address), asked))
    assert "what the gateway has" in os.environ["ACCESS_SECRETS"]
