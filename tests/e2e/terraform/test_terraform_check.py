"""The check of Terraform's files reports their problems, also if Terraform is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from infra.build.discovery import ROOT
from infra.build.terraform_check import FOLDER, check, describe_skipped_checks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.terraform_deployment import Deployment

pytestmark = pytest.mark.slow

VARIABLE = """variable "region" {
  type = string

  validation {
    condition     = var.region != ""
    error_message = "Set it."
  }
}
"""
BUCKET = """resource "google_storage_bucket" "texts" {
  name     = "texts"
  location = var.region
}
"""


def make_folder(folder: Path, **texts: str) -> Path:
    """Make a folder with these files."""
    for name, text in texts.items():
        (folder / f"{name}.tf").write_text(text, "utf-8")
    return folder


def test_the_files_of_the_repository_pass() -> None:
    assert check(FOLDER) == []


def test_consistent_files_pass(tmp_path: Path) -> None:
    assert check(make_folder(tmp_path, variables=VARIABLE, storage=BUCKET)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('output "x" {\n  value = var.zone\n}\n', "more.tf: var.zone is not defined"),
        ('output "x" {\n  value = local.zone\n}\n', "more.tf: local.zone is not defined"),
        (
            'output "x" {\n  value = "gs://${google_storage_bucket.bulk.name}/bulk"\n}\n',
            "more.tf: google_storage_bucket.bulk is not defined",
        ),
        (
            'output "x" {\n  value = data.google_project.here.number\n}\n',
            "more.tf: data.google_project.here is not defined",
        ),
        (
            'resource "google_storage_bucket" "b" {\n  name = google_storage_bucket.more.id\n}\n',
            "more.tf: google_storage_bucket.more is not defined",
        ),
        ('locals {\n  zone = "a"\n}\n', "more.tf: local.zone is not used"),
        ('variable "zone" {}\n', "more.tf: var.zone is not used"),
        (BUCKET, "storage.tf: google_storage_bucket.texts is defined in more.tf too"),
    ],
)
def test_each_problem_names_its_file(tmp_path: Path, text: str, fault: str) -> None:
    folder = make_folder(tmp_path, variables=VARIABLE, storage=BUCKET, more=text)
    assert check(folder) == [fault]


def test_a_variable_used_only_in_its_validation_is_unused(tmp_path: Path) -> None:
    assert check(make_folder(tmp_path, variables=VARIABLE)) == [
        "variables.tf: var.region is not used"
    ]


def test_a_syntax_error_is_reported(tmp_path: Path) -> None:
    [fault] = check(make_folder(tmp_path, broken='output "x" {\n  value = (1\n'))
    assert fault.startswith("broken.tf: Unexpected token")


def test_an_unknown_variable_in_the_example_is_reported(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, variables=VARIABLE, storage=BUCKET)
    (folder / "example.tfvars.json").write_text(json.dumps({"region": "", "zone": ""}), "utf-8")
    assert check(folder) == ["example.tfvars.json: there is no variable zone"]


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_an_unformatted_file_is_reported(tmp_path: Path) -> None:
    text = BUCKET.replace("name     =", "name =")
    folder = make_folder(tmp_path, variables=VARIABLE, storage=text)
    assert check(folder) == ["storage.tf: run `terraform fmt`"]


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_skipped_checks_are_reported(tmp_path: Path) -> None:
    assert "`terraform validate` did not run" in describe_skipped_checks(tmp_path)


def test_without_terraform_the_other_checks_run(tmp_path: Path) -> None:
    problems = run_check(make_folder(tmp_path, variables=VARIABLE), {"PATH": ""})
    assert problems == [
        "variables.tf: var.region is not used",
        "Terraform is not installed, so its formatter and validation did not run.",
    ]


def test_errors_of_the_provider_are_reported(
    initialized_deployment: Deployment, tmp_path: Path
) -> None:
    folder = initialized_deployment.copy_to(tmp_path).folder / "infra" / "terraform"
    assert run_check(folder, initialized_deployment.environment) == []
    file = folder / "schedules.tf"
    file.write_text(file.read_text("utf-8").replace("time_zone ", "timezone  "), "utf-8")
    assert run_check(folder, initialized_deployment.environment) == ["Unsupported argument"]


def run_check(folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Run the program on a folder; return the problems that it prints."""
    process = subprocess.run(
        [sys.executable, "-m", "infra.build.terraform_check", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    problems = process.stderr.splitlines()
    assert bool(process.returncode) == bool(problems)
    return problems
