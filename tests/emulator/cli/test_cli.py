"""The `carrel` command without a database: its errors, its defaults and its generated files."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner, Result

from infra.cli.main import main
from infra.local.local_database import PROJECT
from shared.core.target import TargetKind, get_target
from tests.support.ports import find_free_port


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables that point to the tests' own database."""
    for name in ("FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "LEASE_SECONDS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def run_carrel(*arguments: str) -> Result:
    """Run the command in this process. It sets environment variables that are missing."""
    return CliRunner().invoke(main, arguments)


def test_arguments_that_are_not_json_are_refused() -> None:
    result = run_carrel("call", "search_kb", "{query: 1}")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "ARGUMENTS is not JSON" in result.stderr


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    result = run_carrel("call", "update_task", f'{{"description": {number}}}')
    assert result.exit_code == 1
    assert f"{number} is not a finite number" in result.stderr


def test_a_call_without_a_server_says_how_to_start_one() -> None:
    url = f"http://127.0.0.1:{find_free_port()}/mcp"
    result = run_carrel("call", "search_kb", "{}", "--url", url)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"Nothing answers at {url}. Start Carrel with `make run`, or pass --url" in result.stderr


@pytest.mark.parametrize("command", ["up", "doctor"])
@pytest.mark.parametrize("port", ["0", "99999"])
def test_a_port_out_of_range_is_refused(command: str, port: str) -> None:
    result = run_carrel(command, "--port", port)
    assert result.exit_code == 2
    assert f"Invalid value for '--port': {port} is not in the range 1<=x<=65535." in result.stderr


def test_a_job_without_a_database_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"127.0.0.1:{find_free_port()}"
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)
    result = run_carrel("jobs", "run", "embed")
    assert result.exit_code == 1
    assert f"no emulator answers at {host}. Start one there, or unset" in result.stderr


def test_the_generated_files_are_up_to_date() -> None:
    result = run_carrel("generate", "--check")
    assert result.exit_code == 0, result.output
    assert result.output == ""


def test_commands_use_the_local_database_by_default() -> None:
    run_carrel("generate", "--check")  # any command sets the defaults
    target = get_target()
    assert target
    assert target.kind is TargetKind.EMBEDDED
    assert os.environ["GOOGLE_CLOUD_PROJECT"] == PROJECT
