"""The commands that `cloudbuild.yaml` runs exist, and the build provides what they need."""

import re
from typing import Any, Final

import click
import pytest
import yaml

from infra.build.discovery import ROOT
from infra.cli.main import main
from infra.cloud.bucket import Bucket
from infra.cloud.deployment import FILE_NAME
from infra.cloud.smoke_key import SECRET_NAME

BUILD: Final[dict[str, Any]] = yaml.safe_load((ROOT / "cloudbuild.yaml").read_text("utf-8"))
STEPS: Final[dict[str, dict[str, Any]]] = {step["id"]: step for step in BUILD["steps"]}
SCRIPT_LINES: Final = [
    line for step in STEPS.values() for line in str(step.get("script", "")).splitlines()
]
MAKEFILE: Final = (ROOT / "Makefile").read_text("utf-8")


def parse_seconds(text: str) -> int:
    """Parse a duration such as `600s`."""
    return int(text.removesuffix("s"))


def test_the_steps_are_in_order() -> None:
    checks = ["terraform", "python", "check", "test", "test-slow"]
    expected = [*checks, "deployment", "stage", "release"]
    assert list(STEPS) == expected


@pytest.mark.parametrize("line", [line for line in SCRIPT_LINES if line.startswith("make ")])
def test_every_make_target_of_the_build_exists(line: str) -> None:
    target = line.split()[1]
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in SCRIPT_LINES if line.startswith("carrel ")])
def test_every_command_of_the_build_exists(line: str) -> None:
    _, name, *arguments = line.split()
    command = main.get_command(click.Context(main), name)
    assert command
    context = command.make_context(name, list(arguments), parent=click.Context(main))
    assert context.info_name == name


@pytest.mark.usefixtures("storage")
def test_the_build_finds_the_deployment_and_the_key() -> None:
    name = Bucket("the-project").name.replace("the-project", "$PROJECT_ID")
    assert STEPS["deployment"]["args"] == ["storage", "cp", f"gs://{name}/{FILE_NAME}", "."]
    [secret] = BUILD["availableSecrets"]["secretManager"]
    assert secret["versionName"] == f"projects/$PROJECT_ID/secrets/{SECRET_NAME}/versions/latest"
    assert STEPS["release"]["secretEnv"] == [secret["env"]]
    assert not any("secretEnv" in step for step in STEPS.values() if step["id"] != "release")


def test_all_steps_with_the_environment_have_the_same_image() -> None:
    images = {step["name"] for step in STEPS.values() if "script" in step}
    assert images == {STEPS["check"]["name"]}


def test_the_builds_time_limit_covers_those_of_its_steps() -> None:
    total_seconds = sum(parse_seconds(step["timeout"]) for step in STEPS.values())
    assert total_seconds <= parse_seconds(BUILD["timeout"])


def test_terraform_creates_the_account_of_builds() -> None:
    match = re.search(r"serviceAccounts/([a-z-]+)@", BUILD["serviceAccount"])
    assert match
    configuration = (ROOT / "infra" / "terraform" / "deployer.tf").read_text("utf-8")
    assert f'"{match[1]}"' in configuration
    assert BUILD["options"]["logging"] == "CLOUD_LOGGING_ONLY"
