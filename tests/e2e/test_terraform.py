"""Terraform accepts its configuration, whose own tests pass, and errors say what to set.

The tests of the configuration are in `infra/terraform/carrel.tftest.hcl`.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.build.discovery import ROOT
from infra.build.functions import functions
from tests.support.fakes.terraform_provider import TerraformProvider
from tests.support.fakes.terraform_provider_schema import SCHEMA

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is missing"),
]

FILES = ("firestore.indexes.json", "infra/build/*.json", "infra/terraform/*.*")
"""What Terraform reads."""
LOCAL_BACKEND = 'terraform {\n  backend "local" {}\n}\n'
"""The configuration that stores the state in a file instead of Cloud Storage."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the configuration, beside the manifest of all functions."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in (path for pattern in FILES for path in ROOT.glob(pattern)):
        (copy / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy / path.relative_to(ROOT))
    folder = copy / "infra" / "terraform"
    (folder / "backend_override.tf").write_text(LOCAL_BACKEND)
    entries = {
        each.key: each.build_manifest_entry(f"bundles/{each.key}-0123456789abcdef.zip")
        for each in functions()
    }
    (folder / "manifest.json").write_text(json.dumps({"functions": entries}))
    return folder


@pytest.fixture(scope="module")
def terraform(folder: Path) -> Iterator[Run]:
    """Runs Terraform in the copy, with the schema of the Google provider."""
    with TerraformProvider() as provider:
        environment = {
            **os.environ,
            **provider.environment,
            "TF_CLI_CONFIG_FILE": os.devnull,
            "CHECKPOINT_DISABLE": "1",
        }

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = ["terraform", f"-chdir={folder}", *arguments, "-no-color"]
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )

        assert run("init", "-input=false").returncode == 0
        yield run


def test_the_configurations_own_tests_pass(terraform: Run) -> None:
    process = terraform("test", "-var=manifest=manifest.json")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "3 passed, 0 failed" in process.stdout


def test_the_files_are_valid_for_the_real_providers_schema(terraform: Run, folder: Path) -> None:
    assert terraform("validate").stdout.startswith("Success! The configuration is valid.")
    file = folder / "databases.tf"
    text = file.read_text("utf-8")
    file.write_text(text.replace("FIRESTORE_NATIVE", "NATIVE"), "utf-8")
    error = "type: expected one of ['FIRESTORE_NATIVE', 'DATASTORE_MODE'], got 'NATIVE'"
    assert error in terraform("validate").stderr
    file.write_text(text, "utf-8")


def test_the_schema_is_of_the_oldest_version_allowed() -> None:
    version = json.loads(SCHEMA.read_text("utf-8"))["version"]
    text = (ROOT / "infra" / "terraform" / "versions.tf").read_text("utf-8")
    assert f'version = ">= {version.removesuffix(".0")}, < 9"' in text


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {},
            [
                "Set project in deployment.tfvars.json",
                "Set region in deployment.tfvars.json",
                "Set firestore_location in deployment.tfvars.json",
                "run `carrel stage`",
            ],
        ),
        (
            {
                "manifest": "manifest.json",
                "project": "My Project",
                "region": "europe",
                "firestore_location": "Europe",
                "settings": {
                    "OPENAI_API_KEY": "sk-1",
                    "TOOL_URLS": "{}",
                    "EMBEDDING_DIMENSION": "3",
                    "ALLOWED_EMAIL": "[]",
                    "EMBEDDING_PROVIDER": "local",
                },
                "secrets": ["OPENAI_KEY"],
                "max_instances": {"list_tags": 1, "search-kb": 0},
                "billing_account": "mine",
                "monthly_budget": 0,
                "embedding_dimension": 2049,
                "public_url": "https://carrel.example.com/",
            },
            [
                "Set project in deployment.tfvars.json",
                "Set region in deployment.tfvars.json",
                "It cannot be changed later",
                "Name OPENAI_API_KEY in secrets",
                "Leave EMBEDDING_DIMENSION, TOOL_URLS out of settings",
                "No function reads ALLOWED_EMAIL",
                "Set EMBEDDING_PROVIDER in settings to vertex, or to openai for any endpoint",
                "No function takes OPENAI_KEY as a secret",
                "There is no function list_tags for max_instances",
                "max_instances to whole numbers, 1 or more",
                "gcloud billing accounts list",
                "a whole number, 1 or more",
                "at most 2048",
                "without a path",
            ],
        ),
        (  # Terraform compares them with valid max_instances only
            {"manifest": "manifest.json", "min_instances": {"search_kb": 1, "search-kb": 11}},
            [
                "There is no function search_kb for min_instances",
                "no more than the function's max_instances",
            ],
        ),
    ],
    ids=["missing", "invalid", "min_instances"],
)
def test_errors_of_variables_say_what_to_set(
    terraform: Run, folder: Path, variables: dict[str, Any], expected: list[str]
) -> None:
    file = folder / "variables.tfvars.json"
    file.write_text(json.dumps(variables))
    process = terraform("plan", "-input=false", f"-var-file={file}")
    assert process.returncode == 1
    errors = " ".join(line.strip("│╷╵ ") for line in process.stderr.splitlines())
    assert [text for text in expected if text not in errors] == [], errors
