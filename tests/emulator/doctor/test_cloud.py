"""`carrel --cloud doctor` checks a deployment, and says what is wrong and what to do next.

Each test breaks one part of a healthy deployment, made of fakes of Google Cloud and of a gateway.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest

from infra.cli.doctor import report
from infra.cloud.errors import CommandFailed
from infra.doctor.check import CheckResult, CheckStatus, run_checks
from infra.doctor.cloud import CHECKS
from shared.ai.local_embedding import LocalEmbedder
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.connection import Connection
from shared.firestore.database import Database
from shared.firestore.runs import RunState
from shared.index.embedding_space import EmbeddingSpace
from tests.support.fakes.embedder import WordEmbedder
from tests.support.healthy_deployment import DIMENSION, find_check

if TYPE_CHECKING:
    from infra.cloud.google_api import GoogleApi
    from infra.doctor.live_deployment import LiveDeployment
    from shared.ai.embedding import Embedder
    from tests.emulator.doctor.conftest import RecordRun
    from tests.support.healthy_deployment import FakeDeployment


class Failure(NamedTuple):
    """What a failed check says."""

    message: str
    next_command: str


def run_check(name: str, live: LiveDeployment) -> CheckResult:
    """Run a check of a deployment, and return its result."""
    [(_, result)] = run_checks([find_check(name)], live)
    return result


def expect_failure(name: str, fake: FakeDeployment) -> Failure:
    """Run a check that fails, and return what it says."""
    result = run_check(name, fake.live)
    assert result.status == CheckStatus.WRONG
    return Failure(result.message, result.next_command)


async def embed_with(fake: FakeDeployment, embedder: Embedder) -> None:
    """Record that texts are embedded with this model."""
    connection = Connection(fake.live.deployment.project, "(default)")
    try:
        await EmbeddingSpace(Database(connection, Meter())).claim(embedder)
    finally:
        await connection.aclose()


async def begin_reembedding(fake: FakeDeployment) -> None:
    """Begin to re-embed from the local model to another."""
    await embed_with(fake, LocalEmbedder())
    connection = Connection(fake.live.deployment.project, "(default)")
    try:
        space = EmbeddingSpace(Database(connection, Meter()))
        await space.start_migration(await space.load_state(), WordEmbedder(), utc_now())
    finally:
        await connection.aclose()


def test_a_healthy_deployment_passes_all_checks(
    fake: FakeDeployment, record_run: RecordRun, capsys: pytest.CaptureFixture[str]
) -> None:
    record_run(RunState.FINISHED)
    assert report(CHECKS, fake.live)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*(["ok"] * len(CHECKS)), "Everything"]


def test_missing_credentials_end_the_checks(
    fake: FakeDeployment, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_to_sign_in() -> GoogleApi:
        raise CommandFailed("This machine has no Google credentials. Next: gcloud auth login")

    assert not report(CHECKS, replace(fake.live, sign_in=fail_to_sign_in))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "wrong     credentials         This machine has no Google credentials."
    assert lines[1].strip() == "next: gcloud auth login"
    assert len(lines) == 3


def test_a_missing_project_ends_the_checks(fake: FakeDeployment) -> None:
    fake.google.projects.clear()
    results = list(run_checks(CHECKS, fake.live))
    assert [check.name for check, _ in results] == ["credentials", "project"]


def test_a_project_without_billing_fails(fake: FakeDeployment) -> None:
    fake.project.has_billing = False
    project = fake.live.deployment.project
    message, command = expect_failure("billing", fake)
    assert message == "no open billing account is linked"
    assert command == f"gcloud billing projects link {project} --billing-account ACCOUNT_ID"


def test_a_disabled_api_names_the_command_to_enable_it(fake: FakeDeployment) -> None:
    fake.project.services.remove("run.googleapis.com")
    message, command = expect_failure("Google's APIs", fake)
    assert message == "disabled: run.googleapis.com"
    assert command.startswith("gcloud services enable run.googleapis.com --project")


def test_a_missing_database_fails(fake: FakeDeployment) -> None:
    del fake.project.databases["access"]
    assert expect_failure("databases", fake) == Failure(
        "access is missing", ".venv/bin/carrel deploy"
    )


def test_a_database_of_another_type_fails(fake: FakeDeployment) -> None:
    fake.project.databases["(default)"]["type"] = "DATASTORE_MODE"
    message, _ = expect_failure("databases", fake)
    assert message == "(default) is not in native mode, which Carrel needs"


def test_an_index_that_is_not_ready_fails(fake: FakeDeployment) -> None:
    fake.project.indexes["(default)"][0]["state"] = "CREATING"
    message, command = expect_failure("indexes", fake)
    assert message == "not ready: chunks (COLLECTION): embedding VECTOR"
    assert command == "wait some minutes; if it persists, .venv/bin/carrel deploy"


def test_vector_indexes_of_another_dimension_fail(fake: FakeDeployment) -> None:
    message, _ = expect_failure("indexes", fake.copy_with(embedding_dimension=768))
    assert "embedding VECTOR" in message


def test_inactive_expiry_fields_fail_in_both_databases(fake: FakeDeployment) -> None:
    expiring = fake.project.expiring
    expiring["(default)"] = [
        field for field in expiring["(default)"] if "/runs/" not in field["name"]
    ]
    expiring["access"][0]["ttlConfig"]["state"] = "CREATING"
    message, command = expect_failure("expiry", fake)
    expected = "runs.expires_at in (default), calls.expires_at in access"
    assert message == f"not active: {expected}"
    assert command == "wait some minutes; if it persists, .venv/bin/carrel deploy"


def test_a_secret_without_a_value_fails(fake: FakeDeployment) -> None:
    fake.project.secrets["READWISE_TOKEN"].clear()
    assert expect_failure("secrets", fake) == Failure(
        "without a value: READWISE_TOKEN", ".venv/bin/carrel deploy"
    )


def test_a_missing_secret_fails(fake: FakeDeployment) -> None:
    del fake.project.secrets["ACCESS_SECRETS"]
    assert expect_failure("secrets", fake) == Failure(
        "without a value: ACCESS_SECRETS", ".venv/bin/carrel deploy"
    )


def test_a_deployment_without_a_release_fails(fake: FakeDeployment) -> None:
    fake.delete_release()
    expected = Failure("No release has passed its smoke test yet.", ".venv/bin/carrel deploy")
    assert expect_failure("functions", fake) == expected


def test_missing_inactive_and_outdated_functions_fail(fake: FakeDeployment) -> None:
    functions = fake.project.functions
    functions["gateway"]["state"] = "FAILED"
    built = functions["gateway"]["buildConfig"]["environmentVariables"]
    built["CARREL_BUNDLE"] = "bundles/old.zip"
    functions["stray"] = functions.pop("ingest-materials")
    functions["stray"]["name"] = "projects/p/locations/europe-west1/functions/carrel-stray"
    message, command = expect_failure("functions", fake)
    assert message == (
        "missing: ingest-materials; not active: gateway; of another release: gateway;"
        " not in this release: stray"
    )
    assert command == ".venv/bin/carrel deploy"


def test_functions_of_other_programs_are_ignored(fake: FakeDeployment) -> None:
    name = "projects/p/locations/europe-west1/functions/other"
    fake.project.functions["other"] = {"name": name, "state": "FAILED"}
    assert run_check("functions", fake.live).status == CheckStatus.OK


def test_a_gateway_without_public_access_fails(fake: FakeDeployment) -> None:
    fake.project.invokers["carrel-gateway"] = ["user:ada@example.com"]
    message, command = expect_failure("invokers", fake)
    reason = "a policy of your organization may forbid allUsers"
    assert message == f"clients cannot reach the gateway: {reason}"
    assert "allUsers in docs/operations.md" in command


def test_a_gateway_without_an_iam_check_passes(fake: FakeDeployment) -> None:
    fake.project.invokers.clear()
    fake.project.open_services.add("carrel-gateway")
    assert run_check("invokers", fake.live).status == CheckStatus.OK


def test_the_answer_of_an_unhealthy_gateway_is_quoted(fake: FakeDeployment) -> None:
    fake.gateway.health = 503
    message, command = expect_failure("gateway", fake)
    assert f'{fake.gateway.url} is not healthy (503): {{"status"' in message
    assert command.startswith("gcloud functions logs read carrel-gateway --gen2 --project")


def test_a_gateway_that_does_not_answer_fails(fake: FakeDeployment) -> None:
    unreachable = replace(fake.live, address="http://127.0.0.1:1")
    result = run_check("gateway", unreachable)
    assert result.status == CheckStatus.WRONG
    assert result.next_command == ".venv/bin/carrel deploy"


def test_a_gateway_with_another_public_url_fails(fake: FakeDeployment) -> None:
    fake.gateway.resource = "https://elsewhere.example.com/mcp"
    message, command = expect_failure("public URL", fake)
    assert "the gateway publishes https://elsewhere.example.com/mcp" in message
    assert command.startswith("set public_url in deployment.tfvars.json")


def test_a_gateway_without_metadata_fails_with_its_status(fake: FakeDeployment) -> None:
    fake.gateway.metadata_status = 404
    message, command = expect_failure("public URL", fake)
    assert message.endswith("responds with status 404 instead of 200")
    assert command.startswith("gcloud functions logs read")


@pytest.mark.parametrize("metadata", [b"<p>Parked</p>", b"[]", b"{}"])
def test_invalid_metadata_of_a_gateway_fail(fake: FakeDeployment, metadata: bytes) -> None:
    fake.gateway.metadata = metadata
    message, command = expect_failure("public URL", fake)
    assert message.endswith(f"responds without the metadata of a gateway: {metadata.decode()}")
    assert command.startswith("gcloud functions logs read")


def test_a_public_gateway_that_answers_with_an_error_fails(fake: FakeDeployment) -> None:
    fake.gateway.refusal = 500
    public = Settings(google_cloud_project="p", public_access=True)
    result = run_check("access control", replace(fake.live, settings=public))
    message = "a call without a credential gets status 500 instead of 200 or 401"
    assert result.status == CheckStatus.WRONG
    assert result.message == message


def test_a_gateway_without_access_control_fails_unless_public(fake: FakeDeployment) -> None:
    fake.gateway.refusal = 200
    message, _ = expect_failure("access control", fake)
    assert message == "a call without a credential gets status 200 instead of 401"
    public = Settings(google_cloud_project="p", public_access=True)
    result = run_check("access control", replace(fake.live, settings=public))
    assert result.status == CheckStatus.OK


def test_missing_schedules_fail(fake: FakeDeployment) -> None:
    fake.project.jobs.clear()
    message, command = expect_failure("schedules", fake)
    assert message == "missing: carrel-ingest-materials"
    assert command == ".venv/bin/carrel --cloud jobs list"


def test_paused_and_failed_schedules_fail(fake: FakeDeployment) -> None:
    fake.project.jobs["ingest-materials"] |= {"state": "PAUSED", "status": {"code": 13}}
    message, _ = expect_failure("schedules", fake)
    name = "carrel-ingest-materials"
    assert message == f"not enabled: {name}; last run failed: {name}"


def test_an_overdue_job_names_the_command_to_run_it(fake: FakeDeployment) -> None:
    message, command = expect_failure("job runs", fake)
    assert message == "no run in the last 30 days: ingest_materials"
    options = f"--project {fake.live.deployment.project} --location europe-west1"
    assert command == f"gcloud scheduler jobs run carrel-ingest-materials {options}"


def test_a_new_job_waits_for_its_first_scheduled_run(fake: FakeDeployment) -> None:
    schedule = fake.project.jobs["ingest-materials"]
    del schedule["lastAttemptTime"]
    schedule["scheduleTime"] = (utc_now() + timedelta(minutes=5)).isoformat()
    result = run_check("job runs", fake.live)
    assert result.status == CheckStatus.OPTIONAL
    assert result.message == "waiting for their first scheduled run: ingest_materials"


def test_a_new_job_that_missed_its_first_run_fails(fake: FakeDeployment) -> None:
    del fake.project.jobs["ingest-materials"]["lastAttemptTime"]
    message, _ = expect_failure("job runs", fake)
    assert message == "no run in the last 30 days: ingest_materials"


def test_each_failing_job_has_a_command_of_its_own(
    fake: FakeDeployment, record_run: RecordRun, capsys: pytest.CaptureFixture[str]
) -> None:
    record_run(RunState.STOPPED)
    fake.schedule("embed")
    fake.schedule("index")
    report([find_check("job runs")], fake.live)
    commands = [line.split("next: ")[1] for line in capsys.readouterr().out.splitlines()[1:4]]
    options = f"--project {fake.live.deployment.project} --location europe-west1"
    assert commands == [
        ".venv/bin/carrel --cloud jobs show ingest_materials",
        f"gcloud scheduler jobs run carrel-embed {options}",
        f"gcloud scheduler jobs run carrel-index {options}",
    ]


def test_a_job_whose_last_run_failed_fails(fake: FakeDeployment, record_run: RecordRun) -> None:
    record_run(RunState.STOPPED)
    expected = Failure(
        "last run failed: ingest_materials", ".venv/bin/carrel --cloud jobs show ingest_materials"
    )
    assert expect_failure("job runs", fake) == expected


def test_an_empty_base_accepts_any_model(fake: FakeDeployment) -> None:
    result = run_check("embedding model", fake.live)
    assert result.status == CheckStatus.OK
    assert result.message == "nothing is embedded yet"


def test_a_base_with_the_configured_model_passes(fake: FakeDeployment) -> None:
    asyncio.run(embed_with(fake, LocalEmbedder()))
    assert run_check("embedding model", fake.live).status == CheckStatus.OK


def test_a_base_with_another_model_fails(fake: FakeDeployment) -> None:
    asyncio.run(embed_with(fake, WordEmbedder()))
    message, command = expect_failure("embedding model", fake)
    assert message.startswith("texts are embedded with ('words', 64), but (")
    assert command == ".venv/bin/carrel --cloud jobs run reembed"


def test_vectors_that_do_not_fit_the_indexes_fail(fake: FakeDeployment) -> None:
    asyncio.run(embed_with(fake, LocalEmbedder()))
    message, command = expect_failure("embedding model", fake.copy_with(embedding_dimension=768))
    assert message == "vectors have 384 dimensions, but the indexes have 768"
    assert command.startswith("correct embedding_dimension in deployment.tfvars.json")


def test_a_base_that_is_being_reembedded_fails(fake: FakeDeployment) -> None:
    asyncio.run(begin_reembedding(fake))
    message, command = expect_failure("embedding model", fake)
    assert message == "re-embedding to words is in progress"
    assert command == ".venv/bin/carrel --cloud jobs show reembed"


def test_a_working_embedder_reports_its_dimensions(fake: FakeDeployment) -> None:
    result = run_check("embedding", fake.live)
    assert result.message.endswith(f"returns vectors of {DIMENSION} dimensions")


def test_an_embedder_without_its_key_is_skipped(fake: FakeDeployment) -> None:
    settings = Settings(google_cloud_project="p", embedding_provider="openai")
    result = run_check("embedding", replace(fake.live, settings=settings))
    assert result.status == CheckStatus.OPTIONAL
