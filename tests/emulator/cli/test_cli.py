"""The `carrel` command without a database: its errors, its defaults and its generated files."""

import os

import pytest

from infra.local.local_database import PROJECT
from shared.core.target import TargetKind, get_target
from tests.support.commands import expect_error, run_carrel
from tests.support.ports import find_free_port


@pytest.fixture(autouse=True)
def bare_environment(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it runs first
    """Unset the variables that point to the tests' own database."""
    for name in ("FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "LEASE_SECONDS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_arguments_that_are_not_json_are_refused() -> None:
    assert "ARGUMENTS is not JSON" in expect_error("call", "search_kb", "{query: 1}")
    for number in ("1e999", "NaN", "-Infinity"):
        error = expect_error("call", "update_task", f'{{"description": {number}}}')
        assert f"{number} is not a finite number" in error


def test_a_command_without_a_server_or_database_says_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = f"127.0.0.1:{find_free_port()}"
    url = f"http://{host}/mcp"
    error = expect_error("call", "search_kb", "{}", "--url", url)
    assert f"Nothing answers at {url}. Start Carrel with `make run`, or pass --url" in error
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)
    error = expect_error("jobs", "run", "embed")
    assert f"no emulator answers at {host}. Start one there, or unset" in error


@pytest.mark.parametrize("command", ["up", "doctor"])
@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_out_of_range_is_refused(command: str, port: str) -> None:
    message = f"Invalid value for '--port': {port} is not in the range 1<=x<=65535."
    assert message in expect_error(command, "--port", port, code=2)


@pytest.mark.parametrize("command", [("forget",), ("materials", "list", "Ann")], ids=str)
def test_commands_in_the_cloud_need_no_embedding_provider(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.delenv("EMBEDDING_PROVIDER", raising=False)
    result = run_carrel("--cloud", *command)
    assert "Name sources by SOURCE_ID" in result.stderr or "not a user id" in result.stderr


def test_the_generated_files_are_up_to_date() -> None:
    """And the command, as any other, uses the local database by default."""
    result = run_carrel("generate", "--check")
    assert (result.exit_code, result.output) == (0, "")
    target = get_target()
    assert target
    assert target.kind is TargetKind.EMBEDDED
    assert os.environ["GOOGLE_CLOUD_PROJECT"] == PROJECT
