"""`carrel deploy` asks the person at the terminal for consent and secrets, and nothing else."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from infra.build.discovery import ROOT
from infra.cli.deploy import deploy, destroy, format_summary, smoke
from infra.cloud import deployment
from infra.cloud.deployment import EXAMPLE, Deployment, load_deployment, parse_deployment

SECRET_VALUE = "typed-by-a-person-and-seen-by-nobody"
FIELDS = {"project": "my-carrel-123", "settings": {"EMBEDDING_PROVIDER": "vertex"}}
"""A valid deployment."""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"monthly_budget": 7}, "No budget is set"),
        ({"billing_account": "A", "monthly_budget": 7}, "costs more than 7"),
        ({"billing_account": "A"}, "costs more than 10"),
    ],
)
def test_the_summary_says_whether_costs_raise_an_alert(
    changes: dict[str, object], expected: str
) -> None:
    assert expected in format_summary(Deployment.model_validate({**FIELDS, **changes}))


def test_a_secret_is_typed_without_echo() -> None:
    program = f"assert ask_for_secret('READWISE_TOKEN') == {SECRET_VALUE!r}"
    terminal, program_end = pty.openpty()
    command = [sys.executable, "-c", f"from infra.cli.deploy import ask_for_secret; {program}"]
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


@pytest.fixture
def deployment_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout with a deployment, on a machine without Google credentials."""
    path = tmp_path / "deployment.tfvars.json"
    path.write_text(Deployment.model_validate(FIELDS).model_dump_json())
    monkeypatch.setattr("infra.cli.deploy.load_deployment", lambda: load_deployment(path))
    monkeypatch.setattr("infra.cli.deploy._open_cloud", lambda _: None)


@pytest.mark.usefixtures("deployment_file")
@pytest.mark.parametrize("answer", ["n\n", ""])
def test_deploying_needs_a_yes(answer: str) -> None:
    result = CliRunner().invoke(deploy, input=answer)
    assert "Deploy? [y/N]" in result.output
    assert "Aborted!" in result.output
    assert result.exit_code == 1


@pytest.mark.usefixtures("deployment_file")
@pytest.mark.parametrize("answer", ["y", ""])
def test_only_the_whole_project_id_confirms_a_teardown(answer: str) -> None:
    result = CliRunner().invoke(destroy, ["--delete-data"], input=f"{answer}\n")
    assert result.exit_code == 1
    assert "That is not the project id. Nothing was changed." in result.output


def test_the_example_is_a_valid_deployment() -> None:
    text = (ROOT / EXAMPLE).read_bytes()
    assert parse_deployment(text, EXAMPLE).project == "my-carrel-123"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"project": "My Project"}', "project: String should match pattern"),
        ('{"project": "my-carrel-123", "regoin": "x"}', "regoin: Extra inputs are not permitted"),
        ('{"project": "my-carrel-123", "protect_data": false}', "protect_data: Extra inputs"),
        ('{"project": "my-carrel-123", "secrets": ["X"]}', "secrets.0: Input should be"),
        (
            '{"project": "my-carrel-123", "settings": {"ALLOWED_EMAILS": ["ada@example.com"]}}',
            r'''for example, "ALLOWED_EMAILS": "[\"you@example.com\"]"''',
        ),
        ('{"project": "my-carrel-123", "min_instances": {"gateway": -1}}', "min_instances.gateway"),
        ('{"project": "my-carrel-123", "alert_email": "5"}', "alert_email: String should match"),
        ("{", "Invalid JSON"),
    ],
)
def test_an_invalid_file_is_rejected_with_its_field(text: str, expected: str) -> None:
    with pytest.raises(click.ClickException) as failure:
        parse_deployment(text, "deployment.tfvars.json")
    assert expected in str(failure.value)


@pytest.mark.skipif(deployment.FILE.exists(), reason="this checkout has been deployed")
@pytest.mark.parametrize("command", [deploy, destroy, smoke])
def test_without_a_deployment_file_a_command_names_the_example(command: click.Command) -> None:
    result = CliRunner().invoke(command)
    assert result.exit_code == 1
    assert f"Run `cp {EXAMPLE} deployment.tfvars.json` and edit the copy." in result.output
