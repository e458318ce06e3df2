"""Missing and invalid variables give errors that say what to set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.build.discovery import ROOT
from tests.support.fakes.terraform_provider_schema import SCHEMA
from tests.support.manifests import build_real_manifest
from tests.support.terraform_deployment import REGION, Deployment
from tests.support.terraform_state import State

pytestmark = pytest.mark.slow

EXAMPLE: dict[str, Any] = json.loads(
    (ROOT / "infra" / "terraform" / "example.tfvars.json").read_text("utf-8")
)


@pytest.fixture
def empty_deployment(initialized_deployment: Deployment, tmp_path: Path) -> Deployment:
    """A deployment without resources."""
    return initialized_deployment.copy_to(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("project", "Set project in deployment.tfvars.json"),
        ("region", "Set region in deployment.tfvars.json"),
        ("firestore_location", "Set firestore_location in deployment.tfvars.json"),
        ("manifest", "run `carrel stage`"),
    ],
)
def test_a_missing_variable_says_what_to_set(
    empty_deployment: Deployment, name: str, expected: str
) -> None:
    path = str(empty_deployment.folder / "manifest.json")
    variables = {key: value for key, value in (EXAMPLE | {"manifest": path}).items() if key != name}
    assert expected in empty_deployment.read_plan_error(build_real_manifest(), variables)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"project": "My Project"}, "Set project in deployment.tfvars.json"),
        ({"settings": {"OPENAI_API_KEY": "sk-1"}}, "Name OPENAI_API_KEY in secrets"),
        ({"settings": {"TOOL_URLS": "{}"}}, "Leave TOOL_URLS out of settings"),
        ({"settings": {"EMBEDDING_DIMENSION": "3"}}, "Leave EMBEDDING_DIMENSION out of settings"),
        ({"settings": {"ALLOWED_EMAIL": "[]"}}, "No function reads ALLOWED_EMAIL"),
        ({"settings": {}}, "Set EMBEDDING_PROVIDER in settings to vertex, or to openai"),
        ({"settings": {"EMBEDDING_PROVIDER": "local"}}, '{"EMBEDDING_PROVIDER": "vertex"}'),
        ({"min_instances": {"search_kb": 1}}, "There is no function search_kb for min_instances"),
        ({"max_instances": {"search_kb": 1}}, "There is no function search_kb for max_instances"),
        ({"min_instances": {"search-kb": 11}}, "no more than the function's max_instances"),
        ({"max_instances": {"search-kb": 0}}, "max_instances to whole numbers, 1 or more"),
        ({"secrets": ["OPENAI_KEY"]}, "No function takes OPENAI_KEY as a secret"),
        ({"billing_account": "mine"}, "gcloud billing accounts list"),
        ({"monthly_budget": 0}, "a whole number, 1 or more"),
        ({"embedding_dimension": 4096}, "at most 2048"),
        ({"public_url": "https://carrel.example.com/"}, "without a path"),
        ({"firestore_location": "Europe"}, "It cannot be changed later"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_invalid_value_says_what_to_set(
    empty_deployment: Deployment, changes: dict[str, Any], expected: str
) -> None:
    path = str(empty_deployment.folder / "manifest.json")
    assert expected in empty_deployment.read_plan_error(
        build_real_manifest(), EXAMPLE | {"manifest": path} | changes
    )


def test_the_example_can_be_deployed(empty_deployment: Deployment) -> None:
    empty_deployment.apply(build_real_manifest(), **EXAMPLE)
    state = State.group(build_real_manifest()["functions"], empty_deployment.read_resources())
    functions = state.get_functions()
    gateway = functions["gateway"]["service_config"]["environment_variables"]
    assert json.loads(gateway["ALLOWED_EMAILS"]) == ["you@example.com"]
    search = functions["search-kb"]["service_config"]["environment_variables"]
    assert search["EMBEDDING_PROVIDER"] == "vertex"
    assert search["VERTEX_LOCATION"] == REGION
    assert empty_deployment.read_outputs()["secrets"] == ["ACCESS_SECRETS"]
    kinds = {resource.kind for resource in empty_deployment.read_resources()}
    assert kinds & {"google_billing_budget", "google_monitoring_alert_policy"} == set()


def test_a_value_that_the_provider_rejects_is_reported(
    initialized_deployment: Deployment, tmp_path: Path
) -> None:
    deployment = initialized_deployment.copy_to(tmp_path)
    file = deployment.folder / "infra" / "terraform" / "databases.tf"
    file.write_text(file.read_text("utf-8").replace("FIRESTORE_NATIVE", "NATIVE"), "utf-8")
    process = deployment.run("validate", check=False)
    error = "type: expected one of ['FIRESTORE_NATIVE', 'DATASTORE_MODE'], got 'NATIVE'"
    assert error in process.stderr


def test_the_files_are_valid_for_the_real_providers_schema(
    initialized_deployment: Deployment,
) -> None:
    process = initialized_deployment.run("validate")
    assert process.stdout.startswith("Success! The configuration is valid.")


def test_the_schema_is_of_the_oldest_version_allowed() -> None:
    version = json.loads(SCHEMA.read_text("utf-8"))["version"]
    text = (ROOT / "infra" / "terraform" / "versions.tf").read_text("utf-8")
    assert f'version = ">= {version.removesuffix(".0")}, < 9"' in text
