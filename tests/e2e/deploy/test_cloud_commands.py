"""Commands with `--cloud` take settings and secrets from the deployment of this checkout."""

import json
import os
from pathlib import Path

import click
import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.build.discovery import ROOT
from infra.cloud.deployment import Deployment
from infra.cloud.environment import set_access_secrets, set_job_secrets, use_deployment
from infra.cloud.secret_values import SecretValues
from shared.core.settings import Settings
from tests.support.fakes.secret_manager import FakeSecretManager

VARIABLES = (
    "ACCESS_SECRETS", "ALLOWED_EMAILS", "BILLING_URL", "BULK_BUCKET", "EMBEDDING_DIMENSION",
    "EMBEDDING_PROVIDER", "FIRESTORE_EMULATOR_HOST", "GENERATION_PROVIDER", "GOOGLE_CLIENT_ID",
    "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "INGEST_BUCKET", "OPENAI_API_KEY",
    "READWISE_TOKEN", "TIME_ZONE",
)  # fmt: skip
"""The environment variables that the commands of these tests read or set."""


@pytest.fixture(autouse=True)
def unset_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables before the test, and restore them after it."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def deployment_file(tmp_path: Path, project: str) -> Path:
    """The file of a deployment that embeds with Vertex AI."""
    path = tmp_path / "deployment.tfvars.json"
    settings = {"EMBEDDING_PROVIDER": "vertex"}
    path.write_text(
        Deployment(project=project, settings=settings, embedding_dimension=1024).model_dump_json()
    )
    return path


def test_the_deployment_sets_the_environment(deployment_file: Path, project: str) -> None:
    os.environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:1"
    use_deployment(embedding=True, path=deployment_file)
    assert {name: os.environ.get(name) for name in VARIABLES} == {
        **dict.fromkeys(VARIABLES),
        "GOOGLE_CLOUD_PROJECT": project,
        "GOOGLE_CLOUD_QUOTA_PROJECT": project,
        "EMBEDDING_PROVIDER": "vertex",
        "EMBEDDING_DIMENSION": "1024",
        "INGEST_BUCKET": f"gs://{project}-carrel-texts/texts",
        "BULK_BUCKET": f"gs://{project}-carrel-texts/bulk",
    }
    terraform = (ROOT / "infra" / "terraform" / "storage.tf").read_text("utf-8")
    assert '"${var.project}-carrel-texts"' in terraform


def test_the_environment_beats_the_deployment(deployment_file: Path) -> None:
    os.environ["EMBEDDING_PROVIDER"] = "openai"
    use_deployment(embedding=True, path=deployment_file)
    assert os.environ["EMBEDDING_PROVIDER"] == "openai"


def test_another_project_ignores_the_deployment(deployment_file: Path) -> None:
    os.environ["GOOGLE_CLOUD_PROJECT"] = "another-one"
    with pytest.raises(click.ClickException, match="set EMBEDDING_PROVIDER in the environment"):
        use_deployment(embedding=True, path=deployment_file)
    use_deployment(embedding=False, path=deployment_file)
    assert os.environ["GOOGLE_CLOUD_PROJECT"] == "another-one"


@pytest.mark.parametrize(
    ("settings", "secrets"),
    [
        ({"GOOGLE_CLIENT_ID": "1-a", "ALLOWED_EMAILS": '["ada@x.org"]'}, ["GOOGLE_CLIENT_SECRET"]),
        ({"GENERATION_PROVIDER": "vertex", "TIME_ZONE": "Europe/Berlin"}, ["READWISE_TOKEN"]),
        ({"EMBEDDING_PROVIDER": "openai"}, ["OPENAI_API_KEY"]),
        ({"BILLING_URL": "https://bills.example.com"}, ["BILLING_TOKEN"]),
    ],
)
def test_commands_work_without_the_functions_secrets(
    settings: dict[str, str], secrets: list[str], tmp_path: Path, project: str
) -> None:
    path = tmp_path / "deployment.tfvars.json"
    settings = {"EMBEDDING_PROVIDER": "vertex", **settings}
    fields = {"project": project, "settings": settings, "secrets": secrets}
    path.write_text(Deployment.model_validate_json(json.dumps(fields)).model_dump_json())
    use_deployment(embedding=True, path=path)
    assert Settings().google_cloud_project == project


def test_ingest_can_read_texts_from_another_bucket(tmp_path: Path, project: str) -> None:
    settings = {"EMBEDDING_PROVIDER": "vertex", "INGEST_BUCKET": "gs://elsewhere/notes"}
    path = tmp_path / "deployment.tfvars.json"
    path.write_text(Deployment(project=project, settings=settings).model_dump_json())
    use_deployment(embedding=True, path=path)
    assert Settings().ingest_bucket == "gs://elsewhere/notes"


def test_without_a_deployment_the_environment_is_required(tmp_path: Path) -> None:
    with pytest.raises(
        click.ClickException, match="set GOOGLE_CLOUD_PROJECT and EMBEDDING_PROVIDER"
    ) as failure:
        use_deployment(embedding=True, path=tmp_path / "none.json")
    assert "which has deployment.tfvars.json" in str(failure.value)


@pytest.fixture
def values(project: str, google: FakeSecretManager) -> SecretValues:
    """The secrets of the project in Secret Manager."""
    session = AuthorizedSession(AnonymousCredentials())
    return SecretValues(project, session=session, address=google.address)


def test_jobs_get_their_declared_secrets_in_use(
    deployment_file: Path, values: SecretValues
) -> None:
    values.add("READWISE_TOKEN", "of the owner")
    values.add("ACCESS_SECRETS", "of the gateway")
    use_deployment(embedding=True, path=deployment_file)
    set_job_secrets(["ingest", "embed"], lambda _: values)
    assert os.environ["READWISE_TOKEN"] == "of the owner"
    assert "OPENAI_API_KEY" not in os.environ
    assert "ACCESS_SECRETS" not in os.environ


def test_a_secret_in_the_environment_is_not_looked_up(deployment_file: Path) -> None:
    def fail(_: str) -> SecretValues:
        raise AssertionError

    use_deployment(embedding=True, path=deployment_file)
    os.environ["READWISE_TOKEN"] = "from the environment"
    os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "of the collector"
    set_job_secrets(["ingest", "index"], fail)
    assert os.environ["READWISE_TOKEN"] == "from the environment"


def test_local_jobs_look_up_no_secret() -> None:
    os.environ["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:1"
    set_job_secrets(["ingest"])
    assert "READWISE_TOKEN" not in os.environ


def test_keys_are_signed_with_the_deployments_secret(
    deployment_file: Path, values: SecretValues
) -> None:
    values.add("ACCESS_SECRETS", '["what the gateway has, and nobody else in the world"]')
    use_deployment(embedding=False, path=deployment_file)
    set_access_secrets(lambda _: values)
    assert "what the gateway has" in os.environ["ACCESS_SECRETS"]
