"""What the doctor says of a deployment: that it is well, or what is not and what to do next."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from infra.cli.doctor import tell
from infra.cloud.failures import NotDone
from infra.doctor.check import Finding, State, findings
from infra.doctor.cloud import CHECKS
from shared.ai.local_embedding import LocalEmbedder
from shared.core.dates import utc_now
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.firestore.database import Connection, Database
from shared.firestore.runs import RunState
from shared.index.embedding_space import EmbeddingSpace
from tests.support.fakes.embedder import WordEmbedder
from tests.support.healthy_deployment import DIMENSION, check

if TYPE_CHECKING:
    import pytest

    from infra.cloud.google_api import GoogleApi
    from infra.doctor.deployed import Deployed
    from shared.ai.embedding import Embedder
    from tests.emulator.doctor.conftest import Record
    from tests.support.healthy_deployment import Ward


def finding(name: str, deployed: Deployed) -> Finding:
    [(_, found)] = findings([check(name)], deployed)
    return found


def ill(name: str, ward: Ward) -> tuple[str, str]:
    """What a check says is wrong, and what it has to be done next."""
    found = finding(name, ward.deployed)
    assert State.WRONG == found.state
    return found.said, found.next


async def claimed(ward: Ward, embedder: Embedder) -> None:
    """Have the base be embedded with this model."""
    connection = Connection(ward.deployed.deployment.project, "(default)")
    try:
        await EmbeddingSpace(Database(connection, Meter())).claim(embedder)
    finally:
        await connection.aclose()


async def moved(ward: Ward) -> None:
    """Have the base move from the local model to another."""
    await claimed(ward, LocalEmbedder())
    connection = Connection(ward.deployed.deployment.project, "(default)")
    try:
        space = EmbeddingSpace(Database(connection, Meter()))
        await space.announce(await space.standing(), WordEmbedder(), utc_now())
    finally:
        await connection.aclose()


def test_of_a_deployment_that_is_well_every_check_says_so(
    ward: Ward, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    record(RunState.FINISHED)
    assert tell(CHECKS, ward.deployed)
    lines = capsys.readouterr().out.splitlines()
    assert [*(["ok"] * len(CHECKS)), "All"] == [line.split()[0] for line in lines]


def test_without_credentials_nothing_else_is_looked_at(
    ward: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody() -> GoogleApi:
        raise NotDone("This machine has no Google credentials. Next: gcloud auth login")

    assert not tell(CHECKS, replace(ward.deployed, sign_in=nobody))
    lines = capsys.readouterr().out.splitlines()
    assert "wrong     credentials         This machine has no Google credentials." == lines[0]
    assert "next: gcloud auth login" == lines[1].strip()
    assert 3 == len(lines)


def test_a_project_that_is_not_there_ends_the_look(ward: Ward) -> None:
    ward.google.projects.clear()
    found = list(findings(CHECKS, ward.deployed))
    assert ["credentials", "project"] == [each.name for each, _ in found]


def test_a_project_that_nobody_pays_for_is_named(ward: Ward) -> None:
    ward.project.paid = False
    project = ward.deployed.deployment.project
    link = f"gcloud billing projects link {project} --billing-account ACCOUNT_ID"
    assert ("no open account pays", link) == ill("billing", ward)


def test_an_api_that_is_off_is_named_with_how_to_switch_it_on(ward: Ward) -> None:
    ward.project.services.remove("run.googleapis.com")
    said, then = ill("Google's APIs", ward)
    assert "off: run.googleapis.com" == said
    assert then.startswith("gcloud services enable run.googleapis.com --project")


def test_a_database_that_is_missing_is_named(ward: Ward) -> None:
    del ward.project.databases["access"]
    assert ("access is missing", "carrel deploy") == ill("databases", ward)


def test_a_database_of_another_type_is_named(ward: Ward) -> None:
    ward.project.databases["(default)"]["type"] = "DATASTORE_MODE"
    said, _ = ill("databases", ward)
    assert "(default) is of another type, which Carrel cannot use" == said


def test_an_index_that_is_still_being_made_is_named(ward: Ward) -> None:
    ward.project.indexes["(default)"][0]["state"] = "CREATING"
    said, then = ill("indexes", ward)
    assert "not ready: chunks (COLLECTION): embedding VECTOR" == said
    assert "wait some minutes, else carrel deploy" == then


def test_vector_indexes_of_another_length_are_not_the_ones(ward: Ward) -> None:
    said, _ = ill("indexes", ward.changed(embedding_dimension=768))
    assert "embedding VECTOR" in said


def test_fields_by_which_nothing_expires_yet_are_named_in_both_databases(ward: Ward) -> None:
    expiring = ward.project.expiring
    expiring["(default)"] = [e for e in expiring["(default)"] if "/runs/" not in e["name"]]
    expiring["access"][0]["ttlConfig"]["state"] = "CREATING"
    said, then = ill("what expires", ward)
    expected = "runs.expires_at in (default), calls.expires_at in access"
    assert f"nothing expires yet by {expected}" == said
    assert "wait some minutes, else carrel deploy" == then


def test_a_secret_without_a_value_is_named(ward: Ward) -> None:
    ward.project.secrets["READWISE_TOKEN"].clear()
    assert ("without a value: READWISE_TOKEN", "carrel deploy") == ill("secrets", ward)


def test_a_secret_that_is_not_there_is_named(ward: Ward) -> None:
    del ward.project.secrets["ACCESS_SECRETS"]
    assert ("without a value: ACCESS_SECRETS", "carrel deploy") == ill("secrets", ward)


def test_before_the_first_release_there_are_no_functions_to_compare(ward: Ward) -> None:
    ward.forget()
    expected = ("Nothing has passed its smoke test yet.", "carrel deploy")
    assert expected == ill("functions", ward)


def test_functions_that_are_missing_ill_or_of_another_release_are_named(ward: Ward) -> None:
    functions = ward.project.functions
    functions["gateway"]["state"] = "FAILED"
    built = functions["gateway"]["buildConfig"]["environmentVariables"]
    built["CARREL_BUNDLE"] = "bundles/old.zip"
    functions["stray"] = functions.pop("ingest-materials")
    functions["stray"]["name"] = "projects/p/locations/europe-west1/functions/carrel-stray"
    said, then = ill("functions", ward)
    assert (
        "missing: ingest-materials; not active: gateway; of another release: gateway;"
        " not of this release: stray"
    ) == said
    assert "carrel deploy" == then


def test_somebody_elses_functions_are_none_of_ours(ward: Ward) -> None:
    name = "projects/p/locations/europe-west1/functions/other"
    ward.project.functions["other"] = {"name": name, "state": "FAILED"}
    assert State.OK == finding("functions", ward.deployed).state


def test_a_gateway_that_not_everybody_may_call_is_named(ward: Ward) -> None:
    ward.project.invokers["carrel-gateway"] = ["user:ada@example.com"]
    said, then = ill("who may call", ward)
    assert "not everybody reaches the gateway: a policy of your organization may forbid it" == said
    assert "where allUsers is forbidden" in then


def test_a_gateway_that_lets_everybody_through_itself_is_well(ward: Ward) -> None:
    ward.project.invokers.clear()
    ward.project.open_services.add("carrel-gateway")
    assert State.OK == finding("who may call", ward.deployed).state


def test_a_gateway_whose_parts_are_ill_is_quoted(ward: Ward) -> None:
    ward.gateway.health = 503
    said, then = ill("gateway", ward)
    assert f'{ward.gateway.url} is ill (503): {{"status"' in said
    assert then.startswith("gcloud functions logs read carrel-gateway --gen2 --project")


def test_a_gateway_that_does_not_answer_is_named(ward: Ward) -> None:
    nowhere = replace(ward.deployed, address="http://127.0.0.1:1")
    found = finding("gateway", nowhere)
    assert (State.WRONG, "carrel deploy") == (found.state, found.next)


def test_a_gateway_that_calls_itself_something_else_is_named(ward: Ward) -> None:
    ward.gateway.resource = "https://elsewhere.example.com/mcp"
    said, then = ill("its public address", ward)
    assert "it says that it is https://elsewhere.example.com/mcp" in said
    assert then.startswith("set public_url in deployment.tfvars.json")


def test_a_gateway_that_lets_anybody_in_is_named_unless_that_was_meant(ward: Ward) -> None:
    ward.gateway.refusal = 200
    said, _ = ill("its door", ward)
    assert "without a credential it answers 200, and not 401" == said
    meant = Settings(google_cloud_project="p", public_access=True)
    assert State.OK == finding("its door", replace(ward.deployed, settings=meant)).state


def test_schedules_that_are_missing_are_named(ward: Ward) -> None:
    ward.project.jobs.clear()
    said, then = ill("schedules", ward)
    assert ("missing: carrel-ingest-materials", "carrel --cloud jobs list") == (said, then)


def test_schedules_that_are_paused_or_failed_last_are_named(ward: Ward) -> None:
    ward.project.jobs["ingest-materials"] |= {"state": "PAUSED", "status": {"code": 13}}
    said, _ = ill("schedules", ward)
    assert "not enabled: carrel-ingest-materials; failed last: carrel-ingest-materials" == said


def test_a_job_that_never_ran_though_it_was_due_is_named_with_how_to_run_it(ward: Ward) -> None:
    said, then = ill("runs of jobs", ward)
    assert "never ran, or not for 30 days: ingest_materials" == said
    place = f"--project {ward.deployed.deployment.project} --location europe-west1"
    assert f"gcloud scheduler jobs run carrel-ingest-materials {place}" == then


def test_right_after_a_deployment_jobs_wait_for_their_schedule(ward: Ward) -> None:
    schedule = ward.project.jobs["ingest-materials"]
    del schedule["lastAttemptTime"]
    schedule["scheduleTime"] = (utc_now() + timedelta(minutes=5)).isoformat()
    found = finding("runs of jobs", ward.deployed)
    expected = (State.OPTIONAL, "first run by its schedule: ingest_materials")
    assert expected == (found.state, found.said)


def test_a_job_that_its_schedule_passed_over_is_named(ward: Ward) -> None:
    del ward.project.jobs["ingest-materials"]["lastAttemptTime"]
    said, _ = ill("runs of jobs", ward)
    assert "never ran, or not for 30 days: ingest_materials" == said


def test_of_several_jobs_every_command_to_run_next_is_told(
    ward: Ward, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    record(RunState.STOPPED)
    ward.schedule("embed")
    ward.schedule("index")
    tell([check("runs of jobs")], ward.deployed)
    commands = [line.split("next: ")[1] for line in capsys.readouterr().out.splitlines()[1:4]]
    place = f"--project {ward.deployed.deployment.project} --location europe-west1"
    assert [
        "carrel --cloud jobs show ingest_materials",
        f"gcloud scheduler jobs run carrel-embed {place}",
        f"gcloud scheduler jobs run carrel-index {place}",
    ] == commands


def test_a_job_whose_last_run_did_not_end_well_is_named(ward: Ward, record: Record) -> None:
    record(RunState.STOPPED)
    expected = ("did not end well: ingest_materials", "carrel --cloud jobs show ingest_materials")
    assert expected == ill("runs of jobs", ward)


def test_before_anything_is_embedded_any_model_will_do(ward: Ward) -> None:
    found = finding("embedding model", ward.deployed)
    assert (State.OK, "nothing is embedded yet") == (found.state, found.said)


def test_a_base_that_is_embedded_as_the_settings_say_is_well(ward: Ward) -> None:
    asyncio.run(claimed(ward, LocalEmbedder()))
    assert State.OK == finding("embedding model", ward.deployed).state


def test_a_base_that_is_embedded_with_another_model_is_named(ward: Ward) -> None:
    asyncio.run(claimed(ward, WordEmbedder()))
    said, then = ill("embedding model", ward)
    assert said.startswith("the base is embedded with ('words', 64), the settings say")
    assert "carrel --cloud jobs run reembed" == then


def test_vectors_of_another_length_than_the_indexes_are_named(ward: Ward) -> None:
    asyncio.run(claimed(ward, LocalEmbedder()))
    said, then = ill("embedding model", ward.changed(embedding_dimension=768))
    assert "vectors have 384 numbers, and the indexes are for 768" == said
    assert then.startswith("mend embedding_dimension in deployment.tfvars.json")


def test_a_base_that_moves_to_another_model_is_named(ward: Ward) -> None:
    asyncio.run(moved(ward))
    said, then = ill("embedding model", ward)
    assert ("the base is moving to words", "carrel --cloud jobs show reembed") == (said, then)


def test_an_embedder_that_answers_says_how_long_its_vectors_are(ward: Ward) -> None:
    assert finding("embedding", ward.deployed).said.endswith(f"gives {DIMENSION} numbers")


def test_an_embedder_whose_key_is_not_here_is_not_tried(ward: Ward) -> None:
    settings = Settings(google_cloud_project="p", embedding_provider="openai")
    found = finding("embedding", replace(ward.deployed, settings=settings))
    assert State.OPTIONAL == found.state
