"""`carrel deploy` asks the user at a terminal, and without a terminal says what to provide."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from infra.build.discovery import ROOT
from infra.cli.deploy import deploy, describe_budget, destroy
from infra.cloud import deployment
from infra.cloud.deployment import Deployment, parse_deployment, parse_valid_deployment
from infra.cloud.errors import CommandFailed
from infra.cloud.prompts import ask_for_deployment, confirm, confirm_project
from tests.support.deploying_checkout import SECRET_VALUE, get_message

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = ROOT / "infra" / "terraform" / "example.tfvars.json"


def run_at_terminal(program: str, *lines: str) -> tuple[int, str]:
    """Run a program at a terminal, type these lines, and return its exit code and output."""
    terminal, program_end = pty.openpty()
    command = [sys.executable, "-c", f"from infra.cloud import prompts; {program}"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=program_end, stdout=program_end, stderr=program_end
    ) as process:
        os.close(program_end)
        os.write(terminal, "".join(f"{line}\n" for line in lines).encode())
        screen = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(terminal, 4096):
                screen += part
    os.close(terminal)
    return process.returncode, screen.decode()


def test_a_first_deployment_asks_all_questions() -> None:
    program = "print(prompts.ask_for_deployment(None).to_json())"
    code, screen = run_at_terminal(program, "my-carrel-123", "", "eur3", "ada@example.com", "7")
    answers = json.loads(screen[screen.index("{") :])
    assert code == 0
    assert {
        "project": "my-carrel-123",
        "region": "europe-west1",
        "firestore_location": "eur3",
        "alert_email": "ada@example.com",
        "monthly_budget": 7,
    }.items() <= answers.items()
    assert answers["settings"]["EMBEDDING_PROVIDER"] == "vertex"


def test_a_budget_is_a_whole_number_or_empty() -> None:
    program = "print(prompts.ask_for_deployment('my-carrel-123').to_json())"
    default_answers = ("", "", "")
    code, screen = run_at_terminal(program, *default_answers, "7.50", "none", "0", "")
    assert code == 0
    assert screen.count("a whole number, such as 10, or nothing") == 3
    assert "monthly_budget" not in json.loads(screen[screen.index("{") :])


def test_an_invalid_answer_is_asked_for_again() -> None:
    program = "print(prompts.ask_for_deployment(None).to_json())"
    valid_answers = ["my-carrel-123", "europe-west4", "eur3", "ada@example.com", ""]
    lines = [line for answer in valid_answers for line in ("-5", answer)]
    code, screen = run_at_terminal(program, *lines)
    assert code == 0
    expected = [
        "a project's id has 6 to 30 lower-case letters, digits and hyphens, such as my-carrel-123",
        "write a region of Cloud Run, such as europe-west1",
        "write a location of Firestore, such as europe-west1 or eur3",
        "write an e-mail address, such as you@example.com",
        "write a whole number, such as 10, or nothing",
    ]
    assert re.findall("Error: (.+?)\r", screen) == expected

    answers = json.loads(screen[screen.index("{") :])
    assert {
        "project": "my-carrel-123",
        "region": "europe-west4",
        "firestore_location": "eur3",
        "alert_email": "ada@example.com",
    }.items() <= answers.items()


def test_an_invalid_project_option_is_rejected_first() -> None:
    code, screen = run_at_terminal("prompts.ask_for_deployment('5')", "", "", "", "")
    assert code == 1
    assert "--project: a project's id has 6 to 30" in screen
    assert "Region" not in screen


@pytest.mark.parametrize(
    ("changes", "is_first", "expected"),
    [
        ({"monthly_budget": 7}, True, "gets an e-mail when a month costs more than 7"),
        ({}, True, "No budget is set"),
        ({"monthly_budget": 7}, False, "No budget is set"),
        ({"billing_account": "A", "monthly_budget": 7}, False, "costs more than 7"),
        ({"billing_account": "A"}, False, "costs more than 10"),
    ],
)
def test_the_summary_says_whether_costs_raise_an_alert(
    changes: dict[str, object], expected: str, *, is_first: bool
) -> None:
    choices = Deployment.model_validate({"project": "my-carrel-123", **changes})
    assert expected in describe_budget(choices, new=is_first)


def test_a_secret_is_typed_without_echo() -> None:
    program = f"assert prompts.ask_for_secret('READWISE_TOKEN') == {SECRET_VALUE!r}"
    terminal, program_end = pty.openpty()
    command = [sys.executable, "-c", f"from infra.cloud import prompts; {program}"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=program_end, stdout=program_end, stderr=program_end
    ) as process:
        os.close(program_end)
        screen = b""
        while b"not shown" not in screen:  # only then is the echo off
            screen += os.read(terminal, 4096)
        os.write(terminal, f"{SECRET_VALUE}\n".encode())
        with suppress(OSError):
            while part := os.read(terminal, 4096):
                screen += part
    os.close(terminal)
    assert process.returncode == 0
    assert SECRET_VALUE not in screen.decode()


def test_deploying_needs_a_yes() -> None:
    code, screen = run_at_terminal("prompts.confirm('Deploy?', yes=False)", "n")
    assert code == 1
    assert "Nothing was changed." in screen
    assert run_at_terminal("prompts.confirm('Deploy?', yes=False)", "y")[0] == 0


def test_without_a_terminal_the_yes_option_is_required() -> None:
    with pytest.raises(CommandFailed, match="To accept: --yes"):
        confirm("Deploy?", yes=False)
    confirm("Deploy?", yes=True)


def test_without_a_terminal_a_deployment_file_is_required() -> None:
    with pytest.raises(CommandFailed) as failure:
        ask_for_deployment(None)
    assert "cp infra/terraform/example.tfvars.json deployment.tfvars.json" in get_message(failure)


@pytest.mark.parametrize(("answer", "code"), [("my-carrel-123", 0), ("y", 1), ("", 1)])
def test_only_the_whole_project_id_confirms_a_teardown(answer: str, code: int) -> None:
    @click.command()
    def tear_down() -> None:
        confirm_project("my-carrel-123")

    assert CliRunner().invoke(tear_down, input=f"{answer}\n").exit_code == code


def test_the_example_is_a_valid_deployment() -> None:
    assert parse_valid_deployment(EXAMPLE.read_bytes(), EXAMPLE.name).project == "my-carrel-123"


def test_a_deployment_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = Deployment(
        project="my-carrel-123",
        settings={"EMBEDDING_PROVIDER": "openai"},
        secrets=("OPENAI_API_KEY",),
        monthly_budget=5,
        min_instances={"gateway": 1},
        max_instances={"search-kb": 20},
    )
    path = tmp_path / "deployment.tfvars.json"
    deployment.save_deployment(written, path)
    assert deployment.load_deployment(path) == written
    assert [path.name for path in tmp_path.iterdir()] == ["deployment.tfvars.json"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"project": "My Project"}', "project: a project's id has 6 to 30"),
        ('{"project": "my-carrel-123", "regoin": "x"}', "regoin: Extra inputs are not permitted"),
        ('{"project": "my-carrel-123", "secrets": ["X"]}', "secrets.0: Input should be"),
        (
            '{"project": "my-carrel-123", "settings": {"ALLOWED_EMAILS": ["ada@example.com"]}}',
            r'''for example, "ALLOWED_EMAILS": "[\"you@example.com\"]"''',
        ),
        ('{"project": "my-carrel-123", "min_instances": {"gateway": -1}}', "min_instances.gateway"),
        ('{"project": "my-carrel-123", "alert_email": "5"}', "alert_email: write an e-mail"),
        ("{", "Invalid JSON"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_field(text: str, expected: str) -> None:
    with pytest.raises(CommandFailed) as failure:
        parse_deployment(text, "deployment.tfvars.json")
    assert expected in get_message(failure)


@pytest.mark.skipif(deployment.FILE.exists(), reason="this checkout has been deployed")
def test_without_a_deployment_commands_change_nothing() -> None:
    result = CliRunner().invoke(deploy, ["--yes"])
    assert result.exit_code == 1
    assert "There is no deployment.tfvars.json" in result.output
    result = CliRunner().invoke(destroy)
    assert result.exit_code == 1
    assert "has no deployment" in result.output
